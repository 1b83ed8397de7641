"""The rows at the top of a tuning's screen: what is looked for, what is being done, and the time. Pure functions."""

from __future__ import annotations

from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import TrialKind, TrialState
from gmg_tui.tune import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.notices import notices
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.time_row import time_rows
from gmg_tui.ui.state import UiState

_UNCOUNTED = frozenset({TrialKind.COMMON, TrialKind.TOGETHER})
"""Trials that `TuneSpec.trials` does not count."""


def head_rows(state: UiState, width: int, appearance: Appearance) -> list[Strip]:
    """The session with its time and what moment of its past is shown, the step with the trials, the notices.

    Nothing without a tuning.
    """
    tuning, run = state.snapshot.tuning, state.session.spec
    if tuning is None:
        return []
    first = Row(appearance, width)
    time, style = f"{units.clock(state.snapshot.elapsed_s)} ", "strong"
    if state.silent_s:
        time, style = f"engine silent for {units.span(state.silent_s)} ", "error"
    first.end(time, style)
    if state.looked is not None:
        first.end("past  ", "warn")
    elif state.readonly and not state.silent_s:
        first.end("read-only  ", "warn")
    if tuning.eta_s is not None and not tuning.ended:
        first.end(f"about {units.span(tuning.eta_s)} left  ", "strong")
    if run.simulate is not None:
        first.add(" simulated", "warn", limit=first.room - 1)
    first.add(f" {run.name}", "title", limit=first.room - 1)
    if first.room > 8:
        first.add(f"  {words.wanted(tuning.spec)}", "text", limit=first.room - 2)
    if first.room > 8:
        first.add(f"  {' '.join((run.script, *run.args))}", "dim", limit=first.room - 2)
    counted = [trial for trial in tuning.trials if trial.kind not in _UNCOUNTED]
    failed = sum(trial.state is TrialState.FAILED for trial in tuning.trials)
    running = sum(trial.state is TrialState.RUNNING for trial in tuning.trials)
    second = Row(appearance, width)
    second.end(f"{len(counted)}/{tuning.spec.trials} trials ", "text")
    if failed:
        second.end(f"{failed} failed  ", "error")
    if running:
        second.end(f"{running} running  ", "ok")
    sign, style = (appearance.signs.dot, "ok") if tuning.ended else (appearance.signs.pointer, "title")
    second.add(f" {sign} {tuning.step}", style, limit=second.room - 1)
    noted = (
        Row(appearance, width).add(f" {appearance.signs.pointer} {note.text}", note.style) for note in notices(state)
    )
    past = time_rows(state, width, appearance)
    return [first.strip(), *past, *(row.strip() for row in (second, *noted))]
