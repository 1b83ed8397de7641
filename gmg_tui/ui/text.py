"""Text on widgets: without markup or control characters, and texts beside their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from gmg_tui.text import clean

_GAP: Final = 1
"""Cells between a label and its text."""


def plain(text: str) -> Content:
    """`text` for a widget: never parsed as markup, without anything that a terminal would interpret."""
    return Content("\n".join(clean(line.encode("utf-8", "replace")) for line in text.split("\n")))


class Fact(NamedTuple):
    """A label and its text; a heading where there is no text."""

    label: str
    text: str = ""
    style: str = ""
    """Of the text, as in Textual's CSS: `$warning`, `bold`."""


class Facts(Widget):
    """Texts that wrap beside their labels."""

    DEFAULT_CSS = "Facts { height: auto; width: 1fr; }"

    def __init__(self, facts: Sequence[Fact] = (), *, label_width: int = 14, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._facts = tuple(facts)
        self._label_width = label_width

    def show(self, facts: Sequence[Fact]) -> None:
        """Show these facts; the layout changes only with their number of lines."""
        if tuple(facts) != self._facts:
            before = len(self._lines(self.size.width))
            self._facts = tuple(facts)
            self.refresh(layout=len(self._lines(self.size.width)) != before)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines at `width`."""
        return len(self._lines(width))

    def render(self) -> Content:
        """All lines."""
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Content]:
        lines: list[Content] = []
        indent = min(self._label_width, max(1, width) // 2)
        for fact in self._facts:
            label = plain(fact.label)
            if not fact.text:
                lines += [Content("")] * bool(lines) + label.stylize("bold $primary").wrap(max(1, width))
                continue
            wrapped = plain(fact.text).stylize(fact.style).wrap(max(1, width - indent))
            if label.cell_length > indent - _GAP:
                lines.append(label.stylize("$text-muted"))
                label = Content("")
            first = label.stylize("$text-muted").pad_right(indent - label.cell_length) + wrapped[0]
            lines += [first, *(line.pad_left(indent) for line in wrapped[1:])]
        return lines
