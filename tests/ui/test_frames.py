"""What is sent to the terminal: the cells that change, and no others."""

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip

from gmg_tui.ui.drawing import Row
from gmg_tui.ui.rows import changed_regions
from gmg_tui.ui.terminal import patch_partial_updates
from gmg_tui.ui.workers import grid
from gmg_tui.ui.workers.grid import Tiles
from tests.pseudo_terminal import text_of
from tests.ui import play, sessions
from tests.workers import changed

WIDTH = 24
_STYLES = [Style(), Style(color="red"), Style(color="color(121)", bold=True), Style(bgcolor="blue", reverse=True)]
_pieces = st.tuples(st.text("aab  █▁é世💤", min_size=1, max_size=9), st.sampled_from(_STYLES))
_rows = st.lists(_pieces, min_size=1, max_size=5).map(
    lambda pieces: Strip([Segment(text, style) for text, style in pieces]).adjust_cell_length(WIDTH, Style())
)
CONSOLE = Console(color_system="256", force_terminal=True)


@pytest.fixture(autouse=True)
def _cropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChopsUpdate, "render_segments", ChopsUpdate.render_segments)  # the original returns at the end
    patch_partial_updates()


def _cells(*sent: str) -> list[tuple[object, ...]]:
    terminal = pyte.Screen(WIDTH, 1)
    pyte.Stream(terminal).feed("".join(sent))
    return [tuple(terminal.buffer[0][x]) for x in range(WIDTH)]


def _span(strip: Strip, left: int, right: int, cut: int = WIDTH) -> str:
    """Cells of a row that is cut where widgets meet."""
    pieces = dict(zip([0, cut][: 1 + (cut < WIDTH)], strip.divide(sorted({cut, WIDTH})), strict=True))
    return ChopsUpdate([pieces], [(0, left, right)], [sorted({cut, WIDTH})]).render_segments(CONSOLE)


@given(old=_rows, new=_rows, cut=st.integers(1, WIDTH))
@settings(max_examples=150, deadline=None)
def test_the_changed_regions_turn_the_old_row_into_the_new_one(old: Strip, new: Strip, cut: int) -> None:
    sent = [_span(new, region.x, region.right, cut) for region in changed_regions(0, old, new, WIDTH)]
    if all(len(segment.text) == segment.cell_length for segment in (*old, *new)):
        assert _cells(_span(old, 0, WIDTH), *sent) == _cells(_span(new, 0, WIDTH))


def test_only_the_differing_cells_of_a_row_are_in_its_region() -> None:
    old, new = (
        Strip([Segment(text), Segment("│", Style(color="red"))]) for text in ("rate 1,234 FPS", "rate 1,299 FPS")
    )
    assert changed_regions(3, old, new, WIDTH) == [Region(8, 3, 2, 1)]


def test_textual_still_sends_a_chop_from_its_left_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it does not, `patch_partial_updates` can go."""
    strip = Strip([Segment("abcdefgh")])
    monkeypatch.undo()
    original = ChopsUpdate([{0: strip}], [(0, 6, 8)], [[8]]).render_segments(CONSOLE)
    assert "abcdefgh" in original, "Textual crops at the left: remove patch_partial_updates"


async def test_only_cells_that_changed_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = play.record(monkeypatch, CONSOLE)
    app = play.busy()
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "400 lines")
        snapshot = sessions.busy_snapshot()
        app.engine.push(snapshot)
        await pilot.pause()
        while sent:  # what is still being drawn on a busy machine
            sent.clear()
            await pilot.pause()
        worker = changed(snapshot.workers[5], n_envs=8192)
        workers = (*snapshot.workers[:5], worker, *snapshot.workers[6:])
        app.engine.push(changed(snapshot, workers=workers))
        await play.sees(pilot, "8,192 envs")
        while not sent:
            await pilot.pause()
        assert 0 < len("".join(sent)) < 100


async def test_the_first_frame_shows_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a blank that is filled afterwards."""
    size = (120, 36)
    sent = play.record(monkeypatch, Console(width=size[0], color_system="256"))
    async with play.busy().run_test(size=size):
        terminal = pyte.Screen(*size)
        pyte.Stream(terminal).feed(sent[0])
    assert [word for word in (*map("gpu{}".format, range(8)), "Σ") if word not in text_of(terminal)] == []


async def test_a_resize_to_the_same_size_rebuilds_no_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    class Counted(Tiles):
        def make_rows(self, width: int, height: int) -> list[Row]:
            made.append((width, height))
            return super().make_rows(width, height)

    monkeypatch.setattr(grid, "Tiles", Counted)
    app = play.busy()
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "400 lines")
        made.clear()
        app.screen.post_message(Resize(app.size, app.size))
        await pilot.pause()
        assert not made
        await pilot.resize_terminal(120, 40)
        await play.until(pilot, lambda: bool(made))
