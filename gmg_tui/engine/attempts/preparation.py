"""Prepares an attempt: waits for its turn, the GPU's memory and the other ranks, and makes its command line."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from gmg_tui.engine.attempts.attempt import Order
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.local_host import Launch, LocalHost
from gmg_tui.scripts.torchrun import Meeting

if TYPE_CHECKING:
    from gmg_tui.engine.workers.worker import Worker


class Prepared(NamedTuple):
    """An attempt that is ready to start."""

    launch: Launch
    memory_kept: str | None
    """A warning if the GPU's memory had not been released."""


async def prepare(
    host: LocalHost, order: Order, worker: Worker, memory: GpuMemory | None, skipped: asyncio.Event
) -> Prepared | None:
    """Waits until an attempt may start, and prepares it. Returns None if its group cancels the attempt.

    Each wait has a limit and is reported to `worker`. It may be cancelled at any time.

    Args:
        host: The state shared by attempts on this machine.
        order: The order to run it.
        worker: Its worker.
        memory: The GPU memory of the slot's previous attempt.
        skipped: Ends the waits for that memory and for the start gate.

    Raises:
        NvmlUnavailable: The slot's GPU does not answer.
        GmgError: Something else is missing, or a disk does not answer.
    """
    if order.task.rank is None:  # ranks wait for each other as they start
        await _unless(skipped, host.gate.wait(order.slot.name, worker.waits))
    kept: str | None = None
    if memory is not None:
        await _unless(skipped, memory.released(worker.waits))
        kept = memory.still_taken()
    worker.waits(None)
    meeting: Meeting | None = None
    if order.task.rank is not None and (meeting := await worker.rendezvous()) is None:
        return None
    launch = await host.prepare(order, meeting, worker.waits)
    return Prepared(launch, kept)


async def _unless(skipped: asyncio.Event, wait: Coroutine[Any, Any, None]) -> None:
    """Waits until done or `skipped`."""
    waits = [asyncio.create_task(wait), asyncio.create_task(skipped.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if waits[0].done():
            waits[0].result()
    finally:
        for task in waits:
            task.cancel()
