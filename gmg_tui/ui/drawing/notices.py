"""The notices under the headline: what concerns the session as a whole."""

from __future__ import annotations

from collections import Counter

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.keys import now
from gmg_tui.ui.state import UiState

MOST = 4
"""Rows of notices, at most."""


def notices(state: UiState) -> list[Note]:
    """The notices, the most urgent first."""
    snapshot = state.snapshot
    found = [Note(state.message, "error")] if state.message else []
    if state.loss:
        found.append(Note(state.loss, "error"))
    if state.stopping:
        found.append(Note(_stopping(state), "warn"))
    elif snapshot.ended and snapshot.queue is None:  # the queue's own row says so
        found.append(Note(_result(state), "strong"))
    if snapshot.nvml_error:
        found.append(Note(f"no GPU metrics: {snapshot.nvml_error}", "warn"))
    found.extend(Note(note, "warn") for note in snapshot.notes)
    if state.session.idle_text:
        found.append(Note(state.session.idle_text, "dim"))
    return found[:MOST]


def _stopping(state: UiState) -> str:
    idle = WorkerState.WAITING if state.newest.queue is not None else None  # a slot without a job has nothing to stop
    left = [worker for worker in state.newest.workers if not worker.state.ended and worker.state is not idle]
    text = f"stopping: {units.count(len(left), 'worker')} left"
    doing = next((f" ({worker.slot}: {worker.stopping})" for worker in left if worker.stopping), "")
    return f"{text}{doing}; press {now('q')} again to kill them"


def _result(state: UiState) -> str:
    counts = Counter(worker.state.value for worker in state.snapshot.workers)
    words = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    steers = not state.readonly and state.looked is None and not state.parted
    restarts = f" {now('r')} restarts one," if steers else ""
    return f"all workers have ended: {words};{restarts} {now('q')} quits; logs in {state.session.spec.folder}"
