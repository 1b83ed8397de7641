"""What stands under the headline: what a person should know of the session as a whole."""

from __future__ import annotations

from collections import Counter

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.renderables.words import Note
from gmg_tui.ui.state import UiState

MOST = 4
"""Rows of notices at most."""


def notices(state: UiState, *, message: str, stopping: bool) -> list[Note]:
    """The notices, the most urgent first.

    Args:
        state: What the interface knows.
        message: What became of the last key, when it could not be done.
        stopping: Whether the workers are being stopped so that the interface can end.
    """
    snapshot = state.snapshot
    found = [Note(message, "error")] if message else []
    if stopping:
        found.append(Note(_stopping(state), "warn"))
    elif snapshot.ended and snapshot.queue is None:  # of a queue its own row says it
        found.append(Note(_result(state), "strong"))
    if snapshot.nvml_error:
        found.append(Note(f"no figures of the cards: {snapshot.nvml_error}", "warn"))
    found.extend(Note(note, "warn") for note in snapshot.notes)
    return found[:MOST]


def _stopping(state: UiState) -> str:
    idle = WorkerState.WAITING if state.queue is not None else None  # a slot without a job has nothing to stop
    left = [worker for worker in state.snapshot.workers if not worker.state.ended and worker.state is not idle]
    text = f"stopping: {units.count(len(left), 'worker')} left"
    doing = next((f" ({worker.slot}: {worker.stopping})" for worker in left if worker.stopping), "")
    return f"{text}{doing}; q again to kill them"


def _result(state: UiState) -> str:
    counts = Counter(worker.state.value for worker in state.snapshot.workers)
    words = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return f"all have ended: {words}; r starts one again, q leaves; logs in {state.session.spec.folder}"
