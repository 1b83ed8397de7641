"""Admission control: whether a GPU has room for a job at this moment, as NVML sees it."""

from __future__ import annotations

from collections.abc import Sequence

from gmg_tui import units
from gmg_tui.engine.workers.slot_worker import KeptMemory, SlotWorker
from gmg_tui.model import Batch, GpuSample, WorkerState


def why_not(
    batch: Batch,
    sample: GpuSample | None,
    error: str | None,
    neighbours: Sequence[SlotWorker],
    memory: KeptMemory | None,
) -> str | None:
    """What a job of `batch` has to wait for before it starts on a GPU, in one line; None if nothing.

    Args:
        batch: The job's.
        sample: The latest sample of the GPU; None before the first.
        error: Why NVML does not answer at all.
        neighbours: The workers on the GPU's other slots.
        memory: The memory of the last job on the slot; None if none has run.
    """
    if error is not None:
        return f"for NVML: {error}"
    if sample is not None and sample.lost:
        return f"for its GPU: {sample.error or 'it is lost'}"
    awaited = memory.awaited(shared=bool(neighbours)) if memory is not None else None
    least = batch.min_free_mib
    if awaited is not None or least is None:
        return awaited
    free = sample.memory_free_mib if sample is not None else None
    if sample is None or free is None:
        return "for the GPU to report how much of its memory is free"
    spoken_for = sum(_still_to_take(worker, least, sample) for worker in neighbours)
    if free - spoken_for >= least:
        return None
    others = f", {units.mib(spoken_for)} of it for the jobs that have begun" if spoken_for else ""
    there = f"{units.mib(max(0.0, free))} free{others}"
    return f"for {units.mib(least)} of free VRAM ({there}; the list of its processes shows what is taken)"


def _still_to_take(worker: SlotWorker, least_mib: float, sample: GpuSample) -> float:
    """How much of the memory reserved for a job that has begun it may still take, MiB."""
    taken = [process.memory_mib or 0.0 for process in sample.processes or () if process.own_pid in worker.pids]
    if taken:
        return max(0.0, least_mib - sum(taken))
    # NVML does not list its processes: it has not reached the GPU yet, or its PIDs are the host's.
    return 0.0 if worker.state is WorkerState.RUNNING or worker.state.ended else least_mib
