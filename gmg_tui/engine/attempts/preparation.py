"""Prepares an attempt: waits for its turn, the GPU's memory and the other ranks, and makes its command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from gmg_tui.engine.attempts.attempt import Order
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.local_host import Launch, LocalHost
from gmg_tui.scripts.probe.counts import Counts, make_folder
from gmg_tui.scripts.torchrun import Meeting

if TYPE_CHECKING:
    from gmg_tui.engine.workers.worker import Worker


class Prepared(NamedTuple):
    """The parts of an attempt that is about to start."""

    launch: Launch
    counts: Counts
    memory_kept: str | None
    """That the GPU's memory had not been released; None if it had."""


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
    making = asyncio.ensure_future(_counts(host, worker))
    try:
        counts = await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_close)
        raise
    return Prepared(launch, counts, kept)


async def _counts(host: LocalHost, worker: Worker) -> Counts:
    if not host.spec.probe:
        return Counts(None)
    what = "the folder of the probe's counts"
    return Counts(await host.from_disk(what, make_folder, worker.waits, object()))


def _close(making: asyncio.Future[Counts]) -> None:
    """Removes the folder that was being made when the attempt was stopped."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()


def discard(prepared: Prepared | None) -> None:
    """Removes what was prepared."""
    if prepared is not None:
        prepared.counts.close()


async def _memory_released(memory: GpuMemory, skipped: asyncio.Event, worker: Worker) -> str | None:
    """Waits for the memory of the attempt before. Returns how much of it is still taken."""
    waits = [asyncio.create_task(memory.released(worker.waits)), asyncio.create_task(skipped.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
    return memory.still_taken()
