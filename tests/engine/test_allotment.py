"""Which waiting job starts next, and where: small cases, and whole queues of wide and narrow jobs by simulation."""

from __future__ import annotations

from gmg_tui.engine.scheduling.slot_board import Allotment, allot
from gmg_tui.model import JobRecord


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
