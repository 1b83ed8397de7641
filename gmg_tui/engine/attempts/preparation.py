"""Prepares an attempt: waits for its turn, the GPU's memory and the other ranks, and makes its command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from gmg_tui.engine.attempts.attempt import Order
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.local_host import Launch, LocalHost
from gmg_tui.scripts.torchrun import Meeting

if TYPE_CHECKING:
    from gmg_tui.engine.workers.worker import Worker


class Prepared(NamedTuple):
    """The parts of an attempt that is about to start."""

    launch: Launch
    memory_kept: str | None
    """A warning if the GPU's memory had not been released."""


async def prepare(
    host: LocalHost, order: Order, worker: Worker, memory: GpuMemory | None, skipped: asyncio.Event
) -> Prepared | None:
    """Waits until an attempt may start, and prepares it. Returns None if its group's attempt is cancelled.

    Each wait has a limit and is shown to `worker`. It may be cancelled at any moment.

    Args:
        host: What the attempts on this machine share.
        order: What to run.
        worker: The attempt's.
        memory: The GPU memory of the attempt before on its slot.
        skipped: Ends the wait for that memory.

    Raises:
        NvmlUnavailable: The slot's GPU does not answer.
        GmgError: Something else is missing, or a disk does not answer.
    """
    await host.gate.wait(order.slot.name, worker.waits)
    kept = await _memory_released(memory, skipped, worker) if memory is not None else None
    worker.waits(None)
    meeting: Meeting | None = None
    if order.task.rank is not None and (meeting := await worker.rendezvous()) is None:
        return None
    launch = await host.prepare(order, meeting, worker.waits)
    return Prepared(launch, kept)


async def _memory_released(memory: GpuMemory, skipped: asyncio.Event, worker: Worker) -> str | None:
    """Waits for the memory of the attempt before. Returns how much of it is still taken."""
    waits = [asyncio.create_task(memory.released(worker.waits)), asyncio.create_task(skipped.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
    return memory.still_taken()
