"""Whether what runs on a slot is what a user saw there, and means."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gmg_tui.engine.views import slot_view
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.errors import GmgError
from gmg_tui.protocol import Seen


def other(slot_state: SlotState, meant: Seen | None) -> str | None:
    """What runs on the slot instead of what is `meant`, in one line; None where it is the same, or anything is meant."""
    if meant is None:
        return None
    slot, shown = slot_state.slot.name, slot_view(slot_state, time.monotonic())
    last = slot_state.worker.task.job if slot_state.worker is not None else None
    if meant.job not in (shown.job, last):
        there = f"job {shown.job} runs on {slot} now" if shown.job is not None else f"no job runs on {slot} now"
        return f"job {meant.job} has ended; {there}" if meant.job is not None else there
    if meant.attempt is not None and meant.attempt != shown.attempt and meant.job == shown.job:
        return f"attempt {meant.attempt} has ended; attempt {shown.attempt} runs on {slot} now"
    return None


def tell(others: Mapping[str, str]) -> None:
    """Raise `GmgError` where slots were left alone; `others` says what runs there."""
    if others:
        raise GmgError("; ".join(others.values()), 1)
