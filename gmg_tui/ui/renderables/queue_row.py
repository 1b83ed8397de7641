"""The row under the headline of a sweep: how far its queue is, or what it came to."""

from __future__ import annotations

from typing import TypeAlias

from gmg_tui import units
from gmg_tui.model import Queue
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import graphs

_BAR_MIN, _BAR_MAX = 8, 32
_MARGIN = 2
"""Cells at both ends of the row together."""

_Piece: TypeAlias = tuple[str, str, int]
"""A text, its style's name, and its rank: those of the highest give way first, those of rank 0 never."""


def queue_row(queue: Queue, elapsed_s: float, width: int, look: Look) -> Line:
    """A bar, then counts and times; where there is no room for all, the least of them are left out.

    Args:
        queue: How far it is.
        elapsed_s: How long the session has taken so far, seconds.
        width: In cells.
        look: Styles and signs.
    """
    pieces = _ended(queue, queue.before_s + elapsed_s) if queue.ended else _going_on(queue)
    between = len(f" {look.signs.dot} ")

    def needed() -> int:
        return sum(len(text) + between for text, _, _ in pieces) + _BAR_MIN + _MARGIN

    while needed() > width and max(rank for _, _, rank in pieces):
        pieces.remove(max(pieces, key=lambda piece: piece[2]))
    line = Line(look, width).add(" ")
    bar = max(_BAR_MIN, min(_BAR_MAX, _BAR_MIN + width - needed()))
    full, rest = graphs.bar(queue.done / queue.jobs if queue.jobs else 1.0, bar, look.signs)
    line.add(full, "ok" if queue.ended else "title").add(rest, "border").add(" ")
    for number, (text, style, _) in enumerate(pieces):
        line.add(f" {look.signs.dot} " if number else "", "dim").add(text, style)
    return line


def speed_up(queue: Queue, elapsed_s: float) -> float | None:
    """By how much the jobs were done sooner than one after another on one slot; None where that cannot be said."""
    return queue.busy_s / elapsed_s if queue.busy_s > 0 and elapsed_s > 0 else None


def _going_on(queue: Queue) -> list[_Piece]:
    pieces = [_done(queue), (f"{queue.running:,} running", "text", 1)]
    pieces += _counts(queue)
    if queue.group:
        pieces.append((f"preset {queue.group}", "dim", 4))
    if queue.eta_s is not None:
        pieces.append((f"{units.clock(queue.eta_s)} left", "strong", 0))
    return pieces


def _ended(queue: Queue, elapsed_s: float) -> list[_Piece]:
    pieces = [_done(queue), *_counts(queue)]
    if queue.waiting:
        pieces.append((f"{queue.waiting:,} not run", "warn", 1))
    pieces.append((f"ended after {units.clock(elapsed_s)}", "strong", 0))
    pieces.append((f"jobs' times {units.clock(queue.busy_s)}", "text", 3))
    times = speed_up(queue, elapsed_s)
    if times is not None:
        pieces.append((f"{times:.1f} \N{MULTIPLICATION SIGN} one slot", "text", 2))
    return pieces


def _done(queue: Queue) -> _Piece:
    return f"{queue.done:,}/{units.count(queue.jobs, 'job')}", "strong", 0


def _counts(queue: Queue) -> list[_Piece]:
    pieces: list[_Piece] = []
    if queue.failed:
        pieces.append((f"{queue.failed:,} failed", "error", 0))
    if queue.stopped:
        pieces.append((f"{queue.stopped:,} stopped", "text", 3))
    return pieces
