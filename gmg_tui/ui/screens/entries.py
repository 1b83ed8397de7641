"""Labelled rows of text that wrap beside their labels: the body of the help and of most of the details."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from gmg_tui.ui.screens.parts import as_shown, style
from gmg_tui.ui.screens.sheet import fold

_LEAST_TEXT = 12
"""Cells that the text must keep beside its label; where there are fewer, it stands under it."""


class Entry(NamedTuple):
    """One row: a label and its text, or a heading."""

    label: str
    text: str = ""
    style: str = "text"
    """A name of `look.STYLES`, for the text; of a heading, for the heading."""


class Entries(Widget):
    """Rows one under the other. Any text may be given: it is cleaned here and never parsed.

    Args:
        rows: The rows.
        label_width: Cells that the labels take.
    """

    DEFAULT_CSS = """
    Entries { height: auto; width: 1fr; }
    """

    def __init__(self, rows: Iterable[Entry] = (), *, label_width: int = 14, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._entries = tuple(rows)
        self._label_width = label_width

    def show(self, rows: Iterable[Entry]) -> None:
        """Draw these rows from now on; a layout is made only when their number of lines changes."""
        fresh = tuple(rows)
        if fresh != self._entries:
            before = len(self._lines(self.size.width))
            self._entries = fresh
            self.refresh(layout=len(self._lines(self.size.width)) != before)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines at `width`."""
        return len(self._lines(width))

    def render(self) -> Content:
        """All lines."""
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Content]:
        return [line for row in self._entries for line in self._wrapped(row, max(1, width))]

    def _wrapped(self, row: Entry, width: int) -> list[Content]:
        label, text = as_shown(row.label, self.app), as_shown(row.text, self.app)
        if not text:
            return [Content.styled(label, style(row.style, "bold"))]
        indent = self._label_width if width >= self._label_width + _LEAST_TEXT else 2
        folded = fold(text, width - indent)
        lines = [Content.assemble(" " * indent, (line, style(row.style))) for line in folded]
        if cell_len(label) >= indent:
            return [Content.styled(label, style("dim")), *lines]
        head = Content.assemble((set_cell_size(label, indent), style("dim")), (folded[0], style(row.style)))
        return [head, *lines[1:]]
