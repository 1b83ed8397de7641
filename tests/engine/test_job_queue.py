"""The queue of a sweep: which job starts next and where, what makes it start, and how it goes on with another engine."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import msgspec
import psutil
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from gmg_tui import session
from gmg_tui import session as sessions
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.engine.attempts.attempt import Outcome
from gmg_tui.engine.scheduling import queue_scheduler, slot_board
from gmg_tui.engine.scheduling.allotment import Allotment, allot
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs import job_queue
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.model import (
    Attempt,
    Checkpoint,
    JobRecord,
    QueueAction,
    RestartMode,
    RunSpec,
    Slot,
    SweepSpec,
    TuneSpec,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tried import TriedArguments
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from gmg_tui.session.store.database import MetricsRow
from gmg_tui.session.store.writer import StoreWriter
from tests.patience import LONG_S, eventually
from tests.session.store import records

from .harness import program, running, sweep_for


def queue_of(number: int) -> JobQueue:
    return JobQueue(JobRecord(n, f"job-{n}", position=float(n)) for n in range(1, number + 1))


def _head(queue: JobQueue, slot: str) -> JobRecord | None:
    """The first waiting job that may run on a slot."""
    return next((job for job in queue.next_jobs() if job.only in (None, slot)), None)


def run(queue: JobQueue, *, state: WorkerState = WorkerState.FINISHED, elapsed_s: float = 10.0) -> int:
    head = _head(queue, "gpu0")
    record = queue.occupy(head.number)
    queue.release(structs.replace(record, state=state, elapsed_s=elapsed_s, ended=1.0))
    return record.number


def drained(queue: JobQueue) -> list[int]:
    """The numbers of all jobs that still wait, in the order in which they would run."""
    numbers = []
    while _head(queue, "gpu0") is not None:
        numbers.append(run(queue))
    return numbers


def test_a_job_that_could_not_use_its_gpu_returns_to_its_place_in_the_queue() -> None:
    queue = queue_of(3)
    taken = [queue.occupy(1), queue.occupy(2)]
    queue.release(structs.replace(taken[1], state=WorkerState.WAITING))
    queue.release(structs.replace(taken[0], state=WorkerState.WAITING))
    assert drained(queue) == [1, 2, 3]


def test_the_time_left_is_estimated_from_finished_jobs() -> None:
    queue = queue_of(6)
    assert queue.eta_s({}, 2) is None
    run(queue, elapsed_s=10.0)
    run(queue, elapsed_s=20.0)
    queue.occupy(3)
    assert queue.eta_s({3: 5.0}, 2) == pytest.approx((3 * 15.0 + 10.0) / 2)
    assert queue.eta_s({3: 5.0}, 100) == pytest.approx(10.0), "a job cannot be shared out"
    while queue.waiting:
        queue.occupy(next(queue.next_jobs()).number)
    running_s = dict.fromkeys(range(3, 7), 16.0)
    assert queue.eta_s(running_s, 2) is None, "what runs takes longer than any job before"


def test_a_reloaded_queue_keeps_ended_jobs() -> None:
    records = [
        JobRecord(1, "a", state=WorkerState.FINISHED, elapsed_s=4.0, ended=20.0),
        JobRecord(2, "b", state=WorkerState.FAILED, elapsed_s=2.0, ended=10.0),
        JobRecord(3, "c", position=3.0),
    ]
    queue = JobQueue(records)
    assert queue.ordered_numbers() == [2, 1, 3]
    assert (queue.waiting, queue.count_ended(WorkerState.FINISHED), queue.count_ended(WorkerState.FAILED)) == (1, 1, 1)


def jobs_of(*widths: int) -> list[JobRecord]:
    return [JobRecord(number, f"job-{number}", world_size=width) for number, width in enumerate(widths, 1)]


def slots_of(count: int) -> list[str]:
    return [f"gpu{index}" for index in range(count)]


def test_a_queue_keeps_little_of_jobs_whose_details_are_large() -> None:
    """A node that is not trusted may report them of thousands of jobs."""
    saved = tuple(Checkpoint(f"/runs/{number}.pt", 1.0) for number in range(9))
    last = Attempt(3, memory_peak_mib=100.0, simulator=dict.fromkeys(map(str, range(9000)), ""), checkpoints=saved)
    ended = JobRecord(1, "job-1", state=WorkerState.FINISHED, result={"loss": 0.5}, last=last)
    queue = JobQueue([ended])
    assert queue.records[1] == structs.replace(ended, result=None, last=structs.replace(last, simulator={}))


def test_the_first_job_gets_the_first_slots() -> None:
    assert allot(jobs_of(2, 1), slots_of(3), slots_of(3)) == Allotment(1, ("gpu0", "gpu1"))


def test_a_wide_job_reserves_free_slots_and_is_not_overtaken() -> None:
    assert allot(jobs_of(3, 1, 1), ["gpu1"], slots_of(4)) == Allotment(1, ("gpu1",), missing=2)
    assert allot(jobs_of(3, 1), [], slots_of(4)) == Allotment(1, (), missing=3)


def test_a_job_that_can_never_run_reserves_no_slots() -> None:
    assert allot(jobs_of(4, 1), ["gpu0"], slots_of(3)) == Allotment(2, ("gpu0",))


def test_a_job_bound_to_a_slot_waits_and_others_overtake_it() -> None:
    pinned = JobRecord(1, "a", only="gpu1")
    assert allot([pinned, JobRecord(2, "b")], ["gpu0"], slots_of(2)).job == 2


OTHERS = {QueueAction.RETRY, QueueAction.STOP}
"""Actions that are not for jobs that wait."""


class QueueMachine(RuleBasedStateMachine):
    """Whatever is done to it, no job is lost and none is in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = queue_of(8)
        self.taken: list[JobRecord] = []

    @precondition(lambda self: _head(self.queue, "gpu0") is not None)
    @rule()
    def start(self) -> None:
        head = _head(self.queue, "gpu0")
        self.taken.append(self.queue.occupy(head.number))

    @precondition(lambda self: self.taken)
    @rule(state=st.sampled_from([WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED, WorkerState.WAITING]))
    def end(self, state: WorkerState) -> None:
        self.queue.release(structs.replace(self.taken.pop(), state=state, elapsed_s=1.0))

    @rule(action=st.sampled_from(QueueAction), number=st.integers(1, 8))
    def act(self, action: QueueAction, number: int) -> None:
        try:
            self.queue.act(action, number)
        except GmgError:
            assert self.queue.records[number].state.ended or action in OTHERS or self._holds(number)

    def _holds(self, number: int) -> bool:
        return any(record.number == number for record in self.taken)

    @invariant()
    def every_job_is_in_one_place(self) -> None:
        queue = self.queue
        assert sorted(queue.ordered_numbers()) == list(range(1, 9))
        ended = sum(queue.count_ended(state) for state in WorkerState)
        assert (queue.waiting, queue.running, ended) == (8 - len(self.taken) - ended, len(self.taken), ended)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# What makes the scheduler look for a job to start: a slot that is left, enabled or ready again, and a job that waits again

SPEC = RunSpec("sweep-1", "/state", "/run/sock", "sim.py", (), "/", "python")


class Run:
    """A job without a process, which finds its slot not ready and ends at once."""

    started: list[int]

    def __init__(self, number: int, slot_states: Sequence[EngineSlot], *_: object) -> None:
        self.number, self.engine_slots = number, slot_states
        self.slots = [slot_state.slot.name for slot_state in slot_states]
        self.workers = [
            SimpleNamespace(
                slot=slot_states[0].slot,
                task=SimpleNamespace(job=number),
                unready="not ready",
                outcome=Outcome(unready="not ready"),
                attempt=None,
                sample=None,
            )
        ]
        self.lead = JobRecord(number, "", state=WorkerState.FINISHED, ended=1.0)
        self.rerun_requested = self.stopped = False
        self.group = self.stopped_worker = self.edited_as = None
        self.started.append(number)

    async def run(self) -> None:
        await asyncio.sleep(0)


class Records:
    """Keeps what happens to jobs nowhere."""

    def occupy(self, record: JobRecord, _: object) -> JobRecord:
        return structs.replace(record, state=WorkerState.RUNNING)

    def release(self, lead: JobRecord, _: object = None, **changes: Any) -> JobRecord:
        return structs.replace(lead, **changes)

    def write(self, _: JobRecord) -> None: ...


async def _run_with(source: MagicMock, monkeypatch: pytest.MonkeyPatch) -> JobQueue:
    """Runs one job of a source whose search has ended, on a slot that is not ready. Returns its queue."""
    monkeypatch.setattr(queue_scheduler, "JobRun", Run)
    Run.started = []
    board = SlotBoard({"cpu0": EngineSlot(Slot("cpu0"), 0, 1)}, queue_of(1))
    workplace, records = cast("Any", SimpleNamespace(spec=SPEC)), cast("Any", Records())
    done = asyncio.Event()
    scheduler = QueueScheduler(board, workplace, records, lambda: done.set() if scheduler.ended else None)
    scheduler.source = cast("Any", source)
    task = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(LONG_S):
        while not done.is_set():
            scheduler.wake()
            await asyncio.sleep(0.01)
    task.cancel()
    return board.queue


async def test_a_trial_whose_slot_is_not_ready_does_not_run_after_the_search_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = WorkerState.STOPPED, "the budget is used up"
    queue = await _run_with(MagicMock(ended=True, outcome=lambda _: outcome), monkeypatch)
    assert (Run.started, queue.records[1].state) == ([1], WorkerState.STOPPED)


async def test_a_trial_whose_slot_never_gets_ready_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU whose driver hangs: the search would wait for it for ever."""
    monkeypatch.setattr(slot_board, "_UNREADY_PAUSE_S", 0.01)
    monkeypatch.setattr(queue_scheduler, "_MAX_TRIAL_HOLD_S", 0.04)
    source = MagicMock(ended=False, outcome=lambda _: (WorkerState.STOPPED, "not ready"))
    source.released = lambda record: setattr(source, "ended", record.state.ended)
    queue = await _run_with(source, monkeypatch)
    assert (Run.started, queue.records[1].reason) == ([1, 1, 1], "not ready")


async def test_a_fault_in_the_search_ends_the_search_and_not_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    source = MagicMock(ended=True, outcome=lambda _: (WorkerState.FINISHED, None))
    source.refill.side_effect = source.released.side_effect = ValueError("log of 0")
    await _run_with(source, monkeypatch)
    source.end.assert_called_with("internal error (ValueError: log of 0); see engine.log")


# Commands that come when a job has just got its slot, or has ended and not left it yet, are for that job

_AT_THE_MOMENT = """
import asyncio, sys
if "gmg_tui.engine" in sys.orig_argv:
    from gmg_tui.jobs.job_queue import JobQueue
    from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
    init, occupy, schedulers = QueueScheduler.__init__, JobQueue.occupy, []
    def remembered(self, *args):
        schedulers.append(self)
        init(self, *args)
    def occupied(self, number):
        if number == 2:
            asyncio.get_running_loop().call_soon(lambda: {command})
        return occupy(self, number)
    QueueScheduler.__init__, JobQueue.occupy = remembered, occupied
"""
_BEFORE_IT_LEAVES = """
import sys
from pathlib import Path
if "gmg_tui.engine" in sys.orig_argv:
    import asyncio
    from gmg_tui.engine.scheduling.scheduler import JobRun
    run = JobRun.run
    async def slowly(self):
        await run(self)
        while not Path({gate!r}).exists():
            await asyncio.sleep(0.01)
    JobRun.run = slowly
"""
FINISHED, STOPPED, WAITING = WorkerState.FINISHED, WorkerState.STOPPED, WorkerState.WAITING


async def _jobs_after(tmp_path: Path, command: str, seconds: float) -> list[JobRecord]:
    (tmp_path / "sitecustomize.py").write_text(_AT_THE_MOMENT.format(command=f"schedulers[0].{command}"))
    spec = sweep_for([{"s": 0.0}, {"s": seconds}, {"s": 0.0}], program("--s", "{s}"), cpu=1)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_done()
        assert "Traceback" not in run.log()
    return reader.load_jobs(Path(spec.folder) / session.STORE)


async def test_the_end_of_the_session_stops_the_job_which_waits_for_the_next_engine(tmp_path: Path) -> None:
    jobs = await _jobs_after(tmp_path, "end(kill=False, reason=None)", 600.0)
    assert [(job.state, job.last.number) for job in jobs] == [(FINISHED, 1), (WAITING, 0), (WAITING, 0)]
    assert jobs[1].reason == "interrupted: the session was stopped"


@pytest.mark.parametrize(("actions", "attempts"), [(("restart",), 2), (("restart", "stop"), 1)])
async def test_a_restart_of_a_job_that_has_not_left_its_slot_runs_it_again(
    tmp_path: Path, actions: tuple[str, ...], attempts: int
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(_BEFORE_IT_LEAVES.format(gate=str(gate)))
    spec = sweep_for([{}, {}], program("--fail", "3", "--fail-attempts", "1"), cpu=1)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_state("cpu0", WorkerState.FAILED)
        for action in actions:
            await run.client.act(Action(action), "cpu0")
        gate.touch()
        await run.until_done()
    jobs = reader.load_jobs(Path(spec.folder) / session.STORE)
    assert [job.last.number for job in jobs] == [attempts, 1]


async def test_a_restart_of_a_trial_that_has_not_left_its_slot_is_refused_and_the_tuning_continues(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(_BEFORE_IT_LEAVES.format(gate=str(gate)))
    spec = sweep_for([], program("--fail", "3"), cpu=1, tune=TuneSpec(), restart=RestartMode.NEVER)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_state("cpu0", WorkerState.FAILED)
        with pytest.raises(GmgError, match="the search decides which trials run"):
            await run.client.act(Action.RESTART, "cpu0")
        gate.touch()
        await run.until(lambda snapshot: snapshot.tuning is not None and snapshot.tuning.ended)
        assert "Traceback" not in run.log()


# A sweep that is gone on with: by one engine, which alone writes what the session has

FAILED, RUNNING = WorkerState.FAILED, WorkerState.RUNNING


def _states(spec: RunSpec) -> list[WorkerState]:
    return [job.state for job in reader.load_jobs(Path(spec.folder) / sessions.STORE)]


async def test_failed_jobs_run_again_on_request() -> None:
    batch = program("--fail", "{code}", "--fail-attempts", "1")
    spec = sweep_for([{"code": 0}, {"code": 3}], batch, cpu=1)
    for retry_failed, states in ((False, [FINISHED, FAILED]), (False, [FINISHED, FAILED]), (True, [FINISHED] * 2)):
        assert spec.sweep is not None
        resumed = structs.replace(spec, sweep=structs.replace(spec.sweep, retry_failed=retry_failed))
        async with running(resumed) as run:
            await run.until_done()
        assert _states(spec) == states
    first, second = reader.load_jobs(Path(spec.folder) / sessions.STORE)
    assert (first.last.number, second.last.number, second.last.exit_code, second.reason) == (1, 2, 0, None)


async def test_a_job_ended_together_with_its_engine_is_requeued() -> None:
    """As by Slurm, which sends SIGTERM to all processes of its job; a job receives it as soon as the engine, or sooner."""
    spec = sweep_for([{"s": 600}, {"s": 600}], program("--s", "{s}"), cpu=2)
    async with running(spec) as run:
        await run.until(lambda _: run.queue.running == 2 and all(worker.pid for worker in run.snapshot.workers))
        jobs = [psutil.Process(worker.pid) for worker in run.snapshot.workers]
        for job in jobs:
            job.terminate()
        await eventually(lambda: not any(psutil.pid_exists(job.pid) for job in jobs))  # and reaped
        run.process.terminate()
        await run.process.wait()
    assert _states(spec) == [WAITING] * 2
    assert [job.reason for job in reader.load_jobs(Path(spec.folder) / sessions.STORE)] == [
        "interrupted: the session was ended by SIGTERM"
    ] * 2


async def test_a_stopped_job_stays_stopped_although_its_engine_is_killed_as_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import os, signal, time\n"
        "def end(*_): signal.signal(signal.SIGINT, signal.SIG_DFL), os.kill(os.getppid(), signal.SIGKILL)\n"
        "signal.signal(signal.SIGINT, end); print('ready', flush=True)\ntime.sleep(600 if os.environ['GMG_JOB'] == '1' else 0)\n"
    )
    spec = sweep_for([{"x": 1}, {"x": 2}], program(script=str(script)), cpu=1)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("cpu0").last_line == "ready")
        with contextlib.suppress(OSError, GmgError):  # it may be killed before it answers
            await run.client.act(Action.STOP, "cpu0")
        await run.process.wait()
    async with running(spec) as run:
        await run.until_done()
    assert _states(spec) == [STOPPED, FINISHED]


async def test_no_number_of_an_attempt_is_used_twice_although_its_engine_is_killed_as_it_starts(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text('[ "$GMG_ATTEMPT" = 1 ] && kill -9 $PPID\nexit 0\n')
    spec = sweep_for([{"x": 1}], program(script=str(script), python="/bin/sh"), cpu=1)
    async with running(spec) as run:
        await run.process.wait()
    async with running(spec) as run:
        await run.until_done()
    (job,) = reader.load_jobs(Path(spec.folder) / sessions.STORE)
    assert (job.state, job.last.number) == (FINISHED, 2)


@pytest.mark.parametrize("hung", [False, True])
async def test_an_attempt_killed_with_its_engine_ends_with_its_last_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hung: bool
) -> None:
    """Even if another user's disk, mounted where folders of killed engines are looked for, does not answer."""
    path, answers = tmp_path / "store.sqlite", threading.Event()
    if hung:
        monkeypatch.setattr(job_queue, "_MAX_SEARCH_S", 0.1)
        monkeypatch.setattr(job_queue, "read_abandoned", lambda _: answers.wait())
    job = records.finished(1, state=WorkerState.RUNNING, ended=None, slot="cpu0")
    for resumed in (False, True):
        writer = StoreWriter(path, lambda line: None)
        writer.start()
        if resumed:
            queue = job_queue.restore_queue(path, SweepSpec(), 1, writer, TriedArguments())
            assert queue.left == {1: ("cpu0",)}
            assert queue.left_at == records.START + 39, "its last write, though it had written no snapshot"
        else:
            rows = [MetricsRow(records.START + second, "cpu0", 1, 9.0, None, None, None, None) for second in range(40)]
            writer.put(job, records.attempt_of(job, ended=None), *rows)
        await writer.close()
    with reader.open_store(path) as stored:
        (ran,) = stored.attempts_of(1)
    answers.set()
    assert (ran.attempt.state, ran.attempt.ended) == (WorkerState.STOPPED, records.START + 39)


async def test_a_late_second_engine_changes_nothing() -> None:
    spec = sweep_for([{"code": 3, "s": 0}, {"code": 0, "s": 600}], program("--fail", "{code}", "--s", "{s}"), cpu=1)
    async with running(spec) as run:
        await run.until(lambda _: run.queue.failed == 1 and run.worker("cpu0").pid and run.queue.running == 1)
        socket = Path(spec.socket).stat().st_ino
        # Both have found the session ended, and the other one was quicker.
        assert spec.sweep is not None
        again = structs.replace(spec, sweep=structs.replace(spec.sweep, retry_failed=True))
        with PrestartedEngine() as engine:
            engine.send_spec(msgspec.json.encode(again) + b"\nconfirm\n")
            assert b"an engine is already running in" in await asyncio.to_thread(engine.process.stdout.read)
            engine.cancel()
        assert Path(spec.socket).stat().st_ino == socket
        assert _states(spec)[0] is FAILED
        client = await EngineClient.connect(Path(spec.socket))
        await client.close()
