"""An attempt's metrics beside those of the attempt before the last edit, and the list of all attempts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from gmg_tui import units
from gmg_tui.model import AttemptMetrics, Details, Worker, WorkerState
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.page import Column, Page
from gmg_tui.ui.screens.edit import arguments

_COMPARED: Final = (
    Column("", 14, metrics=False),
    Column("before", 14),
    Column("after", 14),
    Column("difference", 10),
)
_ATTEMPTS: Final = (
    Column("#", 3),
    Column("state", 12, metrics=False),
    Column("exit", 7, metrics=False),
    Column("elapsed", 8),
    Column("envs", 7),
    Column("FPS", 11),
    Column("~", 6),
    Column("GPU %", 5),
    Column("VRAM GiB", 8),
    Column("W", 4),
    Column("FPS/W", 6),
)
_DISPENSABLE: Final = ("exit", "elapsed", "GPU %", "W")
"""Columns to leave out where there is no room, the first one first; the first two then stand under the row."""
_UNDER: Final = 5
"""Indent of what is written under an attempt's row: the column of its number and the gap."""


def before_after(page: Page, worker: Worker) -> Page:
    """Add what the last edit changed, if there was one."""
    before, now = worker.before, worker.now or AttemptMetrics(worker.attempt, worker.args)
    if before is None:
        return page
    page.heading("Before and after the last edit").headings(_COMPARED)
    page.cells(_COMPARED, ("attempt", str(before.attempt), str(now.attempt), ""))
    pairs: tuple[tuple[str, float | None, float | None, Callable[[float], str]], ...] = (
        ("FPS", before.fps, now.fps, units.fps),
        ("FPS now", before.settled, now.settled, units.fps),
        ("envs", before.n_envs, now.n_envs, "{:,.0f}".format),
        ("VRAM peak GiB", before.memory_peak_mib, now.memory_peak_mib, units.gib),
        ("GPU %", before.gpu_util_pct, now.gpu_util_pct, units.whole),
        ("power W", before.power_w, now.power_w, units.whole),
    )
    for name, old, fresh, write in pairs:
        if old is not None or fresh is not None:
            # During the ramp-up the printed average says nothing of what the edit did.
            told = name != "FPS" or words.compared_fps(worker) is not None
            difference = words.difference(old, fresh) if told else ""
            cells = (name, words.known(old, write), words.known(fresh, write), difference)
            page.cells(_COMPARED, cells, "strong" if name == "FPS" else "text")
    page.row("args before", _args(before.args), label_width=16)
    return page.row("args after", _args(now.args), label_width=16)


def attempts(page: Page, details: Details, worker: Worker, now: float, selected: int | None) -> dict[int, range]:
    """Add all attempts, the newest first; `now` is the Unix time of the snapshot, seconds.

    The one whose number is `selected` is marked. Returns the rows of each, by number.
    """
    page.heading("Attempts")
    rows = dict[int, range]()
    if not details.attempts:
        page.text("None has started yet.", "dim")
        return rows
    columns = _fitting(page.width)
    page.headings(list(columns.values()))
    for attempt in reversed(details.attempts):
        first = len(page.rows)
        newest = worker.now if worker.now is not None and worker.now.attempt == attempt.number else None
        metrics = newest or attempt.metrics or AttemptMetrics(attempt.number, attempt.args)
        ended = now if attempt.ended is None else attempt.ended
        style = "error" if attempt.state is WorkerState.FAILED else "text"
        pointer = page.appearance.signs.pointer if attempt.number == selected else ""
        rate = metrics.fps if metrics.settled is None else metrics.settled
        cells = {
            "#": f"{pointer}{attempt.number}",
            "state": f"{page.appearance.signs.states[attempt.state]} {attempt.state.value}",
            "exit": exit_of(attempt.exit_code),
            "elapsed": units.span(ended - attempt.started),
            "envs": words.known(metrics.n_envs, "{:,}".format),
            "FPS": units.fps(rate),
            "~": "" if metrics.spread is None else f"~{units.short(metrics.spread)}",
            "GPU %": words.known(metrics.gpu_util_pct, units.whole),
            "VRAM GiB": words.known(metrics.memory_peak_mib, units.gib),
            "W": words.known(metrics.power_w, units.whole),
            "FPS/W": units.short(rate / metrics.power_w if rate is not None and metrics.power_w else None),
        }
        page.cells(list(columns.values()), [cells[name] for name in columns], style)
        time = "" if "elapsed" in columns else f"{cells['elapsed']}  "
        page.text(f"{time}{_args(attempt.args)}", "dim", indent=_UNDER)
        code = f"exit {cells['exit']}" if "exit" not in columns and attempt.exit_code else ""
        if said := ", ".join(filter(None, (attempt.reason, code))):
            page.text(said, style, indent=_UNDER)
        rows[attempt.number] = range(first, len(page.rows))
    return rows


def _fitting(width: int) -> dict[str, Column]:
    """The columns of the attempts for which there is room, by heading."""
    columns = {column.heading: column for column in _ATTEMPTS}
    for name in _DISPENSABLE:
        if sum(column.width + 2 for column in columns.values()) - 2 > width:
            del columns[name]
    return columns


def exit_of(code: int | None) -> str:
    """An exit code in the usual notation: `0`, `1`, `SIGKILL`; empty while the process exists."""
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
