"""Asks the engine for the job that a slot has."""

from __future__ import annotations

from typing import Final

from gmg_tui.client import Engine
from gmg_tui.model import JobRecord
from gmg_tui.ui.state import UiState

_AROUND: Final = 32
"""Jobs that are asked for before and behind those that run: so many may have ended or begun meanwhile."""


async def held_job(engine: Engine, state: UiState, slot: str) -> JobRecord | None:
    """The job that `slot` has, with its values; None in a plain run, and where there is none, or not any more.

    In the queue it stands among those that run, or has ended just now.

    Raises:
        GmgError: The engine does not say.
    """
    worker, queue = state.snapshot.worker(slot), state.queue
    if worker is None or queue is None or worker.job is None:
        return None
    view = await engine.queue(max(0, queue.done - _AROUND), queue.running + 2 * _AROUND)
    return next((job for job in view.jobs if job.number == worker.job), None)
