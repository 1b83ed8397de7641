"""The row under the headline of a session's past: where in its life the moment is that is shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from textual.strip import Strip

from gmg_tui import units
from gmg_tui.ui.drawing import graphs
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.state import UiState

if TYPE_CHECKING:
    from gmg_tui.past.record import Look

_BAR_MIN: Final = 8


def time_rows(state: UiState, width: int, appearance: Appearance) -> list[Strip]:
    """The row of the past that is shown; none in the present."""
    look = state.looked
    return [time_row(look, width, appearance, over=state.over).strip()] if look is not None else []


def time_row(look: Look, width: int, appearance: Appearance, *, over: bool) -> Row:
    """The first moment, a bar up to the one that is shown, the last; and the time of the one that is shown.

    `over` says that the session has ended, so that the last moment is its end.
    """
    days = time.localtime(look.first)[:3] != time.localtime(look.last)[:3]
    shown = look.time
    life_s = look.last - look.first
    share = (shown - look.first) / life_s if life_s > 0 else 1.0
    line = Row(appearance, width).add(" ").add(_moment(shown, days=days), "warn")
    place = f"  {look.place + 1:,} of {look.kept:,} moments "
    line.add("  ").add(_moment(look.first, days=days), "dim").add(" ")
    last = f" {_moment(look.last, days=days)}"
    end = "the end" if over else "the newest"
    behind = f"  {end}" if look.at_end else f"  {units.span(look.last - shown)} before {end}"
    for text in (place, behind):
        if line.room - len(text) - len(last) >= _BAR_MIN:
            line.end(text, "dim")
    line.end(last, "dim")
    full, rest = graphs.bar(share, max(0, line.room), appearance.signs)
    return line.add(full, "title").add(rest, "border")


def _moment(seconds: float, *, days: bool) -> str:
    """A time of day, with its date where the session has lasted over midnight."""
    return time.strftime("%m-%d %H:%M:%S" if days else "%H:%M:%S", time.localtime(seconds))
