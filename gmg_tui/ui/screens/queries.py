"""What screens ask the engine for beside the snapshots that come by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord
from gmg_tui.session import LOGS
from gmg_tui.source import Source
from gmg_tui.ui.state import UiState

PERIOD_S: Final = 3.0
"""Seconds from an answer to the next query."""
_MARGIN: Final = 32
"""Jobs to ask for before and after the running ones: as many may have started or ended meanwhile."""


async def poll(ask: Callable[[], Awaitable[object]], fail: Callable[[str], object]) -> None:
    """Await `ask()` every few seconds until cancelled; `fail` is told in one line why there was no answer."""
    while True:
        try:
            await ask()
        except GmgError as error:
            fail(str(error))
        await asyncio.sleep(PERIOD_S)


async def slot_job(engine: Source, state: UiState, slot: str) -> JobRecord | None:
    """The job on `slot`, with its values; None in a plain run, and where there is no job, or it has just gone.

    In the queue it is among the running jobs, or has just ended. Raises `GmgError` when the engine does not answer.
    """
    worker, queue = state.snapshot.worker(slot), state.queue
    if worker is None or queue is None or worker.job is None:
        return None
    view = await engine.queue(max(0, queue.done - _MARGIN), queue.running + 2 * _MARGIN)
    return next((job for job in view.jobs if job.number == worker.job), None)


def log_path(state: UiState, slot: str, job: JobRecord | None) -> str | None:
    """The file with all that the worker on `slot`, whose job is `job`, has printed; None in a sweep without a job."""
    folder = state.session.spec.folder
    if state.queue is None:
        return f"{folder}/{LOGS}/{slot}.log"
    return f"{folder}/{job.log}" if job is not None and job.log is not None else None
