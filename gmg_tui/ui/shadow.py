"""What the terminal shows, cell by cell, so that only cells that changed are sent.

Textual sends every cell of a changed region, each piece with all of its colours, and begins at the left edge of the
widget. On a screen where a few digits move each second that is ten times what is needed, and a bad SSH line feels it.
Here each frame is held against the one before; what differs is written in runs, and only what differs in the style is
said again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

_GAP = 4
"""Cells that are the same between two that changed, up to which they are sent again: to step over them costs as much."""


class Ink(NamedTuple):
    """How a cell is written, as parameters of SGR."""

    attributes: str = ""
    foreground: str = "39"
    background: str = "49"


PLAIN = Ink()


class _Row(NamedTuple):
    texts: list[str]
    """One for each cell; empty where the cell is the right half of a wide character."""
    inks: list[Ink]
    plain: bool
    """Whether every character takes exactly one cell."""


class Shadow:
    """The cells that the terminal shows, as far as this program has sent them."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def forget(self) -> None:
        """Take nothing for granted any more: something else may have written on the terminal, or it changed its size."""
        self._rows.clear()

    def write(self, update: LayoutUpdate | ChopsUpdate, console: Console) -> str:
        """What must be sent so that the terminal shows `update`."""
        system = COLOR_SYSTEMS[console.color_system or "truecolor"]
        pen = _Pen()
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                self._write_row(y, _cells(list(strips), system), pen)
            return pen.finish()
        for y in sorted({y for y, _, _ in update.spans}):
            pieces = update.chops[y]
            strips = [strip for strip in pieces.values() if strip is not None]
            if len(strips) == len(pieces):
                self._write_row(y, _cells(strips, system), pen)
            else:
                self._write_row(y, self._patched(self._rows.get(y), pieces, update.chop_ends[y], system), pen)
        return pen.finish()

    def _write_row(self, y: int, row: _Row, pen: _Pen) -> None:
        old = self._rows.get(y)
        self._rows[y] = row
        if old is None or len(old.texts) != len(row.texts):
            pen.run(row, y, 0, len(row.texts))
        elif old.texts == row.texts and old.inks == row.inks:
            return
        elif not (old.plain and row.plain):
            # Terminals differ on how wide some characters are: what stands behind one is written anew.
            pen.run(row, y, 0, len(row.texts))
        else:
            for start, end in _runs(old, row):
                pen.run(row, y, start, end)

    @staticmethod
    def _patched(old: _Row | None, pieces: Mapping[int, Strip | None], ends: list[int], system: ColorSystem) -> _Row:
        """The row where some of its pieces were not drawn, because they did not change."""
        width = ends[-1]
        texts = old.texts[:] if old else [" "] * width
        inks = old.inks[:] if old else [PLAIN] * width
        plain = old.plain if old else True
        for end, (x, strip) in zip(ends, pieces.items(), strict=False):
            if strip is not None:
                piece = _cells([strip], system)
                texts[x:end], inks[x:end] = piece.texts, piece.inks
                plain = plain and piece.plain
        return _Row(texts, inks, plain)


class _Pen:
    """Writes runs of cells, and remembers where it is and what it writes with."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._ink = PLAIN
        self._at: tuple[int, int] | None = None

    def run(self, row: _Row, y: int, start: int, end: int) -> None:
        """Write the cells from `start` to before `end` of a row."""
        self._go(start, y)
        texts, inks = row.texts, row.inks
        begin = start
        while begin < end:
            stop = begin + 1
            ink = inks[begin]
            while stop < end and inks[stop] is ink:
                stop += 1
            if ink is not self._ink:
                self._out.append(_switch(self._ink, ink))
                self._ink = ink
            if row.plain:
                self._out.append("".join(texts[begin:stop]))
            else:
                self._careful(texts, begin, stop)
            begin = stop
        self._at = (end, y)

    def _careful(self, texts: list[str], begin: int, stop: int) -> None:
        """Write cells of which some are wide, and say anew behind each where the cursor is."""
        for x in range(begin, stop):
            self._out.append(texts[x])
            if not texts[x] or len(texts[x]) > 1:
                self._out.append(f"\x1b[{x + 2}G")

    def _go(self, x: int, y: int) -> None:
        if self._at is not None and self._at[1] == y and self._at[0] < x:
            self._out.append(f"\x1b[{x - self._at[0]}C")
        elif self._at != (x, y):
            self._out.append(f"\x1b[{y + 1};{x + 1}H")

    def finish(self) -> str:
        """All that was written, with the terminal's own style at the end."""
        if self._ink is not PLAIN:
            self._out.append("\x1b[0m")
        return "".join(self._out)


def _cells(strips: list[Strip], system: ColorSystem) -> _Row:
    texts: list[str] = []
    inks: list[Ink] = []
    plain = True
    for text, style, control in chain.from_iterable(strips):
        if control or not text:
            continue
        if text.isascii() or (cell_len(text) == len(text) and all(map(cell_len, text))):
            texts.extend(text)
            inks.extend([_ink(style, system)] * len(text))
        else:
            plain = False
            before = len(texts)
            for character in text:
                _put(texts, character)
            inks.extend([_ink(style, system)] * (len(texts) - before))
    return _Row(texts, inks, plain)


def _put(texts: list[str], character: str) -> None:
    width = cell_len(character)
    if width == 0:
        if texts:
            # A mark belongs to the character before it, which for a wide one is two cells back.
            at = -2 if not texts[-1] and len(texts) > 1 else -1
            texts[at] += character
        return
    texts.append(character)
    texts.extend([""] * (width - 1))


def _runs(old: _Row, new: _Row) -> list[tuple[int, int]]:
    """The stretches of cells that differ, those close to each other taken together."""
    runs: list[tuple[int, int]] = []
    start = end = -1
    for x, (text, other, ink, other_ink) in enumerate(zip(old.texts, new.texts, old.inks, new.inks, strict=True)):
        if text != other or ink is not other_ink:
            if start >= 0 and x - end <= _GAP:
                end = x + 1
                continue
            if start >= 0:
                runs.append((start, end))
            start, end = x, x + 1
    if start >= 0:
        runs.append((start, end))
    return runs


@lru_cache(1024)
def _ink(style: Style | None, system: ColorSystem) -> Ink:
    if style is None:
        return PLAIN
    attributes = Strip.render_ansi(style.without_color, system)
    foreground = background = ""
    if style.color is not None:
        foreground = ";".join(style.color.downgrade(system).get_ansi_codes())
    if style.bgcolor is not None:
        background = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False))
    return _one(Ink(attributes, foreground or PLAIN.foreground, background or PLAIN.background))


@lru_cache(1024)
def _one(ink: Ink) -> Ink:
    """The same object for all that are equal, so that cells are compared by identity."""
    return PLAIN if ink == PLAIN else ink


@lru_cache(4096)
def _switch(old: Ink, new: Ink) -> str:
    """The shortest sequence from one style to another."""
    if old.attributes != new.attributes:
        parts = ["0", new.attributes] if old.attributes else [new.attributes]
        before = PLAIN if old.attributes else old
    else:
        parts, before = [], old
    if new.foreground != before.foreground:
        parts.append(new.foreground)
    if new.background != before.background:
        parts.append(new.background)
    return f"\x1b[{';'.join(part for part in parts if part)}m"


class Frame(CompositorUpdate):
    """One of Textual's updates, to be sent by way of a shadow."""

    def __init__(self, update: LayoutUpdate | ChopsUpdate, shadow: Shadow) -> None:
        self._update = update
        self._shadow = shadow

    def render_segments(self, console: Console) -> str:
        """What must be sent; asked for once, when it is sent."""
        return self._shadow.write(self._update, console)
