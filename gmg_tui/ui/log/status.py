"""The state of a paused log and of its search, in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gmg_tui.model import units
from gmg_tui.ui.drawing import SIGNS
from gmg_tui.ui.log.buffer import LogBuffer
from gmg_tui.ui.log.pages import LogPages

if TYPE_CHECKING:
    from gmg_tui.ui.log.search import FileSearch


def paused_text(pages: LogPages, last: int) -> str:
    """Returns where the log is paused; `last` is the last visible row."""
    if pages.file is not None:
        size, rows = pages.file.size, pages.rows[: last + 1]
        return f"paused at {100 * rows[-1].end / max(size, 1):.0f} % of {units.size(size)}"
    below = sum(row.lines for row in islice(pages.rows, last + 1, None)) + pages.buffer.below
    return f"paused, {units.count(below, 'line')} below {SIGNS.down}" if below > 0 else "paused"


def search_text(ends: Sequence[int], match: int | None, search: FileSearch | None, buffer: LogBuffer) -> str:
    """Returns which match is shown of how many, and the progress of the search."""
    running = search is not None and search.running
    progress = f"searching, {search.searched_pct} %" if search is not None and running else ""
    if not ends and (running or search is not None or not buffer.has_gap):
        return progress or "no match"
    if not ends:
        return f"no match in the newest {units.count(buffer.printed - buffer.rows[0].lines, 'line')}"
    number = f"{ends.index(match) + 1:,}" if match in ends else SIGNS.ellipsis
    more = "+" if search is not None and search.is_full else ""
    return f"match {number} of {len(ends):,}{more}{', ' if progress else ''}{progress}"
