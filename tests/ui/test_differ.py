"""What is sent to the terminal: after any frames it shows the last one, as if only that had been sent."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from gmg_tui.ui.terminal import Differ
from tests.pseudo_terminal import text_of
from tests.ui import play, sessions
from tests.workers import changed

SIZE = WIDTH, HEIGHT = Size(12, 3)
_STYLES = [
    None,
    Style(),
    Style(color="red"),
    Style(color="color(121)", bold=True),
    Style(color="#5fd7ff", bgcolor="#121212"),
    Style(bgcolor="blue", reverse=True),
    Style(underline=True, italic=True),
]
_ALPHABET = "aab  █▁é世💤"
"""Single and double width; a terminal may differ from us on nothing else."""


class Piece(NamedTuple):
    text: str
    style: Style | None


def _row(pieces: list[Piece]) -> Strip:
    """`pieces` cut and filled to `WIDTH` cells."""
    return Strip([Segment(text, style) for text, style in pieces]).adjust_cell_length(WIDTH, Style())


_rows = st.lists(
    st.builds(Piece, st.text(_ALPHABET, min_size=1, max_size=9), st.sampled_from(_STYLES)), min_size=1, max_size=5
).map(_row)
_frames = st.lists(_rows, min_size=HEIGHT, max_size=HEIGHT)


def _whole(frame: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[strip] for strip in frame], Region(0, 0, WIDTH, HEIGHT))


def _part(frame: list[Strip], rows: set[int], cuts: list[int], *, missing: int | None = None) -> ChopsUpdate:
    """The changed rows of `frame`, cut where widgets meet, without the piece at column `missing`."""
    edges = sorted({0, *cuts, WIDTH})
    chops: list[dict[int, Strip | None]] = []
    for strip in frame:
        pieces = strip.divide(edges[1:])
        chops.append({x: None if x == missing else piece for x, piece in zip(edges[:-1], pieces, strict=True)})
    return ChopsUpdate(chops, [(y, 0, WIDTH) for y in rows], [edges[1:]] * HEIGHT)


Cells = list[list[tuple[object, ...]]]


class Terminal:
    """A terminal emulator that supports the sequences of the differ."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._stream = pyte.Stream(self._screen)

    def feed(self, text: str) -> None:
        self._stream.feed(text)

    @property
    def cells(self) -> Cells:
        return [[tuple(self._screen.buffer[y][x]) for x in range(WIDTH)] for y in range(HEIGHT)]


def _console(colors: str) -> Console:
    return Console(color_system=colors, force_terminal=True)  # type: ignore[arg-type]


def _alone(frame: list[Strip], console: Console) -> Cells:
    terminal = Terminal()
    terminal.feed(Differ().diff(_whole(frame).render_segments(console), SIZE))
    return terminal.cells


@given(
    frames=st.lists(_frames, min_size=2, max_size=4),
    colors=st.sampled_from(["standard", "256", "truecolor"]),
    layout=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_the_terminal_shows_the_last_frame_whatever_it_showed_before(
    frames: list[list[Strip]], colors: str, layout: bool
) -> None:
    console, differ, terminal = _console(colors), Differ(), Terminal()
    terminal.feed(differ.diff(_whole(frames[0]).render_segments(console), SIZE))
    for frame in frames[1:]:
        update = _whole(frame) if layout else _part(frame, set(range(HEIGHT)), [])
        terminal.feed(differ.diff(update.render_segments(console), SIZE))
    assert terminal.cells == _alone(frames[-1], console)


_narrow = st.lists(
    st.builds(Piece, st.text("ab █", min_size=1, max_size=9), st.sampled_from(_STYLES)), min_size=1, max_size=5
).map(_row)


@given(
    before=st.lists(_narrow, min_size=HEIGHT, max_size=HEIGHT),
    after=st.lists(_narrow, min_size=HEIGHT, max_size=HEIGHT),
    cut=st.integers(1, WIDTH - 1),
    left=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_region_that_was_not_drawn_is_unchanged(
    before: list[Strip], after: list[Strip], cut: int, left: bool
) -> None:
    console, differ, terminal = _console("256"), Differ(), Terminal()
    terminal.feed(differ.diff(_whole(before).render_segments(console), SIZE))
    update = _part(after, {0, 1, 2}, [cut], missing=0 if left else cut)
    terminal.feed(differ.diff(update.render_segments(console), SIZE))
    old, new = (_alone(frame, console) for frame in (before, after))
    halves = (old, new) if left else (new, old)
    assert terminal.cells == [former[:cut] + other[cut:] for former, other in zip(*halves, strict=True)]


@pytest.mark.parametrize("text", ["e\u0301te\u0301", "世e\u0301 x"])
def test_a_combining_mark_is_sent_with_its_base_character(text: str) -> None:
    console, terminal = _console("256"), Terminal()
    row = _row([Piece(text, None)])
    terminal.feed(Differ().diff(_whole([row] * HEIGHT).render_segments(console), SIZE))
    shown = "".join(str(cell[0]) for cell in terminal.cells[1])
    assert unicodedata.normalize("NFC", shown).rstrip() == unicodedata.normalize("NFC", text)


def test_a_late_frame_of_a_wider_terminal_does_not_overwrite_the_last_column() -> None:
    """A terminal writes what is beyond its last column over it: a border stayed there after a resize."""
    console, differ, terminal = _console("256"), Differ(), Terminal()
    frame = [_row([Piece("gpu0", None)])] * HEIGHT
    terminal.feed("\x1b[?7l" + differ.diff(_whole(frame).render_segments(console), SIZE))
    terminal.feed(differ.diff(f"\x1b[2;{WIDTH + 4}Hxyz\x1b[{HEIGHT + 3};1Hlow", SIZE))
    assert terminal.cells == _alone(frame, console)


async def test_only_cells_that_changed_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = play.record(monkeypatch, _console("256"))
    app = play.busy()
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "400 lines")
        snapshot = sessions.busy_snapshot()
        app.engine.push(snapshot)
        await pilot.pause()
        sent.clear()
        worker = changed(snapshot.workers[5], n_envs=8192)
        workers = (*snapshot.workers[:5], worker, *snapshot.workers[6:])
        app.engine.push(changed(snapshot, workers=workers))
        await play.sees(pilot, "8,192 envs")
    assert 0 < len("".join(sent)) < 100


# How the main screen shares out its rows


async def test_the_first_frame_shows_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a blank that is filled afterwards."""
    size = (120, 36)
    sent = play.record(monkeypatch, Console(width=size[0], color_system="256"))
    async with play.busy().run_test(size=size):
        terminal = pyte.Screen(*size)
        pyte.Stream(terminal).feed(sent[0])
    assert [word for word in (*map("gpu{}".format, range(8)), "Σ") if word not in text_of(terminal)] == []
