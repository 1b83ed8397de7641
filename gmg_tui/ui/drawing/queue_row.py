"""The progress of a sweep's queue, or its outcome, in one row."""

from __future__ import annotations

from gmg_tui import units
from gmg_tui.model import Queue
from gmg_tui.ui.drawing import graphs
from gmg_tui.ui.drawing.appearance import Appearance, Signs
from gmg_tui.ui.drawing.row import Row


def queue_row(queue: Queue, elapsed_s: float, width: int, appearance: Appearance) -> Row:
    """The row of `progress`."""
    line = Row(appearance, width).add(" ")
    for text, style in progress(queue, elapsed_s, width, appearance.signs):
        line.add(text, style)
    return line


def progress(queue: Queue, elapsed_s: float, width: int, signs: Signs) -> list[tuple[str, str]]:
    """A bar, then counts and times, each with its style's name; the most important come first, as the rest may be cut."""
    full, rest = graphs.bar(queue.done / queue.jobs if queue.jobs else 1.0, max(8, min(32, width // 5)), signs)
    parts = [(full, "ok" if queue.ended else "title"), (rest, "border")]
    for number, (text, style) in enumerate(each for each in _pieces(queue, queue.before_s + elapsed_s) if each[0]):
        parts += [(f" {signs.dot} " if number else "  ", "dim"), (text, style)]
    return parts


def _pieces(queue: Queue, elapsed_s: float) -> list[tuple[str, str]]:
    """The counts and times with their styles' names; those that do not apply have no text."""
    left = f"{units.clock(queue.eta_s)} left" if queue.eta_s is not None and not queue.ended else ""
    return [
        (f"{queue.done:,}/{units.count(queue.jobs, 'job')}", "strong"),
        (f"{queue.failed:,} failed" if queue.failed else "", "error"),
        (f"ended after {units.clock(elapsed_s)}" if queue.ended else left, "strong"),
        (f"{queue.running:,} running" if not queue.ended else "", "text"),
        (f"{queue.waiting:,} not run" if queue.ended and queue.waiting else "", "warn"),
        (f"{queue.stopped:,} stopped or skipped" if queue.stopped else "", "text"),
        (f"preset {queue.batch}" if queue.batch and not queue.ended else "", "dim"),
    ]
