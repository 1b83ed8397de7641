"""What the screen remembers from one session to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.remembered import Memory, Settings
from gmg_tui.ui.view import Layout
from tests.ui import play, sessions
from tests.ui.play import FakedApp, press

WIDE = (160, 48)


def _app(file: Path, *, theme: str | None = None) -> FakedApp:
    engine = play.engine_of(sessions.busy_snapshot())
    return FakedApp(engine, memory=Memory(file), theme=theme)


async def _press(app: FakedApp, *keys: str) -> None:
    async with app.run_test(size=WIDE) as pilot:
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
    assert app.memory is not None
    app.memory.close()


async def test_order_and_theme_are_there_in_the_next_session_the_view_is_chosen_anew(tmp_path: Path) -> None:
    file = tmp_path / "gmg-tui" / "screen.json"
    app = _app(file)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t", "do:screen.sort_by('FPS')")
        await pilot.pause()
        app.choose_theme("contrast")
        await pilot.pause()
    assert app.memory is not None
    app.memory.close()
    again = _app(file)
    async with again.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "by FPS, highest first")
        assert again.view.layout is Layout.AUTO
        assert again.theme == app.theme
    other = _app(file, theme="light")
    assert "light" in other.theme, "what is asked for goes first"


async def test_nothing_is_written_while_nothing_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    await _press(_app(file), "down", "escape", "slash", "x", "enter", "exclamation_mark")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"order": "sideways"}', b"[1]", b"\xff\xfe", b"[" * 60_000, b'{"order": 4}', b'{"theme": null}'],
)
async def test_a_broken_file_is_ignored_with_one_line_and_written_anew(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "screen.json"
    file.write_bytes(data)
    app = _app(file)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "screen.json is ignored")
        assert file.read_bytes() == data
        await press(pilot, "do:screen.sort_by('W')")
    assert app.memory is not None
    app.memory.close()
    assert Memory(file).settings == Settings(order=Order.POWER)


async def test_a_theme_that_is_gone_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    file.write_bytes(b'{"theme": "plaid", "order": "W", "later": 1}')
    app = _app(file)
    async with app.run_test(size=WIDE):
        assert app.view.arrangement.order is Order.POWER


def test_a_folder_that_cannot_be_written_is_said_and_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    memory = Memory(tmp_path / "file" / "screen.json")
    memory.trouble = ""
    memory.keep(Settings(order=Order.POWER))
    memory.close()
    assert "not remembered" in memory.trouble
