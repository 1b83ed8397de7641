"""Facts: labels with wrapped texts on their right, in blocks below headings."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size

from gmg_tui.ui import keys
from gmg_tui.ui.drawing import Row, safe
from gmg_tui.ui.rows import Rows

_MIN_LABEL_CELLS: Final = 13
_MAX_LABEL_CELLS: Final = 30
_GAP_CELLS: Final = 3
"""Cells between two columns of blocks."""


class Fact(NamedTuple):
    """A label and its text; a heading if it has no text."""

    label: str
    text: str = ""
    style: str = "text"


def wrap(text: str, width: int) -> list[str]:
    """Wraps `text`, at spaces if possible; keeps its line breaks, and expands tabs."""
    lines = [safe(line.expandtabs(8)) for line in text.splitlines()] or [""]
    return [wrapped.plain for line in lines for wrapped in Content(line).wrap(max(2, width))]


def fact_rows(facts: Iterable[Fact], width: int) -> list[Row]:
    """Returns the rows of facts, with an empty row above each heading unless it comes first."""
    facts, rows = list(facts), list[Row]()
    longest = max((cell_len(safe(fact.label)) for fact in facts if fact.text), default=0)
    text_column = min(max(_MIN_LABEL_CELLS, min(longest, _MAX_LABEL_CELLS)), max(4, width // 2)) + 1 if longest else 0
    for fact in facts:
        if not fact.text:
            rows += [*([Row(width)] if rows else []), Row(width).add(fact.label, "title")]
            continue
        row = Row(width).add(fact.label, "dim", limit=text_column - 1)
        for line in wrap(fact.text, width - text_column):
            rows.append(row.pad_to(text_column).add(line, fact.style))
            row = Row(width)
    return rows


class Facts(Rows):
    """Facts in blocks, side by side if each gets at least `block_width` cells; with 0, always in one column."""

    DEFAULT_CSS = "Facts { height: auto; width: 1fr; overflow-y: auto; scrollbar-size-vertical: 1; }"

    BINDINGS: ClassVar[list[BindingType]] = [*keys.SCROLL]

    def __init__(self, facts: Sequence[Fact] = (), *, block_width: int = 0) -> None:
        super().__init__()
        self._facts = tuple(facts)
        self._block_width = block_width

    def show(self, facts: Iterable[Fact]) -> None:
        """Replaces the facts."""
        facts = tuple(facts)
        if facts != self._facts:
            old_count = len(self._facts)
            self._facts = facts
            if self.styles.is_auto_height and old_count != len(facts):
                self.refresh(layout=True)
            self.update_rows()

    @property
    def text(self) -> str:
        """The facts to copy, one per line."""
        return "\n".join(f"{fact.label}  {fact.text}".strip() for fact in self._facts)

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the visible rows."""
        rows = self._all_rows(width)
        self.virtual_size = Size(width, len(rows))
        shown = rows[self.scroll_offset.y :][:height]
        if shown and len(rows) > self.scroll_offset.y + height and not self.show_vertical_scrollbar:
            shown[-1].end("…", "dim")
        return shown

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Returns the number of rows."""
        return len(self._all_rows(width))

    def _all_rows(self, width: int) -> list[Row]:
        count = max(1, (width + _GAP_CELLS) // (self._block_width + _GAP_CELLS)) if self._block_width else 1
        blocks = [list[Fact]()]
        for fact in self._facts:
            if not fact.text and blocks[-1] and count > 1:
                blocks.append([])
            blocks[-1].append(fact)
        count = min(count, len(blocks))
        if count == 1:
            return fact_rows(self._facts, width)
        block_cells = (width + _GAP_CELLS) // count - _GAP_CELLS
        columns = [list[Row]() for _ in range(count)]
        for block in blocks:
            column = min(columns, key=len)
            column += [*([Row(block_cells)] if column else []), *fact_rows(block, block_cells)]
        rows = [Row(width) for _ in range(max(map(len, columns)))]
        for number, column in enumerate(columns):
            for row, block_row in zip(rows, column, strict=False):
                row.pad_to(number * (block_cells + _GAP_CELLS)).append(block_row)
        return rows
