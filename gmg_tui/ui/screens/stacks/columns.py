"""Stacks as columns of rows: side by side where there is room, else one after another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from textual.strip import Strip

from gmg_tui.model import Stacks
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page, fold
from gmg_tui.ui.drawing.row import Row

_LEAST: Final = 44
"""Cells that a column needs."""
_GAP: Final = 2
_FAULTHANDLER: Final = re.compile(r'\s*File "(?P<path>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)')
_PY_SPY: Final = re.compile(r"\s+(?P<name>\S.*) \((?P<path>[^()]+):(?P<line>\d+)\)")
_ORDER: Final = re.compile(r" \(most recent call first\):$")


class Line(NamedTuple):
    """A row of one column."""

    text: str
    style: str


def title(stacks: Stacks) -> str:
    """`rank 1 · gpu1`, or the slot alone."""
    return stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}"


def frames(stacks: Stacks) -> list[str]:
    """The text with its frames as `step  loop.py:12`, the thread that was asked first."""
    threads: list[list[str]] = [[]]
    for line in stacks.text.splitlines():
        found = _FAULTHANDLER.match(line) or _PY_SPY.match(line)
        if found is not None:
            threads[-1].append(f"  {found['name']}  {found['path'].rpartition('/')[2]}:{found['line']}")
        elif line.strip():
            if threads[-1] and "hread" in line:
                threads.append([])
            threads[-1].append(_ORDER.sub("", line).strip())
    threads.sort(key=lambda rows: not rows or not rows[0].startswith("Current thread"))
    return [row for rows in threads for row in rows]


def copied(all_stacks: Sequence[Stacks]) -> str:
    """All of them as they were written, for the clipboard."""
    return "\n\n".join(
        f"{title(one)} ({one.source or 'no stack'})\n{one.text or one.error or ''}" for one in all_stacks
    )


def rows(all_stacks: Sequence[Stacks], width: int, appearance: Appearance) -> list[Strip]:
    """All of them in rows of `width` cells; what not all have is told from what they share."""
    across = max(1, min(len(all_stacks), (width + _GAP) // (_LEAST + _GAP)))
    each = (width - _GAP * (across - 1)) // across
    told = [frames(one) for one in all_stacks]
    shared = Counter(line for lines in told for line in set(lines))
    answered = sum(bool(lines) for lines in told)
    columns = [
        _column(one, lines, {line for line in lines if answered > 1 and shared[line] == answered}, each - 1, appearance)
        for one, lines in zip(all_stacks, told, strict=True)
    ]
    page = Page(width, appearance)
    for first in range(0, len(columns), across):
        page.gap()
        for cells in zip_longest(*columns[first : first + across], fillvalue=Line("", "text")):
            row = Row(appearance, width)
            for number, cell in enumerate(cells):
                at = number * (each + _GAP)
                row.to(at).add(f" {cell.text}", cell.style, limit=each)
            page.line(row)
    return page.rows


def _column(stacks: Stacks, lines: Sequence[str], shared: set[str], width: int, appearance: Appearance) -> list[Line]:
    source = f"  {stacks.source}" if stacks.source else ""
    found = [Line(f"{title(stacks)}{source}", "title")]
    if stacks.error is not None:
        found += [Line(text, "warn") for text in fold(appearance.text(stacks.error), width)]
    for line in lines:
        style = "dim" if not line.startswith("  ") or line in shared else "text"
        found += [Line(text, style) for text in fold(appearance.text(line), width)]
    return found
