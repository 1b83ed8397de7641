"""What clients see of the engine's state."""

from __future__ import annotations

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.model import WorkerState
from gmg_tui.text import clean


def slot_view(slot_state: SlotState, now: float, below_median_pct: float | None = None) -> model.Worker:
    """What is on a slot at this moment; `now` is monotonic seconds, `below_median_pct` as the worker has it.

    A slot that waits for its next job shows the last lines of the previous one, and what it waits for.
    """
    worker, lead = slot_state.worker, slot_state.lead
    if lead is not None and lead.worker is not None:
        return model.Worker(
            slot=slot_state.slot.name,
            index=slot_state.index,
            state=lead.worker.state,
            state_s=now - lead.worker.state_since,
            reason=f"used by {lead.slot.name}'s worker",
        )
    if worker is not None and (slot_state.over or slot_state.waits is None or not worker.state.ended):
        return structs.replace(worker.view(slot_state.index, now), below_median_pct=below_median_pct)
    return model.Worker(
        slot=slot_state.slot.name,
        index=slot_state.index,
        state=WorkerState.FINISHED if slot_state.over else WorkerState.WAITING,
        reason=slot_state.waits,
        log_lines=slot_state.ring.end,
        last_line=clean(slot_state.ring.newest),
    )
