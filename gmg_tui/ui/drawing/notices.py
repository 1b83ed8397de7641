"""The notices under the headline: what concerns the session as a whole."""

from __future__ import annotations

from collections import Counter

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.view import View

MOST = 4
"""Rows of notices, at most."""


def notices(state: View) -> list[Note]:
    """The notices, the most urgent first."""
    snapshot = state.snapshot
    found = []
    if state.loss:
        found.append(Note(state.loss, "error"))
    if state.stopping:
        found.append(Note(_stopping(state), "warn"))
    elif snapshot.ended and snapshot.queue is None:  # the queue's row shows it
        found.append(Note(_result(state), "strong"))
    if snapshot.nvml_error:
        found.append(Note(f"no GPU metrics: {snapshot.nvml_error}", "warn"))
    found.extend(Note(note, "warn") for note in snapshot.notes)
    if state.session.idle_text:
        found.append(Note(state.session.idle_text, "dim"))
    return found[:MOST]


def _stopping(state: View) -> str:
    idle = WorkerState.WAITING if state.snapshot.queue is not None else None  # a slot without a job has nothing to stop
    left = [worker for worker in state.snapshot.workers if not worker.state.ended and worker.state is not idle]
    text = f"stopping: {units.count(len(left), 'worker')} left"
    doing = next((f" ({worker.slot}: {worker.stopping})" for worker in left if worker.stopping), "")
    return f"{text}{doing}; quit again to kill them"


def _result(state: View) -> str:
    counts = Counter(worker.state.value for worker in state.snapshot.workers)
    words = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return f"all workers have ended: {words}; logs in {state.session.spec.folder}"
