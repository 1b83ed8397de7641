"""The log of the chosen worker: its buffer, and how it is followed, held and searched."""

from __future__ import annotations

from textual.pilot import Pilot

from gmg_tui.protocol import Lines
from gmg_tui.ui import Outcome
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.log_buffer import LogBuffer
from tests.ui import play

SMALL = (80, 24)


def _texts(buffer: LogBuffer) -> list[str]:
    return [buffer.row(number).text for number in range(buffer.first, buffer.end)]


def test_a_gap_in_the_numbers_is_told_and_what_came_before_is_counted() -> None:
    buffer = LogBuffer()
    buffer.extend(1200, ["a"])
    buffer.extend(1201, ["b"])
    buffer.extend(1210, ["c"])
    assert _texts(buffer) == ["… 1,200 lines before", "a", "b", "… 8 lines left out", "c"]
    assert buffer.next_line == 1211


def test_lines_that_are_there_already_are_passed_over() -> None:
    buffer = LogBuffer()
    buffer.extend(0, ["a", "b", "c"])
    buffer.extend(1, ["b", "c", "d"])
    buffer.extend(0, ["a"])
    assert _texts(buffer) == ["a", "b", "c", "d"]


def test_the_buffer_keeps_the_newest_rows_and_forgets_their_matches() -> None:
    buffer = LogBuffer(kept=100)
    buffer.search("7")
    for first in range(0, 1000, 10):
        buffer.extend(first, [f"line {number}" for number in range(first, first + 10)])
    assert (buffer.first, buffer.end) == (900, 1000)
    assert _texts(buffer)[0] == "line 900"
    assert [buffer.row(number).text for number in buffer.matches] == [t for t in _texts(buffer) if "7" in t]


def test_a_search_ignores_case_and_goes_round() -> None:
    buffer = LogBuffer()
    buffer.extend(0, ["Error", "ok", "ERROR", "ok", "straße"])
    buffer.search("error")
    assert buffer.matches == [0, 2]
    assert [buffer.match(at, "down") for at in (0, 2)] == [2, 0]
    assert [buffer.match(at, "up") for at in (2, 0)] == [0, 2]
    buffer.search("STRASSE")
    assert buffer.matches == [4]
    buffer.search("nowhere")
    assert buffer.match(0, "down") is None


def _more(app: GmgApp, number: int, text: str = "later") -> None:
    first = app.main.log_view.buffer.next_line
    assert first is not None
    app.engine.push(Lines("gpu0", first, tuple(f"{text} {i}" for i in range(number))))


def _log(app: GmgApp) -> list[str]:
    """The log's title and the rows under it."""
    rows = play.screen(app)
    begin = next(y for y, row in enumerate(rows) if " log " in row and row.startswith("─"))
    return rows[begin:-1]


async def _press(pilot: Pilot[Outcome], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def test_the_log_follows_until_a_page_up_and_again_after_end() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "following", "400 lines")
        _more(app, 3)
        await play.sees(pilot, "later 2", "403 lines")
        await _press(pilot, "pageup")
        held = _log(app)[1:]
        assert "later" not in "".join(held)
        below = app.main.log_view.page - 1
        assert f"held, {below} lines below" in _log(app)[0]
        _more(app, 5)
        await play.sees(pilot, f"held, {below + 5} lines below", "408 lines")
        assert _log(app)[1:] == held
        await _press(pilot, "end")
        assert "following" in _log(app)[0]
        _more(app, 1, "newest")
        await play.sees(pilot, "newest 0")


async def test_f_holds_and_follows_and_paging_down_to_the_end_follows_again() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await _press(pilot, "f")
        await play.sees(pilot, "held, 1 line below")
        await _press(pilot, "f")
        await play.sees(pilot, "following")
        await _press(pilot, "home")
        await play.sees(pilot, "Genesis initialized")
        await _press(pilot, *["pagedown"] * 60)
        await play.sees(pilot, "following")


async def test_the_wheel_scrolls_and_shift_arrows_move_across() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        newest = _log(app)[-1]
        assert "4096 envs)." not in newest
        await _press(pilot, "shift+right", "shift+right")
        assert _log(app)[-1].rstrip().endswith("4096 envs).")
        await play.sees(pilot, "from column 33")
        await _press(pilot, "shift+left", "shift+left", "shift+left")
        assert _log(app)[-1] == newest
        await pilot._post_mouse_events([_wheel_up()], app.main.log_view)
        await play.sees(pilot, "held, 3 lines below")


def _wheel_up() -> type:
    from textual.events import MouseScrollUp

    return MouseScrollUp


async def test_search_marks_counts_and_goes_from_place_to_place() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await _press(pilot, "slash", *"Compiling")
        await play.sees(pilot, "1 of 1 found", "Compiling simulation kernels", "held")
        await _press(pilot, "escape")
        await play.sees(pilot, "following")
        assert "found" not in _log(app)[0]
        await _press(pilot, "slash", *"[info]", "enter")
        await play.sees(pilot, "of 399 found")
        await _press(pilot, "N", "N")
        await play.sees(pilot, "397 of 399 found")
        await _press(pilot, "n", "n", "n")
        await play.sees(pilot, "1 of 399 found", "Genesis")
        await _press(pilot, "slash", *"zzz")
        await play.sees(pilot, "nothing found")
        await _press(pilot, "enter", "escape")
        await play.sees(pilot, "following", "400 lines")


async def test_letters_that_are_keys_are_text_while_searching() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await _press(pilot, "slash", *"xXrqd")
        assert [name for name, *_ in app.engine.asked if name != "follow"] == []
        assert app.return_value is None
        assert app.main.log_view.buffer.query == "xxrqd"


async def test_lines_of_another_worker_that_come_late_are_not_shown() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        await _press(pilot, "down")
        app.engine.push(Lines("gpu0", 400, ("a line of gpu0",)))
        app.engine.push(Lines("gpu1", 400, ("a line of gpu1",)))
        await play.sees(pilot, "a line of gpu1", "401 lines")
        assert "a line of gpu0" not in play.shown(app)


async def test_a_slow_line_shows_that_lines_are_missing() -> None:
    app = play.busy()
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "400 lines")
        app.engine.push(Lines("gpu0", 90_400, ("after the gap",)))
        await play.sees(pilot, "… 90,000 lines left out", "after the gap", "90,401 lines")


def test_long_lines_are_bounded_by_their_length() -> None:
    buffer = LogBuffer(kept=1000, kept_chars=10_000)
    buffer.extend(0, ["x" * 3000 for _ in range(50)])
    assert buffer.end == 50
    assert buffer.end - buffer.first == 3
