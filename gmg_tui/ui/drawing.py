"""Appearance: named styles, symbols, rows of cells, braille lines and bars.

All text reaches the main screen through `Row`, which cleans it, so that nothing a worker writes acts as a control
sequence or as markup.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Self, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip

from gmg_tui.model import GpuSample, WorkerState
from gmg_tui.model.text import clean
from gmg_tui.model.text import safe as make_safe

STYLES: Mapping[str, str] = {
    "text": "foreground",
    "dim": "text-muted",
    "strong": "foreground",
    "title": "primary",
    "ok": "success",
    "warn": "warning",
    "error": "error",
    "fps": "accent",
    "fps-graph": "accent",
    "vram": "secondary",
    "border": "border-blurred",
    "selected": "border",
    "tab": "primary",
    "match": "foreground",
    "match-here": "warning",
}
"""The variable of Textual's theme that colours each style."""
Appearance: TypeAlias = Mapping[str, Style]
"""The styles of a theme, by the names in `STYLES`."""

_BOLD = ("strong", "title", "warn", "error", "fps", "selected")
ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(_BOLD, "bold"),
    "tab": "bold underline",
    "match": "reverse",
    "match-here": "bold reverse underline",
}
"""The text attributes that distinguish styles without colours."""


STATE_SYMBOLS: Final[Mapping[WorkerState, str]] = dict(zip(WorkerState, "…○◔◑●◌↻✓✗■", strict=True))


def safe(text: str) -> str:
    """Returns `text` as one line without control characters."""
    is_safe = text.isprintable() and (text.isascii() or make_safe(text) is text)
    return text if is_safe else clean(text.encode("utf-8", "replace"))


def plain(text: str) -> Content:
    """Returns `text` for a widget: not parsed as markup, and without control characters."""
    return Content(make_safe(text).expandtabs(8))


# Rows

Piece: TypeAlias = tuple[str, str]
"""A text and its style's name."""
OnClick: TypeAlias = tuple[str, ...]
"""The name of an action and its arguments."""


def width_of(text: str) -> int:
    """Returns the width of `text` in cells."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """Returns `text`, truncated with an ellipsis to exactly `width` cells if it is longer."""
    if width <= 0 or width_of(text) <= width:
        return text if width > 0 else ""
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width)


class Row:
    """A row of fixed width: pieces at the left and right ends, and `fill` in between.

    Pieces are texts with style names, so only `strip` needs a theme. A clickable piece has an action with arguments,
    which the widget handles unless the action's name begins with `screen.` or `app.`.
    """

    __slots__ = ("_fill", "_left_pieces", "_right_pieces", "_right_used", "_used", "width")

    def __init__(self, width: int, fill: str = " ", style: str = "text") -> None:
        self.width = max(0, width)
        self._fill = fill, style
        self._left_pieces: list[tuple[str, str, OnClick | None]] = []
        self._right_pieces: list[tuple[str, str, OnClick | None]] = []
        self._used = 0
        self._right_used = 0

    @property
    def used(self) -> int:
        """The number of cells used on the left."""
        return self._used

    @property
    def room(self) -> int:
        """The number of free cells."""
        return self.width - self._used - self._right_used

    def add(self, text: str, style: str = "text", *, limit: int | None = None, click: OnClick | None = None) -> Self:
        """Appends `text` on the left, cut to the free cells and to `limit` cells."""
        shown = cut(safe(text), self.room if limit is None else min(limit, self.room))
        if shown:
            self._left_pieces.append((shown, style, click))
            self._used += width_of(shown)
        return self

    def end(self, text: str, style: str = "text") -> Self:
        """Prepends `text` to the pieces on the right, if all of it fits."""
        shown = safe(text)
        width = width_of(shown)
        if shown and width <= self.room:
            self._right_pieces.insert(0, (shown, style, None))
            self._right_used += width
        return self

    def pad_to(self, column: int) -> Self:
        """Pads with spaces to `column`, unless already past it."""
        return self.add(" " * min(column - self._used, self.room))

    def append(self, row: Self, *, click: OnClick | None = None) -> Self:
        """Appends another row, which must fit; `click` makes all of it clickable."""
        self._left_pieces += [(text, style, click or own_click) for text, style, own_click in row._all_pieces()]
        self._used += row.width
        return self

    def _all_pieces(self) -> list[tuple[str, str, OnClick | None]]:
        fill, style = self._fill
        return [*self._left_pieces, (fill * self.room, style, None), *self._right_pieces]

    def __str__(self) -> str:
        return "".join(text for text, *_ in self._all_pieces())

    def strip(self, appearance: Appearance, cursor: Style | None = None) -> Strip:
        """Renders the row in a theme's styles; with `cursor`, only in the cursor's colours, to stay legible."""
        pieces = [(text, _clickable(appearance[style], click)) for text, style, click in self._all_pieces() if text]
        if cursor is not None:
            pieces = [(text, cursor + Style(bold=style.bold)) for text, style in pieces]
        return Strip([Segment(text, style) for text, style in pieces], self.width)


@lru_cache(4096)
def _clickable(style: Style, click: OnClick | None) -> Style:
    """Returns a style with Textual's click metadata, cached: cells compare faster if equal styles are one object."""
    return style if click is None else style + Style(meta={"@click": (click[0], click[1:])})


# Graphs and bars


Values: TypeAlias = Sequence[float | None]
"""Values at equal intervals, oldest first."""
_BRAILLE_START: Final = 0x2800
_DOT_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille cell's dots, by column, each from the top."""


def braille_line(fractions: Values, width: int, height: int) -> list[str]:
    """Renders a line through values from 0 (lower edge) to 1 (upper edge), two per cell, right-aligned.

    Neighbours are joined, unknown values leave a gap, and values beyond an edge are clamped. Cells without the line are
    blank.
    """
    shown = fractions[-2 * width :] if width > 0 and height > 0 else ()
    cells = [[0] * width for _ in range(height)]
    last, previous = height * 4 - 1, -1
    for column, value in enumerate(shown, 2 * width - len(shown)):
        if value is None or math.isnan(value):
            previous = -1
            continue
        row = 0 if value >= 1 else last if value <= 0 else round((1 - value) * last)
        start = row if previous in {-1, row} else previous + (1 if previous < row else -1)
        cell, dots = column // 2, _DOT_BITS[column % 2]
        for dot in range(start, row + 1) if start < row else range(row, start + 1):
            cells[dot // 4][cell] |= dots[dot % 4]
        previous = row
    return ["".join(chr(_BRAILLE_START + bits) if bits else " " for bits in row) for row in cells]


_PARTIAL_CELLS: Final = " ▏▎▍▌▋▊▉"
"""Partly filled cells for the end of a bar, by eighths."""


def bar(fraction: float, width: int) -> tuple[str, str]:
    """Returns the full and empty parts of a bar of exactly `width` cells; `fraction` is clamped to 0 to 1."""
    full_cells, eighths = divmod(round(min(1.0, max(0.0, fraction)) * width * 8), 8)
    full = "█" * full_cells + (_PARTIAL_CELLS[eighths] if eighths else "")
    return full, "░" * (width - len(full))


_LOADS: Final[Mapping[str, tuple[Callable[[GpuSample], float | None], Sequence[tuple[float, str]]]]] = {
    "gpu_util_pct": (lambda gpu: gpu.gpu_util_pct, ((10.0, "dim"), (60.0, "warn"), (math.inf, "ok"))),
    "memory": (
        lambda gpu: _share(gpu.memory_used_mib, gpu.memory_total_mib),
        ((0.8, "ok"), (0.95, "warn"), (math.inf, "error")),
    ),
    "power_w": (lambda gpu: _share(gpu.power_w, gpu.power_limit_w), ((0.9, "ok"), (math.inf, "warn"))),
    "temperature_c": (lambda gpu: gpu.temperature_c, ((70.0, "ok"), (85.0, "warn"), (math.inf, "error"))),
}
"""A function for the load in each column, and its styles with their upper limits in ascending order."""


def _share(value: float | None, total: float | None) -> float | None:
    return value / total if value is not None and total else None


def load_style(sample: GpuSample, column: str) -> str:
    """Returns the style for a GPU's load in `column`, a key of `_LOADS`; `dim` if it is unknown."""
    load, limits = _LOADS[column]
    value = load(sample)
    return "dim" if value is None else next((style for limit, style in limits if value < limit), "dim")


WHEEL_ROWS: Final = 3
"""Rows to scroll per step of the mouse wheel."""
