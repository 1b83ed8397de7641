"""The job on a slot, and the log file of a slot's worker."""

from __future__ import annotations

from typing import Final

from gmg_tui.client import Source
from gmg_tui.model import JobRecord
from gmg_tui.session import LOGS
from gmg_tui.ui.view import View

_MARGIN: Final = 32
"""Jobs to ask for before and after the running ones: as many may have started or ended meanwhile."""


async def job_on(engine: Source, view: View, slot: str) -> JobRecord | None:
    """The job on `slot`, with its values; None in a plain run, and where there is no job, or it has just gone.

    In the queue it is among the running jobs, or has just ended. Raises `GmgError` when the engine does not answer.
    """
    worker, queue = view.snapshot.worker(slot), view.queue
    if worker is None or queue is None or worker.job is None:
        return None
    part = await engine.queue(max(0, queue.done - _MARGIN), queue.running + 2 * _MARGIN)
    return next((job for job in part.jobs if job.number == worker.job), None)


def log_path(view: View, slot: str, job: JobRecord | None) -> str | None:
    """The file with all that the worker on `slot`, whose job is `job`, has printed; None in a sweep without a job."""
    folder = view.session.spec.folder
    if view.queue is None:
        return f"{folder}/{LOGS}/{slot}.log"
    return f"{folder}/{job.log}" if job is not None and job.log is not None else None
