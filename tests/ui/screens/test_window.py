"""The charts' window on a worker's life: zoomed, moved, and marked where attempts began."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.model import Attempt, Series
from gmg_tui.ui.drawing.appearance import ASCII, Appearance
from gmg_tui.ui.drawing.timeline import GUTTER, Mark, stack
from gmg_tui.ui.screens.details.window import Life, Window, cut_out, marks
from tests.ui import play
from tests.ui.screens import stage
from tests.ui.screens.stage import press

LIFE = Life(1000.0, 5000.0)
LOOK = play.busy(1).appearance


def test_zooming_in_keeps_the_present_and_out_again_ends_at_the_whole_life() -> None:
    window = Window().zoomed(LIFE, 0.5)
    assert window == Window(2000.0)
    assert window.within(LIFE) == (3000.0, 5000.0)
    assert window.zoomed(LIFE, 0.5) == Window(1000.0)
    assert window.zoomed(LIFE, 2) == Window()
    for _ in range(30):
        window = window.zoomed(LIFE, 0.5)
    assert window == Window(30.0)


def test_moving_stays_within_the_life_and_comes_back_to_the_present() -> None:
    window = Window(1000.0).moved(LIFE, -0.5)
    assert window == Window(1000.0, 4500.0)
    assert window.zoomed(LIFE, 0.5) == Window(500.0, 4250.0)
    assert window.moved(LIFE, 0.5) == Window(1000.0)
    for _ in range(30):
        window = window.moved(LIFE, -0.5)
    assert window.within(LIFE) == (1000.0, 2000.0)
    assert Window().moved(LIFE, -0.5) == Window()


_steps = st.sampled_from(["in", "out", "back", "on"])


@given(st.lists(_steps, max_size=40), st.floats(1, 1e6))
def test_a_window_is_never_outside_the_life(steps: list[str], length: float) -> None:
    life, window = Life(1000.0, 1000.0 + length), Window()
    for step in steps:
        if step in {"in", "out"}:
            window = window.zoomed(life, 0.5 if step == "in" else 2.0)
        else:
            window = window.moved(life, -0.5 if step == "back" else 0.5)
        start, end = window.within(life)
        assert life.start - 1e-6 * length <= start < end <= life.now


def _series(count: int, step_s: float = 1.0) -> Series:
    values = tuple(map(float, range(count)))
    return Series("gpu0", 5000.0, step_s, values, values, values, values)


def test_a_part_is_cut_out_value_by_value() -> None:
    part = cut_out(_series(100), 4950.0, 4970.0, 10)
    assert part.fps == tuple(map(float, range(50, 70)))
    assert (part.end, part.step_s) == (4970.0, 1.0)


def test_where_columns_are_finer_than_steps_values_are_repeated_and_outside_is_unknown() -> None:
    part = cut_out(_series(10, 10.0), 4880.0, 4920.0, 8)
    assert part.fps == (None, None, None, None, 0.0, 0.0, 1.0, 1.0)
    assert part.step_s == 5.0


def _attempt(number: int, *args: str) -> Attempt:
    return Attempt(number, args, started=5000.0 - 100 * (10 - number))


def test_an_attempt_is_marked_as_an_edit_where_its_arguments_are_others() -> None:
    found = marks((_attempt(1, "-B", "1"), _attempt(2, "-B", "1"), _attempt(3, "-B", "2"), _attempt(4, "-B", "2")))
    assert [mark.text for mark in found] == ["1", "r2", "e3", "r4"]
    assert found[2].style != found[1].style
    assert marks(()) == []


def _axis(*given: Mark, width: int = 60, ascii_only: bool = False) -> str:
    look = Appearance(LOOK.styles, ASCII) if ascii_only else LOOK
    rows = stack([], width=width, height=2, end=5000.0, step_s=1.0, appearance=look, marks=given)
    assert {row.cell_length for row in rows} == {width}
    return rows[0].text


@pytest.mark.parametrize("ascii_only", [False, True])
def test_marks_stand_on_the_axis_at_their_time(ascii_only: bool) -> None:
    cell_s = 2.0 if not ascii_only else 1.0  # of two columns of dots, or one sign
    axis = _axis(Mark(5000.0 - 20 * cell_s, "e3", "warn"), ascii_only=ascii_only)
    assert axis.index("e3") == 60 - 1 - 20
    assert axis.isascii() == ascii_only


def test_of_marks_that_touch_the_newest_is_shown_and_none_outside() -> None:
    axis = _axis(
        Mark(4999.9, "r9", "title"),
        Mark(4996.0, "r8", "title"),
        Mark(4980.0, "e7", "warn"),
        Mark(100.0, "e1", "warn"),
        Mark(5005.0, "r10", "title"),
    )
    assert axis.endswith("r9")
    assert "r8" not in axis
    assert "e7" in axis
    assert "e1" not in axis
    assert "r10" not in axis
    assert len(axis) == 60
    assert axis.index("e7") > GUTTER


async def test_the_keys_zoom_move_and_come_back() -> None:
    app = stage.app()
    async with app.run_test(size=(160, 48)) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "[1 charts]", "1 column = ", "e2")
        assert "0: live" not in play.shown(app)
        await press(pilot, "plus")
        await play.sees(pilot, " 20:00 ")
        while not [request for request in app.engine.asked if request[0] == "series" and len(request) == 3]:
            await pilot.pause(0.01)
        assert ("series", "gpu0", stage.NOW - 1200) in app.engine.asked
        await press(pilot, "comma")
        await play.sees(pilot, "0: live")
        await press(pilot, "full_stop")
        await press(pilot, "plus", "minus", "minus")
        assert "0: live" not in play.shown(app)
        assert " 20:00 " not in play.shown(app)
        await press(pilot, "plus", "less_than_sign", "0")
        assert "0: live" not in play.shown(app)
        await press(pilot, "plus", "right")
        await play.sees(pilot, "gpu1", "1 column = ")
        assert " 20:00 " not in play.shown(app)


async def test_other_sections_are_not_zoomed() -> None:
    app = stage.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "enter", "2")
        await play.sees(pilot, "[2 attempts]")
        await press(pilot, "plus", "1")
        await play.sees(pilot, "1 column = ")
        assert " 20:00 " not in play.shown(app)
