"""The order in which a sweep's jobs run, and which of them starts next, and where."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.scheduling.slot_board import Allotment, allot
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, QueueAction, WorkerState


def queue_of(number: int) -> JobQueue:
    """A queue of `number` jobs."""
    return JobQueue(JobRecord(n, f"job-{n}", position=float(n)) for n in range(1, number + 1))


def _head(queue: JobQueue, slot: str) -> JobRecord | None:
    """The first waiting job that may run on a slot."""
    return next((job for job in queue.next_jobs() if job.only in (None, slot)), None)


def run(queue: JobQueue, *, state: WorkerState = WorkerState.FINISHED, elapsed_s: float = 10.0) -> int:
    """Run the next job. Returns its number."""
    head = _head(queue, "gpu0")
    assert head is not None
    record = queue.take(head.number)
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
    taken = [queue.take(1), queue.take(2)]
    queue.release(structs.replace(taken[1], state=WorkerState.WAITING))
    queue.release(structs.replace(taken[0], state=WorkerState.WAITING))
    assert drained(queue) == [1, 2, 3]


def test_the_time_left_is_estimated_from_finished_jobs() -> None:
    queue = queue_of(6)
    assert queue.eta_s({}, 2) is None
    run(queue, elapsed_s=10.0)
    run(queue, elapsed_s=20.0)
    queue.take(3)
    assert queue.eta_s({3: 5.0}, 2) == pytest.approx((3 * 15.0 + 10.0) / 2)
    assert queue.eta_s({3: 5.0}, 100) == pytest.approx(10.0), "a job cannot be shared out"
    while queue.waiting:
        queue.take(next(queue.next_jobs()).number)
    running_s = dict.fromkeys(range(3, 7), 16.0)
    assert queue.eta_s(running_s, 2) is None, "what runs takes longer than any job before"


def test_a_reloaded_queue_keeps_ended_jobs() -> None:
    records = [
        JobRecord(1, "a", state=WorkerState.FINISHED, elapsed_s=4.0, ended=20.0),
        JobRecord(2, "b", state=WorkerState.FAILED, elapsed_s=2.0, ended=10.0),
        JobRecord(3, "c", position=3.0),
    ]
    queue = JobQueue(records)
    assert queue.order() == [2, 1, 3]
    assert (queue.waiting, queue.ended(WorkerState.FINISHED), queue.ended(WorkerState.FAILED)) == (1, 1, 1)


def jobs_of(*widths: int) -> list[JobRecord]:
    """Waiting jobs that need so many slots at once."""
    return [JobRecord(number, f"job-{number}", world_size=width) for number, width in enumerate(widths, 1)]


def slots_of(count: int) -> list[str]:
    """The names of so many slots."""
    return [f"gpu{index}" for index in range(count)]


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
        assert head is not None
        self.taken.append(self.queue.take(head.number))

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
        assert sorted(queue.order()) == list(range(1, 9))
        ended = sum(queue.ended(state) for state in WorkerState)
        assert (queue.waiting, queue.occupying, ended) == (8 - len(self.taken) - ended, len(self.taken), ended)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
