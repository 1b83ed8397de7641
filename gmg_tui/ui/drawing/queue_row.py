"""The row under the headline of a sweep: the progress of its queue, or its outcome."""

from __future__ import annotations

from typing import TypeAlias

from gmg_tui import units
from gmg_tui.model import Queue
from gmg_tui.model.jobs import speed_up
from gmg_tui.ui.drawing import graphs
from gmg_tui.ui.drawing.appearance import Appearance, Signs
from gmg_tui.ui.drawing.row import Row

_BAR_MIN, _BAR_MAX = 8, 32
_MARGIN = 2
"""Cells at both ends of the row, in total."""

_Piece: TypeAlias = tuple[str, str, int]
"""A text, its style's name, and its rank: the highest rank is dropped first, rank 0 never."""


def queue_row(queue: Queue, elapsed_s: float, width: int, appearance: Appearance) -> Row:
    """The row of `progress`."""
    line = Row(appearance, width)
    for text, style in progress(queue, elapsed_s, width, appearance.signs):
        line.add(text, style)
    return line


def progress(queue: Queue, elapsed_s: float, width: int, signs: Signs) -> list[tuple[str, str]]:
    """A bar, then counts and times, with their styles' names; the least important are left out where there is no room."""
    pieces = [piece for piece in _pieces(queue, queue.before_s + elapsed_s) if piece[0]]
    between = len(f" {signs.dot} ")

    def needed() -> int:
        return sum(len(text) + between for text, _, _ in pieces) + _BAR_MIN + _MARGIN

    while needed() > width and max(rank for _, _, rank in pieces):
        pieces.remove(max(pieces, key=lambda piece: piece[2]))
    bar = max(_BAR_MIN, min(_BAR_MAX, _BAR_MIN + width - needed()))
    full, rest = graphs.bar(queue.done / queue.jobs if queue.jobs else 1.0, bar, signs)
    parts = [(" ", "text"), (full, "ok" if queue.ended else "title"), (rest, "border"), (" ", "text")]
    for number, (text, style, _) in enumerate(pieces):
        parts += [(f" {signs.dot} " if number else "", "dim"), (text, style)]
    return parts


def _pieces(queue: Queue, elapsed_s: float) -> list[_Piece]:
    """The counts and times; those that do not apply have no text."""
    done = (f"{queue.done:,}/{units.count(queue.jobs, 'job')}", "strong", 0)
    failed = (f"{queue.failed:,} failed" if queue.failed else "", "error", 0)
    stopped = (f"{queue.stopped:,} stopped or skipped" if queue.stopped else "", "text", 3)
    if not queue.ended:
        batch = (f"preset {queue.batch}" if queue.batch else "", "dim", 4)
        left = (f"{units.clock(queue.eta_s)} left" if queue.eta_s is not None else "", "strong", 0)
        return [done, (f"{queue.running:,} running", "text", 1), failed, stopped, batch, left]
    times = speed_up(queue.busy_s, elapsed_s)
    return [
        done,
        failed,
        stopped,
        (f"{queue.waiting:,} not run" if queue.waiting else "", "warn", 1),
        (f"ended after {units.clock(elapsed_s)}", "strong", 0),
        (f"total job time {units.clock(queue.busy_s)}", "text", 3),
        (f"{times:.1f}× speed-up" if times is not None else "", "text", 2),
    ]
