"""Which waiting job starts next, and where: small cases, and whole queues of wide and narrow jobs by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.scheduling.slot_board import Allotment, Reservation, allot
from gmg_tui.model import JobRecord


def jobs_of(*widths: int) -> list[JobRecord]:
    """Waiting jobs that need so many slots at once."""
    return [JobRecord(number, f"job-{number}", gpus=gpus) for number, gpus in enumerate(widths, 1)]


def slots_of(count: int) -> list[str]:
    """The names of so many slots."""
    return [f"gpu{index}" for index in range(count)]


def test_the_first_job_gets_the_first_slots() -> None:
    assert allot(jobs_of(2, 1), slots_of(3), slots_of(3)) == Allotment(1, ("gpu0", "gpu1"))


def test_a_wide_job_reserves_free_slots_and_is_not_overtaken() -> None:
    assert allot(jobs_of(3, 1, 1), ["gpu1"], slots_of(4)) == Allotment(reservation=Reservation(1, ("gpu1",), 2))
    assert allot(jobs_of(3, 1), [], slots_of(4)) == Allotment(reservation=Reservation(1, (), 3))


def test_a_job_that_can_never_run_reserves_no_slots() -> None:
    assert allot(jobs_of(4, 1), ["gpu0"], slots_of(3)) == Allotment(2, ("gpu0",))


def test_a_job_bound_to_a_slot_waits_and_others_overtake_it() -> None:
    pinned = JobRecord(1, "a", only="gpu1")
    assert allot([pinned, JobRecord(2, "b")], ["gpu0"], slots_of(2)).job == 2


class _Ran(NamedTuple):
    number: int
    slots: tuple[str, ...]
    began: float
    ended: float


def _simulate(jobs: Sequence[JobRecord], seconds: Callable[[JobRecord], float], count: int) -> list[_Ran]:
    """Run all jobs, whose times are known beforehand; each gets its slots by `allot`."""
    slots, waiting = slots_of(count), list(jobs)
    running: list[_Ran] = []
    ended: list[_Ran] = []
    now = 0.0
    while waiting or running:
        while True:
            busy = {slot for job_run in running for slot in job_run.slots}
            free = [slot for slot in slots if slot not in busy]
            allotment = allot(waiting, free, slots)
            kept = allotment.reservation
            if allotment.job is None:
                break
            job = waiting[0]
            assert job.number == allotment.job, "nobody passes another"
            assert len(allotment.slots) == job.gpus
            assert set(allotment.slots) <= set(free)
            running.append(_Ran(job.number, allotment.slots, now, now + seconds(job)))
            waiting.remove(job)
        fits = [job for job in waiting if job.gpus <= len(free)]
        assert not fits or kept is not None, "a slot is idle while a job fits, and is kept for nobody"
        assert running, "jobs wait, and nothing runs"
        now = min(job_run.ended for job_run in running)
        ended += [job_run for job_run in running if job_run.ended <= now]
        running = [job_run for job_run in running if job_run.ended > now]
    return ended


@given(
    st.integers(1, 8),
    st.lists(st.sampled_from((1, 1, 1, 2, 2, 3, 4, 8)), min_size=1, max_size=40),
    st.lists(st.sampled_from((1.0, 2.0, 3.0, 5.0, 8.0)), min_size=8, max_size=8),
)
def test_a_queue_of_wide_and_narrow_jobs_runs_in_order(count: int, widths: list[int], seconds: list[float]) -> None:
    jobs = [job for job in jobs_of(*widths) if job.gpus <= count]
    ended = _simulate(jobs, lambda job: seconds[job.gpus - 1], count)
    assert sorted(job_run.number for job_run in ended) == sorted(job.number for job in jobs)
