"""The newest attempt of a worker, for what compares attempts."""

from __future__ import annotations

from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.results.tried import Ran


def ran(worker: SlotWorker) -> Ran | None:
    """The newest attempt of a worker; None before it has one."""
    attempt = worker.reported()
    if attempt is None:
        return None
    model = worker.slot.gpu.name if worker.slot.gpu is not None else None
    return Ran(worker.slot.name, model, attempt.record)
