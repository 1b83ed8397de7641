"""The first row: the session and its totals."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TypeAlias

from gmg_tui import units
from gmg_tui.model import WorkerState, fps_per_watt, total_fps
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.state import UiState

_ORDER = (
    WorkerState.RUNNING,
    WorkerState.COMPILING,
    WorkerState.BUILDING,
    WorkerState.STARTING,
    WorkerState.WAITING,
    WorkerState.RESTARTING,
    WorkerState.STOPPING,
    WorkerState.FAILED,
    WorkerState.STOPPED,
    WorkerState.FINISHED,
)
_STYLES = {WorkerState.RUNNING: "ok", WorkerState.FINISHED: "ok", WorkerState.FAILED: "error"}
_LEFT_MIN = 14
"""Columns that the session's name keeps before words give way to signs."""

Piece: TypeAlias = tuple[str, str]
"""A text and its style's name."""


def headline(state: UiState, width: int, look: Look) -> Line:
    """The session's name and script at the left; total FPS, FPS per watt, workers by state and elapsed time right."""
    snapshot = state.snapshot
    fps = total_fps(snapshot.counted)
    powers = {
        slot.name: reading.power_w
        for slot in state.session.slots
        if (reading := state.reading(slot.name)) is not None and reading.power_w is not None
    }
    efficiency = fps_per_watt(snapshot.workers, powers)
    figures: list[Piece] = [(f"{look.signs.sigma} {units.fps(fps)} FPS", "fps")]
    watts: list[Piece] = [(f"  {units.short(efficiency)} FPS/W", "text")] if efficiency is not None else []
    clock: list[Piece] = [(f"  {units.clock(snapshot.elapsed_s)} ", "strong")]
    spelled, signs = _states(state, look, short=False), _states(state, look, short=True)
    pieces = [*figures, *watts, *spelled, *clock]
    if _length(pieces) > width - _LEFT_MIN:
        pieces = [*figures, *watts, *signs, *clock]
    if _length(pieces) > width - 2:
        pieces = [*figures, *signs, *clock]
    line = Line(look, width)
    for text, style in reversed(pieces):
        line.end(text, style)
    spec = state.session.spec
    line.add(f" {spec.name}", "title", limit=line.room - 1)
    sweep = spec.sweep
    # In a sweep the arguments differ from job to job; the file says what they are of.
    command = (
        " ".join([spec.script, *spec.args]) if sweep is None else f"sweep {PurePath(sweep.file or spec.script).name}"
    )
    return line.add(f"  {command}", "dim", limit=line.room - 2) if line.room > 8 else line


def _states(state: UiState, look: Look, *, short: bool) -> list[Piece]:
    workers = state.snapshot.counted
    counts = Counter(worker.state for worker in workers if not worker.stuck)
    stuck = sum(1 for worker in workers if worker.stuck)
    pieces: list[Piece] = []
    for kind in _ORDER:
        if counts[kind]:
            text = f"{look.signs.states[kind]}{counts[kind]}" if short else f"{counts[kind]} {kind.value}"
            pieces.append((f" {' ' if not short or not pieces else ''}{text}", _STYLES.get(kind, "text")))
    if stuck:
        pieces.append((f" {look.signs.stuck}{stuck}" if short else f"  {stuck} stuck", "error"))
    return pieces


def _length(pieces: list[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)
