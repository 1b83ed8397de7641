"""Which waiting job starts next, and where: small cases, and whole queues of wide and narrow jobs by simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.scheduling.allotment import Allotment, Reservation, allot
from gmg_tui.model import JobRecord


def jobs_of(*widths: int) -> list[JobRecord]:
    """Waiting jobs that need so many slots at once."""
    return [JobRecord(number, f"job-{number}", gpus=gpus) for number, gpus in enumerate(widths, 1)]


def slots_of(count: int) -> list[str]:
    """The names of so many slots."""
    return [f"gpu{place}" for place in range(count)]


def _unknown(_: JobRecord) -> float | None:
    return None


def test_the_first_job_gets_the_first_slots() -> None:
    assert allot(jobs_of(2, 1), slots_of(3), slots_of(3), {}, _unknown) == Allotment(1, ("gpu0", "gpu1"))


def test_a_job_that_needs_more_keeps_what_is_free_and_says_what_it_waits_for() -> None:
    found = allot(jobs_of(3, 1, 1), ["gpu1"], slots_of(4), {"gpu0": 9.0, "gpu2": 3.0, "gpu3": 5.0}, _unknown)
    assert found == Allotment(reservation=Reservation(1, ("gpu1",), ("gpu2", "gpu3"), 5.0))


def test_how_long_it_waits_is_not_known_where_one_slots_time_is_not() -> None:
    found = allot(jobs_of(3), [], slots_of(3), {"gpu0": 9.0, "gpu2": 3.0}, _unknown)
    assert found.reservation == Reservation(1, (), ("gpu0", "gpu1", "gpu2"), None)


def test_a_small_job_passes_where_it_ends_before_the_missing_slot_is_free() -> None:
    left_s = {"gpu1": 10.0}
    passed = allot(jobs_of(2, 1), ["gpu0"], slots_of(2), left_s, lambda job: 9.0 if job.gpus == 1 else None)
    assert (passed.job, passed.slots) == (2, ("gpu0",))
    assert allot(jobs_of(2, 1), ["gpu0"], slots_of(2), left_s, lambda job: 11.0).job is None


def test_a_job_that_no_number_of_slots_is_enough_for_keeps_none() -> None:
    assert allot(jobs_of(4, 1), ["gpu0"], slots_of(3), {}, _unknown) == Allotment(2, ("gpu0",))


def test_a_job_waits_for_its_own_slot_and_others_pass() -> None:
    pinned = JobRecord(1, "a", only="gpu1")
    assert allot([pinned, JobRecord(2, "b")], ["gpu0"], slots_of(2), {}, _unknown).job == 2


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
    promised: dict[int, float] = {}
    now = 0.0
    while waiting or running:
        while True:
            busy = {slot: one.ended - now for one in running for slot in one.slots}
            free = [slot for slot in slots if slot not in busy]
            found = allot(waiting, free, slots, busy, seconds)
            kept = found.reservation
            if kept is not None and kept.missing_s is not None:
                promised.setdefault(kept.job, now + kept.missing_s)
            if found.job is None:
                break
            job = next(job for job in waiting if job.number == found.job)
            assert len(found.slots) == job.gpus
            assert set(found.slots) <= set(free)
            running.append(_Ran(job.number, found.slots, now, now + seconds(job)))
            waiting.remove(job)
            assert now <= promised.get(job.number, now) + 1e-6, "smaller jobs have delayed it"
        fits = [job for job in waiting if job.gpus <= len(free)]
        assert not fits or kept is not None, "a slot is idle while a job fits, and is kept for nobody"
        assert running, "jobs wait, and nothing runs"
        now = min(one.ended for one in running)
        ended += [one for one in running if one.ended <= now]
        running = [one for one in running if one.ended > now]
    return ended


@given(
    st.integers(1, 8),
    st.lists(st.sampled_from((1, 1, 1, 2, 2, 3, 4, 8)), min_size=1, max_size=40),
    st.lists(st.sampled_from((1.0, 2.0, 3.0, 5.0, 8.0)), min_size=8, max_size=8),
)
def test_a_queue_of_wide_and_narrow_jobs_ends_and_nobody_is_delayed(
    count: int, widths: list[int], seconds: list[float]
) -> None:
    jobs = [job for job in jobs_of(*widths) if job.gpus <= count]
    ended = _simulate(jobs, lambda job: seconds[job.gpus - 1], count)
    assert sorted(one.number for one in ended) == sorted(job.number for job in jobs)


def test_two_hundred_jobs_on_eight_slots() -> None:
    widths = [(1, 2, 1, 4, 1, 1, 8, 2, 1, 1)[number % 10] for number in range(200)]
    ended = _simulate(jobs_of(*widths), lambda job: 1.0 + job.number % 7, 8)
    assert len(ended) == 200
    for slot in slots_of(8):
        mine = sorted((one for one in ended if slot in one.slots), key=lambda one: one.began)
        for earlier, later in itertools.pairwise(mine):
            assert earlier.ended <= later.began
