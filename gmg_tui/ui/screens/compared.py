"""An attempt's figures beside those of the attempt before the last edit, and the list of all attempts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from gmg_tui import units
from gmg_tui.model import Details, Figures, Worker, WorkerState
from gmg_tui.ui.screens import arguments
from gmg_tui.ui.screens.sheet import Column, Sheet

_COMPARED: Final = (
    Column("", 14, figures=False),
    Column("before", 14),
    Column("after", 14),
    Column("difference", 10),
)
_ATTEMPTS: Final = (
    Column("#", 3),
    Column("state", 13, figures=False),
    Column("exit", 8, figures=False),
    Column("elapsed", 9),
    Column("FPS", 12),
    Column("GPU %", 5),
    Column("VRAM GiB", 8),
    Column("W", 4),
)
_UNDER: Final = 5
"""Cells before what stands under an attempt's row: its number's column and the gap."""


def before_after(sheet: Sheet, worker: Worker) -> Sheet:
    """Add what the last edit changed, if there was one."""
    before, now = worker.before, worker.now
    if before is None:
        return sheet
    sheet.heading("Before and after the last edit").headings(_COMPARED)
    if now is None:
        now = Figures(worker.attempt, worker.args)
    sheet.cells(_COMPARED, ("attempt", str(before.attempt), str(now.attempt), ""))
    pairs: tuple[tuple[str, float | None, float | None, Callable[[float], str]], ...] = (
        ("FPS", before.fps, now.fps, units.fps),
        ("FPS now", before.rate, now.rate, units.fps),
        ("envs", before.n_envs, now.n_envs, "{:,.0f}".format),
        ("VRAM peak GiB", before.memory_peak_mib, now.memory_peak_mib, units.gib),
        ("GPU %", before.gpu_util_pct, now.gpu_util_pct, units.whole),
        ("power W", before.power_w, now.power_w, units.whole),
    )
    for name, old, fresh, write in pairs:
        if old is not None or fresh is not None:
            cells = [units.NOT_KNOWN if value is None else write(value) for value in (old, fresh)]
            sheet.cells(_COMPARED, (name, *cells, difference(old, fresh)), "strong" if name == "FPS" else "text")
    sheet.row("args before", _args(before.args), label_width=16)
    return sheet.row("args after", _args(now.args), label_width=16)


def difference(before: float | None, after: float | None) -> str:
    """By how much `after` is more than `before`: `+84 %`; nothing where that cannot be said."""
    if not before or after is None:
        return ""
    return f"{(after / before - 1) * 100:+.0f} %"


def attempts(sheet: Sheet, details: Details, worker: Worker, now: float) -> Sheet:
    """Add all attempts, the newest first.

    Args:
        sheet: Where to.
        details: Has the attempts.
        worker: Has the newest figures of the attempt that runs.
        now: Unix time of the snapshot, seconds.
    """
    sheet.heading("Attempts")
    if not details.attempts:
        return sheet.text("None has begun yet.", "dim")
    sheet.headings(_ATTEMPTS)
    for attempt in reversed(details.attempts):
        newest = worker.now if worker.now is not None and worker.now.attempt == attempt.number else None
        figures = newest or attempt.figures or Figures(attempt.number, attempt.args)
        ended = now if attempt.ended is None else attempt.ended
        cells = (
            str(attempt.number),
            f"{sheet.look.signs.states[attempt.state]} {attempt.state.value}",
            exit_of(attempt.exit_code),
            units.clock(ended - attempt.started),
            units.fps(figures.fps),
            _cell(figures.gpu_util_pct, units.whole),
            _cell(figures.memory_peak_mib, units.gib),
            _cell(figures.power_w, units.whole),
        )
        sheet.cells(_ATTEMPTS, cells, "error" if attempt.state is WorkerState.FAILED else "text")
        sheet.text(_args(attempt.args), "dim", indent=_UNDER)
        if attempt.reason:
            sheet.text(attempt.reason, "error" if attempt.state is WorkerState.FAILED else "text", indent=_UNDER)
    return sheet


def exit_of(code: int | None) -> str:
    """An exit code as people name it: `0`, `1`, `SIGKILL`; nothing while the process is there."""
    if code is None:
        return ""
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"


def _args(args: tuple[str, ...]) -> str:
    return arguments.join(args) or "no arguments"


def _cell(value: float | None, write: Callable[[float], str]) -> str:
    return units.NOT_KNOWN if value is None else write(value)
