"""Which waiting job starts next, and on which slots: a pure function of what is free.

A job that needs several slots at once holds those that are free until it has enough, or smaller jobs behind it would
take each slot as it comes free, and it would wait for ever. A smaller one may pass on a slot that is held only where
the times of earlier jobs say that it ends before the last of the missing slots is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gmg_tui.model import JobRecord


class Reservation(NamedTuple):
    """The slots that are kept for the first waiting job that needs more than are free."""

    job: int
    """Its number."""
    held: tuple[str, ...]
    """Slots that are free, and left so."""
    missing: tuple[str, ...]
    """Slots that it waits for."""
    missing_s: float | None
    """In how many seconds these are free, as far as the times of earlier jobs tell; None where they do not."""


class Allotment(NamedTuple):
    """What can be done at this moment."""

    job: int | None = None
    """Number of the job that starts; None where none can."""
    slots: tuple[str, ...] = ()
    """Where it starts, in the order of the slots."""
    reservation: Reservation | None = None


def allot(
    jobs: Iterable[JobRecord],
    free: Sequence[str],
    usable: Sequence[str],
    left_s: Mapping[str, float],
    longest_s: Callable[[JobRecord], float | None],
) -> Allotment:
    """The first waiting job that can start.

    Args:
        jobs: Those that wait, the next first.
        free: The slots on which a job could start now.
        usable: All slots on which jobs may start sooner or later, the free ones among them.
        left_s: In how many seconds a slot is expected to be free, where that is known.
        longest_s: The longest that jobs like this one have taken, seconds; None where too few have ended.
    """
    reservation: Reservation | None = None
    refused: set[tuple[int, str | None]] = set()
    for job in jobs:
        kind = job.gpus, job.only
        if kind in refused and reservation is None:
            continue
        fit = [slot for slot in free if job.only in (None, slot)]
        if reservation is not None and not _passes(longest_s(job), reservation.missing_s):
            fit = [slot for slot in fit if slot not in reservation.held]
        if len(fit) >= job.gpus:
            unheld_first = sorted(fit, key=lambda slot: reservation is not None and slot in reservation.held)
            taken = set(unheld_first[: job.gpus])
            return Allotment(job.number, tuple(slot for slot in fit if slot in taken), reservation)
        refused.add(kind)
        if reservation is None and job.only is None and 1 < job.gpus <= len(usable):
            reservation = _reserve(job, free, usable, left_s)
        if not free:
            break
    return Allotment(reservation=reservation)


def _passes(longest_s: float | None, missing_s: float | None) -> bool:
    return longest_s is not None and missing_s is not None and longest_s <= missing_s


def _reserve(job: JobRecord, free: Sequence[str], usable: Sequence[str], left_s: Mapping[str, float]) -> Reservation:
    """The free slots, and those of the others that are expected to be free first."""
    others = sorted((slot for slot in usable if slot not in free), key=lambda slot: left_s.get(slot, float("inf")))
    missing = others[: job.gpus - len(free)]
    known = [left_s[slot] for slot in missing if slot in left_s]
    missing_s = max(known) if known and len(known) == len(missing) else None
    return Reservation(job.number, tuple(free), tuple(slot for slot in usable if slot in missing), missing_s)
