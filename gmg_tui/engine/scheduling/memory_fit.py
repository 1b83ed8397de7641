"""The memory that a job is known to need, and the room for it on a GPU that others use too."""

from __future__ import annotations

from collections.abc import Iterable

from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.model import JobRecord, WorkerState, units

_UNUSED_MIB = 1024.0
"""Memory in use on a GPU that a job has for itself."""
_TOLERANCE = 0.05
"""Share of an attempt's peak that the next one may not need, as what allocators keep varies; one that failed wanted more."""


def room_mib(engine_slot: EngineSlot, beside: Iterable[tuple[EngineSlot, JobRecord]]) -> float | None:
    """Returns the memory for another job on a slot's GPU; None if nobody else uses it, or if it is unknown.

    `beside` are the jobs that run on the GPU, with their slots: what they are known to need is theirs.
    """
    sample, jobs = engine_slot.sample, list(beside)
    if sample is None or sample.memory_free_mib is None or sample.memory_used_mib is None:
        return None
    if not jobs and sample.memory_used_mib <= _UNUSED_MIB:
        return None
    growth_mib = 0.0
    for other, job in jobs:
        attempt = other.worker.attempt if other.worker is not None else None
        peak_mib = attempt.memory_peak_mib if attempt is not None else None
        growth_mib += max(0.0, (job.last.memory_peak_mib or 0.0) - (peak_mib or 0.0))
    return max(0.0, sample.memory_free_mib - growth_mib)


def lacks(job: JobRecord, room: float | None) -> str | None:
    """Returns what a job lacks that has used more memory before than there is; None if it may fit."""
    need_mib = job.last.memory_peak_mib
    if need_mib is None or room is None:
        return None
    has_failed = job.last.state is WorkerState.FAILED
    if need_mib * (1 + _TOLERANCE if has_failed else 1 - _TOLERANCE) <= room:
        return None
    return f"{units.mib(need_mib)}, as before, and {units.mib(room)} are free"
