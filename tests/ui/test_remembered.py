"""What the screen remembers from one session to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.ui.themes import Memory
from gmg_tui.ui.view import Layout
from tests.ui import play, sessions
from tests.ui.play import FakedApp, press

WIDE = (160, 48)


def _app(file: Path, *, theme: str | None = None) -> FakedApp:
    return FakedApp(play.engine_of(sessions.busy_snapshot()), memory=Memory(file), theme=theme)


async def _choose(app: FakedApp, theme: str, *keys: str) -> None:
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, *keys)
        app.choose_theme(theme)
        await pilot.pause()
    assert app.memory is not None
    app.memory.close()


async def test_the_theme_is_restored_in_the_next_session_and_the_layout_is_automatic(tmp_path: Path) -> None:
    """Once `t` was pressed, tiles or table were no longer chosen by the size in any later session."""
    file = tmp_path / "gmg-tui" / "screen.json"
    await _choose(_app(file), "contrast", "t")
    again = _app(file)
    assert again.theme == "gmg-contrast"
    assert again.view.layout is Layout.AUTO
    assert _app(file, theme="light").theme == "gmg-light", "what is asked for goes first"


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 60_000, b'{"theme": null}'])
async def test_a_damaged_file_is_ignored_with_one_line_and_rewritten(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "screen.json"
    file.write_bytes(data)
    app = _app(file)
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "screen.json is ignored")
        assert file.read_bytes() == data
    await _choose(_app(file), "light")
    assert Memory(file).theme == "light"


def test_an_unknown_theme_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    file.write_bytes(b'{"theme": "plaid", "later": 1}')
    assert (Memory(file).theme, Memory(file).trouble) == (None, "")


def test_an_unwritable_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    memory = Memory(tmp_path / "file" / "screen.json")
    memory.keep("light")
    memory.close()
    assert "not remembered" in memory.trouble
