"""The choice of the next job and its slots."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gmg_tui.model import JobRecord


class Allotment(NamedTuple):
    """The next job with its slots, or with those reserved for it while it waits for more."""

    job: int | None = None
    """Number of the job; None if none can start or has slots reserved."""
    slots: tuple[str, ...] = ()
    """Its slots in order, or those reserved for it."""
    missing: int = 0
    """Number of slots that it still needs."""


def allot(
    jobs: Iterable[JobRecord],
    free: Sequence[str],
    usable: Sequence[str],
    may_run: Callable[[JobRecord, str], bool] = lambda *_: True,
) -> Allotment:
    """Returns the first waiting job that can start or reserve slots: first come, first served.

    A job that needs several slots reserves free ones until it has enough; otherwise smaller jobs behind it would take each
    slot as it becomes free, and the job would wait forever.

    `free` slots are ready now, `usable` ones now or later; `may_run` excludes further slots for a given job.
    """
    refused: set[tuple[object, ...]] = set()
    for job in jobs:
        allowed = tuple(slot for slot in usable if may_run(job, slot))
        requirement = job.width, job.only, allowed
        if requirement in refused:
            continue
        fitting = [slot for slot in free if job.only in (None, slot) and slot in allowed]
        if len(fitting) >= job.width:
            return Allotment(job.number, tuple(fitting[: job.width]))
        refused.add(requirement)
        if job.only is None and 1 < job.width <= len(allowed):
            return Allotment(job.number, tuple(fitting), job.width - len(fitting))
        if not free:
            break
    return Allotment()


def suffices(slots: Sequence[str], width: int, only: str | None) -> bool:
    """Returns True if there are enough slots for a job of this width, among them the one it requires, if any."""
    return sum(only in (None, name) for name in slots) >= width
