"""What the terminal shows, cell by cell, so that only changed cells are sent.

Textual sends every cell of a changed region, each segment with all of its style. On a screen where a few digits change
each second that is many times what is needed, which a slow SSH line shows. Here each frame is compared with the one
before; runs of changed cells are written, with only what changes of the style.

This is the only module that uses private parts of Textual: its updates of the screen, and where an app writes them.
With eight busy GPUs at 160x48 it sends 0.7 kB/s; without it 12 kB/s are sent, since Textual writes a widget's row from
its left edge to the last changed cell, whatever part of it is refreshed (8.2.8, `ChopsUpdate.render_segments`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar, cast

import textual
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.style import Style
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

Result = TypeVar("Result")

TESTED: Final = (8, 2, 5), (9,)
"""The first version of Textual that this works with, and the first that it is not tried with."""
_GAP_BYTES = 4
"""Unchanged cells between two changed ones are sent again if they take no more than this: skipping costs as much."""
_INTENSITIES = ("1", "2")
"""Bold and dim, which one code ends without ending the colours."""
_SLICE = 16
"""Cells that are compared at once."""


class Ink(NamedTuple):
    """The style of a cell, as parameters of SGR."""

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


class Differ:
    """The cells that the terminal shows, as far as this program has sent them."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def forget(self) -> None:
        """Send everything next time: something else may have written to the terminal, or its size has changed."""
        self._rows.clear()

    def frame(self, renderable: RenderableType | None, *, sync: bool) -> RenderableType | None:
        """`renderable` such that this differ writes it, if it is an update of the screen.

        With `sync` it says to the terminal where it begins and ends: Textual would write that separately, and each of
        its writes wakes a thread.
        """
        if isinstance(renderable, LayoutUpdate | ChopsUpdate):
            return cast("RenderableType", Frame(renderable, self, sync=sync))
        return renderable

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
            pen.row(row, y, [(0, len(row.texts))])
        elif old.texts == row.texts and old.inks == row.inks:
            return
        elif not (old.plain and row.plain):
            # Terminals disagree on the width of some characters: a row with such is rewritten.
            pen.row(row, y, [(0, len(row.texts))])
        else:
            pen.row(row, y, _runs(old, row))

    @staticmethod
    def _patched(old: _Row | None, pieces: Mapping[int, Strip | None], ends: list[int], system: ColorSystem) -> _Row:
        """The row if some of its pieces were not drawn because they did not change."""
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
    """Writes runs of cells, and keeps track of cursor and style."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._ink = PLAIN
        self._at: tuple[int, int] | None = None

    def row(self, row: _Row, y: int, runs: Iterable[tuple[int, int]]) -> None:
        """Write runs of a row's cells, from the left or one style after another, whichever is shorter."""
        pieces = [piece for start, end in runs for piece in _pieces(row.inks, start, end)]
        drawn = self._drawn(row, y, pieces)
        places = {id(self._ink): -1}
        if row.plain and len({id(row.inks[start]) for start, _ in pieces}) < len(pieces):
            by_ink = sorted(pieces, key=lambda piece: places.setdefault(id(row.inks[piece[0]]), len(places)))
            drawn = min(drawn, self._drawn(row, y, by_ink), key=lambda each: len(each[0]))
        text, self._ink, self._at = drawn
        self._out.append(text)

    def _drawn(self, row: _Row, y: int, pieces: Iterable[tuple[int, int]]) -> tuple[str, Ink, tuple[int, int] | None]:
        """What writes pieces of one style each, and the style and the cursor's place after that."""
        out, ink, at = list[str](), self._ink, self._at
        for start, stop in pieces:
            out.append(_move(at, start, y))
            if row.inks[start] is not ink:
                out.append(_switch(ink, row.inks[start]))
                ink = row.inks[start]
            out.append("".join(row.texts[start:stop]) if row.plain else _careful(row.texts, start, stop))
            at = stop, y
        return "".join(out), ink, at

    def finish(self) -> str:
        """All that was written, ending in the default style."""
        if self._ink is not PLAIN:
            self._out.append("\x1b[0m")
        return "".join(self._out)


def _pieces(inks: list[Ink], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The pieces of a run that have one style."""
    while start < end:
        stop = start + 1
        while stop < end and inks[stop] is inks[start]:
            stop += 1
        yield start, stop
        start = stop


def _careful(texts: list[str], start: int, stop: int) -> str:
    """Cells of which some are wide; the cursor is set again after each of those."""
    return "".join(
        f"{text}\x1b[{x + 2}G" if len(text) != 1 else text for x, text in enumerate(texts[start:stop], start)
    )


def _move(at: tuple[int, int] | None, x: int, y: int) -> str:
    """The shortest sequence from one place to another."""
    if at == (x, y):
        return ""
    if at is None or at[1] != y:
        return f"\x1b[{y + 1};{x + 1}H"
    return f"\x1b[{x - at[0]}C" if at[0] < x else f"\x1b[{x + 1}G"


def _cells(strips: list[Strip], system: ColorSystem) -> _Row:
    texts: list[str] = []
    inks: list[Ink] = []
    plain = True
    for text, style, control in chain.from_iterable(strips):
        if control or not text:
            continue
        if text.isascii() or _narrow(text):
            texts.extend(text)
            inks.extend([_ink(style, system)] * len(text))
        else:
            plain = False
            before = len(texts)
            for character in text:
                _put(texts, character)
            inks.extend([_ink(style, system)] * (len(texts) - before))
    return _Row(texts, inks, plain)


@lru_cache(4096)
def _narrow(text: str) -> bool:
    """Whether each character takes exactly one cell."""
    return cell_len(text) == len(text) and all(map(cell_len, set(text)))


def _put(texts: list[str], character: str) -> None:
    width = cell_len(character)
    if width == 0:
        if texts:
            # A combining mark belongs to the character before it, two cells back if that is wide.
            at = -2 if not texts[-1] and len(texts) > 1 else -1
            texts[at] += character
        return
    texts.append(character)
    texts.extend([""] * (width - 1))


def _runs(old: _Row, new: _Row) -> list[tuple[int, int]]:
    """The runs of cells that differ, those close to each other merged."""
    runs: list[tuple[int, int]] = []
    start = end = -1
    for x in _changed(old, new):
        if start >= 0 and x - end <= _GAP_BYTES and _is_short(new, end, x):
            end = x + 1
            continue
        if start >= 0:
            runs.append((start, end))
        start, end = x, x + 1
    if start >= 0:
        runs.append((start, end))
    return runs


def _is_short(row: _Row, start: int, end: int) -> bool:
    """Whether a gap takes few bytes, in the style of the cell before it."""
    ink = row.inks[start - 1]
    return len("".join(row.texts[start:end]).encode()) <= _GAP_BYTES and all(
        each is ink for each in row.inks[start:end]
    )


def _changed(old: _Row, new: _Row) -> Iterator[int]:
    """The cells that differ. Most do not, and whole slices are compared many times faster than each of their cells."""
    for begin in range(0, len(new.texts), _SLICE):
        part = slice(begin, begin + _SLICE)
        texts, inks = new.texts[part], new.inks[part]
        if old.texts[part] == texts and old.inks[part] == inks:
            continue
        for x, (text, ink) in enumerate(zip(texts, inks, strict=True), begin):
            if text != old.texts[x] or ink is not old.inks[x]:
                yield x


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
    """The same object for all equal ones, so that cells are compared by identity."""
    return PLAIN if ink == PLAIN else ink


@lru_cache(4096)
def _switch(old: Ink, new: Ink) -> str:
    """The shortest sequence from one style to another."""
    if old.attributes in _INTENSITIES and not new.attributes:
        parts, before = ["22"], old
    elif old.attributes != new.attributes:
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
    """One of Textual's updates, to be sent through a differ."""

    def __init__(self, update: LayoutUpdate | ChopsUpdate, differ: Differ, *, sync: bool) -> None:
        self._update = update
        self._differ = differ
        self._sync = sync

    def render_segments(self, console: Console) -> str:
        """What must be sent; called once, when it is sent."""
        text = self._differ.write(self._update, console)
        return f"{SYNC_START}{text}{SYNC_END}" if text and self._sync else text


def _is_tested() -> bool:
    version = tuple(map(int, re.findall(r"\d+", textual.__version__)[:3]))
    return TESTED[0] <= version < TESTED[1]


class DiffedApp(App[Result], inherit_bindings=False):
    """An app whose frames go through a differ, in versions of Textual that this is tested with."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._differ = Differ() if _is_tested() else None
        self._displayed = Size(0, 0)
        """The size of the last frame."""
        if self._differ is None:
            logging.getLogger(__name__).warning("Textual %s: whole rows are sent to the terminal", textual.__version__)

    def forget_terminal(self) -> None:
        """Send whole frames next time: the terminal may not show what was sent."""
        if self._differ is not None:
            self._differ.forget()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if screen.size != self._displayed:
            self._displayed = screen.size
            self.forget_terminal()  # a frame of the size before may have come after the terminal changed
        if self._differ is not None:
            renderable = self._differ.frame(renderable, sync=self._sync_available)
        super()._display(screen, renderable)

    def _begin_update(self) -> None:
        if self._differ is None:  # else its frames begin and end updates
            super()._begin_update()

    def _end_update(self) -> None:
        if self._differ is None:
            super()._end_update()
