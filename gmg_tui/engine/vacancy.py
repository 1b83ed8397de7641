"""Whether a card can take a job at this moment, as NVML sees it."""

from __future__ import annotations

from collections.abc import Sequence

from gmg_tui import units
from gmg_tui.engine.card_memory import CardMemory
from gmg_tui.engine.worker import Worker
from gmg_tui.model import GpuReading, Group, WorkerState


def why_not(
    group: Group,
    reading: GpuReading | None,
    error: str | None,
    neighbours: Sequence[Worker | None],
    memory: CardMemory | None,
) -> str | None:
    """What a job on a card has to wait for, in one line; None when for nothing.

    Args:
        group: The job's.
        reading: What the card said last; None before the first time.
        error: Why NVML says nothing of any card.
        neighbours: The workers of the jobs that hold the card's other slots; None for one that has not begun.
        memory: What the last job on the slot took of the card's memory; None where none has run.
    """
    if error is not None:
        return f"for NVML: {error}"
    if reading is not None and reading.lost:
        return f"for its card: {reading.error or 'it is lost'}"
    awaited = memory.awaited(shared=bool(neighbours)) if memory is not None else None
    least = group.min_free_mib
    if awaited is not None or least is None:
        return awaited
    if reading is None or reading.memory_total_mib is None or reading.memory_used_mib is None:
        return "for the card to say how much of its memory is free"
    free = reading.memory_total_mib - reading.memory_used_mib
    spoken_for = sum(_still_to_take(worker, least, reading) for worker in neighbours)
    if free - spoken_for >= least:
        return None
    others = f", {units.mib(spoken_for)} of it for the jobs that have begun" if spoken_for else ""
    return f"for {units.mib(least)} of free VRAM ({units.mib(max(0.0, free))} free{others}; p shows what is taken)"


def _still_to_take(worker: Worker | None, least_mib: float, reading: GpuReading) -> float:
    """What a job that has begun may still take of the memory that was free for it, MiB."""
    if worker is None:
        return least_mib
    taken = [process.memory_mib or 0.0 for process in reading.processes or () if process.pid in worker.pids]
    if taken:
        return max(0.0, least_mib - sum(taken))
    # NVML has not named its processes: it has not come to the card yet, or their PIDs are another container's.
    return 0.0 if worker.state is WorkerState.RUNNING or worker.state.ended else least_mib
