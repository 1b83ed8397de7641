"""What was tried as rows of a table, and their order. Pure functions, no widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gmg_tui import units
from gmg_tui.model import Tried, WorkerState
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.screens.edit import arguments

_LEAD: Final = 3
"""Cells of the pointer, the sign and the space after it."""
_BEST: Final = 5
_ARGS_MIN: Final = 24
"""Cells below which the arguments get no column: they stand below the table, too."""
_DETAIL_ROWS: Final = 4


class Order(NamedTuple):
    """What rows are ordered by."""

    name: str
    value: Callable[[Tried], float | None]


class _Column(NamedTuple):
    heading: str
    width: int
    text: Callable[[Tried], str]
    rank: int
    """The column with the greatest is left out first where there is no room."""


ORDERS: Final = (
    Order("FPS", lambda row: row.rate),
    Order("envs", lambda row: row.n_envs),
    Order("VRAM", lambda row: row.memory_peak_mib),
    Order("GPU %", lambda row: row.gpu_util_pct),
    Order("W", lambda row: row.power_w),
    Order("FPS/W", lambda row: row.fps_per_watt),
    Order("time", lambda row: row.elapsed_s),
    Order("start", lambda row: row.started),
)
"""In the order in which a key goes through them."""


def identity(row: Tried) -> object:
    """What stays the same of a row while its figures change."""
    return row.args, tuple(sorted(row.env.items()))


def ordered(rows: Sequence[Tried], order: Order, *, smallest: bool) -> list[Tried]:
    """The rows in an order, the largest first unless the `smallest` are to be; those without a value last."""
    known = [(value, row) for row in rows if (value := order.value(row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=not smallest)
    return [row for _, row in known] + [row for row in rows if order.value(row) is None]


def plus_minus(row: Tried, appearance: Appearance) -> str:
    """How sure the rate is: `±310k`, half of its 95 % interval, or of a single attempt `~310k`, its standard deviation."""
    if row.margin is not None:
        return f"{appearance.signs.plus_minus}{units.short(row.margin)}"
    return f"~{units.short(row.spread)}" if row.spread is not None else ""


def _slots(row: Tried) -> str:
    return row.slots[0] if len(row.slots) == 1 else f"{len(row.slots)} slots"


def _columns(width: int, appearance: Appearance) -> list[_Column]:
    sign = appearance.signs.plus_minus
    found = [
        _Column("envs", 9, lambda row: words.known(row.n_envs, "{:,}".format), 2),
        _Column("FPS", 12, lambda row: units.fps(row.rate), 0),
        _Column(sign, 6 + len(sign), lambda row: plus_minus(row, appearance), 1),
        _Column("VRAM GiB", 9, lambda row: words.known(row.memory_peak_mib, units.gib), 3),
        _Column("GPU %", 6, lambda row: words.known(row.gpu_util_pct, units.whole), 5),
        _Column("W", 5, lambda row: words.known(row.power_w, units.whole), 6),
        _Column("FPS/W", 7, lambda row: units.short(row.fps_per_watt), 4),
        _Column("slots", 10, _slots, 7),
        _Column("time", 7, lambda row: units.span(row.elapsed_s), 8),
        _Column("tries", 6, lambda row: f"{row.attempts:,}", 9),
    ]
    while found and sum(one.width for one in found) > width - _LEAD - _BEST:
        found.remove(max(found, key=lambda one: one.rank))
    return found


def heading(width: int, order: Order, appearance: Appearance) -> Row:
    """The row above the table; the heading of the column that orders it stands out."""
    line, at = Row(appearance, width), _LEAD + _BEST
    for column in _columns(width, appearance):
        at += column.width
        line.right(column.heading, at, "title" if column.heading.removesuffix(" GiB") == order.name else "dim")
    return line.add("  arguments", "dim") if width - at >= _ARGS_MIN else line


def order_at(width: int, x: int, appearance: Appearance) -> int | None:
    """The place among `ORDERS` of the column at a cell of the heading; None where there is none."""
    at = _LEAD + _BEST
    names = [order.name for order in ORDERS]
    for column in _columns(width, appearance):
        at += column.width
        if at - column.width <= x < at:
            name = column.heading.removesuffix(" GiB")
            return names.index(name) if name in names else None
    return None


def row(one: Tried, width: int, appearance: Appearance, *, chosen: bool, best: bool) -> Row:
    """One set of arguments."""
    signs = appearance.signs
    line, at = Row(appearance, width), _LEAD + _BEST
    line.add(signs.pointer if chosen else " ", "selected").add(*_sign(one, appearance))
    line.to(_LEAD).add("best" if best else "", "ok").to(at)
    style = "strong" if chosen else "text"
    for column in _columns(width, appearance):
        at += column.width
        line.right(column.text(one), at, "fps" if column.heading == "FPS" and best else style)
    return line.add("  ").add(written(one), "text" if chosen else "dim") if width - at >= _ARGS_MIN else line


def _sign(one: Tried, appearance: Appearance) -> tuple[str, str]:
    """That it runs now, or failed whenever it was tried."""
    states = appearance.signs.states
    if one.running:
        return states[WorkerState.RUNNING], "ok"
    return (states[WorkerState.FAILED], "error") if one.failed == one.attempts else (" ", "text")


def written(one: Tried) -> str:
    """The arguments, after the variables that were given with them, as a shell takes them."""
    variables = [arguments.join((f"{name}={value}",)) for name, value in one.env.items()]
    return " ".join([*variables, arguments.join(one.args) or "no arguments"])


def detail(one: Tried, width: int, appearance: Appearance) -> Page:
    """All about the chosen set: its arguments, its attempts and slots, and why it failed."""
    page = Page(width, appearance).text(written(one), "strong", indent=2)
    del page.rows[_DETAIL_ROWS - 2 :]
    of = ", ".join(
        part
        for part in (
            f"{one.running:,} running" if one.running else "",
            f"{one.failed:,} failed" if one.failed else "",
            f"rate over {one.measured:,}" if one.measured and one.measured != one.attempts else "",
        )
        if part
    )
    said = f"{units.count(one.attempts, 'attempt')}{f' ({of})' if of else ''} on {', '.join(one.slots)}"
    page.line(Row(appearance, width).to(2).add(said, "text"))
    if one.reason:
        page.line(Row(appearance, width).to(2).add(one.reason, "error"))
    return page
