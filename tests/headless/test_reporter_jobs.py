"""What the reporter prints for a sweep: starts and ends of jobs, and the progress of the queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import Attempt, Fps, JobRecord, Queue, Snapshot, SweepSpec, Worker, WorkerState
from gmg_tui.results.report_text import render_end
from tests.workers import alerts, session_of, worker_of
from tests.workers import changed as replace

_SESSION = session_of("cpu0", "cpu1", name="sweep-1", started=1000.0, sweep=SweepSpec())
_QUEUE = Queue(waiting=5, running=2, finished=2, failed=1, stopped=0, version=1, eta_s=252.0)


def _worker(job: int, slot: str = "cpu0", state: WorkerState = WorkerState.RUNNING, attempt: int = 1) -> Worker:
    return worker_of(slot, 0, state, attempt=attempt, job=job, job_name=f"x={job}")


def _snapshot(*workers: Worker, queue: Queue = _QUEUE, second: float = 0.0) -> Snapshot:
    return Snapshot(1000.0 + second, second, workers, queue=queue)


def _ended(
    number: int, state: WorkerState = WorkerState.FINISHED, attempts: int = 1, fps: Fps | None = None, **changes: object
) -> JobRecord:
    last = Attempt(attempts, fps=fps)
    made = JobRecord(
        number, f"x={number}", state=state, slot="cpu1", last=last, started=1001.0, ended=1063.0, elapsed_s=62.0
    )
    return replace(made, **changes)


class _Queue:
    """The jobs that have ended, as an engine gives them."""

    def __init__(self) -> None:
        self.reporter = Reporter(_SESSION)
        self.ended: list[JobRecord] = []

    def reported(self) -> Iterator[str]:
        queue = replace(_QUEUE, finished=len(self.ended), failed=0)
        assert list(self.reporter.report_changes(Snapshot(0.0, 0.0, (), queue=queue))) == []
        while (first := self.reporter.jobs_reported) < queue.done:
            jobs = [*self.ended, JobRecord(99_999, "waiting")][first : first + 200]
            yield from self.reporter.report_jobs(jobs, queue.jobs)


def test_an_end_shows_state_time_attempts_rate_and_reason() -> None:
    queue = _Queue()
    failed: dict[str, Any] = {"reason": "out of memory", "attempts": 3}
    queue.ended = [_ended(1, fps=Fps(1.0, 1500.0, 1.0, 1)), _ended(2, WorkerState.FAILED, **failed)]
    queue.ended.append(JobRecord(3, "x=3", state=WorkerState.STOPPED, reason="skipped"))
    assert list(queue.reported()) == [
        "cpu1   job 1/10 x=1 finished after 1:02 at 1,500 FPS",
        "cpu1   job 2/10 x=2 failed after 1:02 in 3 attempts: out of memory",
        "       job 3/10 x=3 stopped: skipped",
    ]
    assert list(queue.reported()) == []


def test_no_job_is_reported_twice_while_an_ended_job_is_retried() -> None:
    queue = _Queue()
    queue.ended = [_ended(number) for number in range(1, 51)]
    list(queue.reported())
    del queue.ended[10]  # it waits again, and those behind it have moved up
    assert list(queue.reported()) == []
    queue.ended.append(_ended(51))
    assert list(queue.reported()) == ["cpu1   job 51/57 x=51 finished after 1:02"]
    queue.ended.append(_ended(11, attempts=2))
    assert len(list(queue.reported())) == 1


def test_jobs_that_ended_before_a_resume_are_not_reported_again() -> None:
    queue = _Queue()
    queue.ended = [_ended(1, ended=900.0), _ended(2)]
    assert [line.split()[-1] for line in queue.reported()] == ["1:02"]


def test_the_status_shows_the_counts_of_the_queue_and_the_time_left() -> None:
    reporter = Reporter(_SESSION)
    running = replace(_worker(4), fps=Fps(1500.0, 1.0, 1.0, 1, settled=1500.0))
    assert reporter.status_line(_snapshot(running)) == (
        "sweep-1  Σ 1,500 FPS  3/10 jobs, 2 active, 1 failed  00:00:00  00:04:12 left"
    )
    later = replace(_QUEUE, eta_s=200.0)
    assert reporter.status_line(_snapshot(running, queue=later, second=10)) is None  # nothing but the time has changed


def test_only_unusual_states_are_reported_between_start_and_end() -> None:
    reporter = Reporter(_SESSION)
    for state in (WorkerState.STARTING, WorkerState.BUILDING, WorkerState.RUNNING, WorkerState.STOPPING):
        assert list(reporter.report_changes(_snapshot(_worker(4, state=state)))) == []
    odd = replace(_worker(4), alerts=alerts(stuck="no output for 74 s", cpu="runs on the CPU"))
    assert list(reporter.report_changes(_snapshot(odd))) == [
        "cpu0   ⚠ stuck: no output for 74 s",
        "cpu0   ⚠ cpu: runs on the CPU",
    ]
    again = replace(_worker(4, state=WorkerState.RESTARTING), restart_at=1004.0, reason="out of memory")
    assert list(reporter.report_changes(_snapshot(again))) == [
        "cpu0   restarting in 4 s, attempt 2: out of memory",
        "cpu0   alert cleared: stuck",
        "cpu0   alert cleared: cpu",
    ]
    assert list(reporter.report_changes(_snapshot(replace(_worker(5), alerts=alerts(cpu="runs on the CPU"))))) == [
        "cpu0   ⚠ cpu: runs on the CPU"
    ]


def test_what_a_slot_waits_for_is_reported_once() -> None:
    reporter = Reporter(_SESSION)
    for second in (5, 10):
        idle = replace(
            _worker(4, state=WorkerState.WAITING), job=None, reason=f"for a while: not ready since {second} s"
        )
        lines = list(reporter.report_changes(_snapshot(idle)))
        assert lines == (["cpu0   waiting for a while: not ready since 5 s"] if second == 5 else [])


@pytest.mark.parametrize(
    ("queue", "status"),
    [
        (Queue(0, 0, 5, 0, 0, 1), 0),
        (Queue(0, 0, 4, 1, 0, 1), 1),
        (Queue(0, 0, 4, 0, 1, 1), 130),
        (Queue(2, 0, 3, 0, 0, 1), 130),
    ],
)
def test_every_job_affects_the_exit_status_and_no_slot_table_is_printed(queue: Queue, status: int) -> None:
    snapshot = _snapshot(_worker(4, state=WorkerState.FINISHED), queue=replace(queue, ended=True))
    assert snapshot.exit_status == status
    assert render_end(_SESSION, snapshot) == ["logs: /state/sweep-1/logs/"]
