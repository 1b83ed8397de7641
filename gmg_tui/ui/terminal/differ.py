"""Sends the terminal only the cells that changed.

Textual writes a widget's row from its left edge to the last changed cell, each segment with its whole style. On a
screen where a few digits change each second that is many times what is needed, which a slow SSH line shows: eight busy
GPUs at 160x45 take 12 kB/s. Here the text of each frame is read as a terminal would read it, compared with what the
terminal shows, and only runs of changed cells are written, with only what changes of the style.

This works on what a Textual driver is given to write, and needs nothing of Textual itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rich.cells import cell_len

_TOKEN: Final = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|(\n)|([^\x1b\n]+)|(.)", re.DOTALL)
"""A cursor move, a style, a line end (which a move follows), text, or anything else."""
_GAP: Final = 4
"""So many unchanged cells between two changed ones, in one style, are sent again: a move costs as much."""
_SLICE: Final = 16
"""Cells that are compared at once."""


class Style(NamedTuple):
    """The style of a cell, as parameters of SGR."""

    attributes: str = ""
    foreground: str = "39"
    background: str = "49"


_DEFAULT: Final = Style()


class _Row:
    """The cells of a row. An empty text is the right half of a wide character; what is shown at a style of None is unknown."""

    __slots__ = ("styles", "texts")

    def __init__(self, texts: list[str], styles: list[Style | None]) -> None:
        self.texts = texts
        self.styles = styles

    @property
    def narrow(self) -> bool:
        """Whether every character takes exactly one cell."""
        return "" not in self.texts and len("".join(self.texts)) == len(self.texts)

    def write(self, x: int, text: str, style: Style) -> int:
        """Write `text` at the column `x`; returns the column after it."""
        if x > len(self.texts):
            self.styles += [None] * (x - len(self.texts))
            self.texts += [" "] * (x - len(self.texts))
        cells = list(text) if text.isascii() or _is_narrow(text) else self._wide_cells(x, text)
        end = x + len(cells)
        self.texts[x:end] = cells
        self.styles[x:end] = [style] * len(cells)
        return end

    def _wide_cells(self, x: int, text: str) -> list[str]:
        """The cells of a text of which some characters take two cells or none."""
        cells = self.texts[:x]
        for character in text:
            if width := cell_len(character):
                cells += [character, *[""] * (width - 1)]
            elif cells:  # a combining mark belongs to the character before it, two cells back if that is wide
                cells[-2 if not cells[-1] and len(cells) > 1 else -1] += character
        self.texts[:x] = cells[:x]
        return cells[x:]


class Differ:
    """The cells that the terminal shows, as far as this program has sent them."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._width = self._height = sys.maxsize

    def resize(self, width: int, height: int) -> None:
        """Send everything next time, and never what is beyond this size: a terminal writes it over its last column."""
        self._width, self._height = width, height
        self.forget()

    def forget(self) -> None:
        """Send everything next time: something else may have written to the terminal, or its size has changed."""
        self._rows.clear()

    def diff(self, frame: str) -> str:
        """What must be sent so that the terminal shows `frame`, which starts with a cursor move; empty for nothing."""
        rows, x, y, style = dict[int, _Row](), 0, 0, _DEFAULT
        for move_y, move_x, sgr, _, text, other in _TOKEN.findall(frame):
            if text:
                if y not in rows:
                    before = self._rows.get(y)
                    rows[y] = _Row(before.texts[:], before.styles[:]) if before is not None else _Row([], [])
                x = rows[y].write(x, text, style)
            elif move_y:
                y, x = int(move_y) - 1, int(move_x) - 1
            elif other:  # nothing that Textual writes in a frame: what it does to the cells is unknown
                self.forget()
                return frame
            else:
                style = _style_of(sgr)
        pen = _Pen()
        for y, row in sorted(rows.items()):
            if y >= self._height:
                continue
            del row.texts[self._width :], row.styles[self._width :]
            pen.write(row, y, _changed_runs(self._rows.get(y), row))
            self._rows[y] = row
        changes = pen.finish()
        return f"{changes}\x1b[{y + 1};{x + 1}H" if changes else ""


def _changed_runs(old: _Row | None, new: _Row) -> Iterable[tuple[int, int]]:
    """The runs of cells to send, close ones merged."""
    if old is None or len(old.texts) != len(new.texts):
        return [(0, len(new.texts))]
    if old.texts == new.texts and old.styles == new.styles:
        return []
    if not (old.narrow and new.narrow):  # terminals disagree on the width of some characters: rewrite the row
        return [(0, len(new.texts))]
    return _merged(new, _changed(old, new))


def _merged(row: _Row, changed: Iterable[int]) -> Iterator[tuple[int, int]]:
    start = end = -1
    for x in changed:
        if start < 0 or x - end > _GAP or any(style is not row.styles[end - 1] for style in row.styles[end:x]):
            if start >= 0:
                yield start, end
            start = x
        end = x + 1
    if start >= 0:
        yield start, end


def _changed(old: _Row, new: _Row) -> Iterator[int]:
    """The cells that differ. Most do not, and whole slices are compared many times faster than each of their cells."""
    for begin in range(0, len(new.texts), _SLICE):
        part = slice(begin, begin + _SLICE)
        texts, styles = new.texts[part], new.styles[part]
        if old.texts[part] == texts and old.styles[part] == styles:
            continue
        for x, (text, style) in enumerate(zip(texts, styles, strict=True), begin):
            if text != old.texts[x] or style is not old.styles[x]:
                yield x


class _Pen:
    """Writes runs of cells, and keeps track of cursor and style."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._style: Style = _DEFAULT
        self._at: tuple[int, int] | None = None

    def write(self, row: _Row, y: int, runs: Iterable[tuple[int, int]]) -> None:
        """Write runs of a row's cells."""
        narrow = row.narrow
        for start, stop in (piece for first, end in runs for piece in _pieces(row.styles, first, end)):
            self._out.append(_move(self._at, start, y))
            style = row.styles[start] or _DEFAULT
            if style != self._style:  # equal ones may be two objects once a cache has dropped one
                self._out.append(_switch(self._style, style))
                self._style = style
            self._out.append("".join(row.texts[start:stop]) if narrow else _careful(row.texts, start, stop))
            self._at = stop, y

    def finish(self) -> str:
        """All that was written, ending in the default style."""
        if self._style is not _DEFAULT:
            self._out.append("\x1b[0m")
        return "".join(self._out)


def _pieces(styles: list[Style | None], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The pieces of a run that have one style, which is known."""
    while start < end:
        style, stop = styles[start], start + 1
        while stop < end and styles[stop] is style:
            stop += 1
        if style is not None:
            yield start, stop
        start = stop


def _careful(texts: list[str], start: int, stop: int) -> str:
    """Cells of which some are wide; the cursor is set again after each of those."""
    return "".join(
        f"{text}\x1b[{x + 2}G" if len(text) != 1 else text for x, text in enumerate(texts[start:stop], start)
    )


def _move(at: tuple[int, int] | None, x: int, y: int) -> str:
    """The shortest sequence from one position to another."""
    if at == (x, y):
        return ""
    if at is None or at[1] != y:
        return f"\x1b[{y + 1};{x + 1}H"
    return f"\x1b[{x - at[0]}C" if at[0] < x else f"\x1b[{x + 1}G"


@lru_cache(4096)
def _is_narrow(text: str) -> bool:
    """Whether each character takes exactly one cell."""
    return cell_len(text) == len(text) and all(map(cell_len, set(text)))


@lru_cache(1024)
def _style_of(sgr: str) -> Style:
    """The style that the parameters of an SGR sequence set; Textual sets each from the default one."""
    attributes, foreground, background = list[str](), _DEFAULT.foreground, _DEFAULT.background
    codes = iter(sgr.split(";"))
    for code in codes:
        if code in {"38", "48"}:
            kind = next(codes, "")
            color = ";".join([code, kind, *(next(codes, "") for _ in range(1 if kind == "5" else 3))])
            foreground, background = (color, background) if code == "38" else (foreground, color)
        elif code.isdigit() and (30 <= int(code) < 40 or 90 <= int(code) < 98):
            foreground = code
        elif code.isdigit() and (40 <= int(code) < 50 or 100 <= int(code) < 108):
            background = code
        elif code in {"", "0"}:
            attributes, foreground, background = [], _DEFAULT.foreground, _DEFAULT.background
        else:
            attributes.append(code)
    return _interned(Style(";".join(attributes), foreground, background))


@lru_cache(1024)
def _interned(style: Style) -> Style:
    """The same object for all equal ones, so that cells are compared by identity."""
    return _DEFAULT if style == _DEFAULT else style


@lru_cache(4096)
def _switch(old: Style, new: Style) -> str:
    """The sequence from one style to another; attributes are only ended all together."""
    parts, before = list[str](), old
    if old.attributes != new.attributes:
        parts, before = [*(["0"] if old.attributes else []), new.attributes], _DEFAULT if old.attributes else old
    parts += [new.foreground] * (new.foreground != before.foreground)
    parts += [new.background] * (new.background != before.background)
    return f"\x1b[{';'.join(part for part in parts if part)}m"
