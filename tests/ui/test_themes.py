"""The themes: all load, styles are distinct, each sends only colours of its palette; and ASCII."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style as RichStyle
from textual.color import Color
from textual.content import Content
from textual.widgets import Static

from gmg_tui.model.text import safe
from gmg_tui.session.options import THEMES
from gmg_tui.ui import themes
from gmg_tui.ui.drawing import STATE_SYMBOLS, STYLES, Row
from gmg_tui.ui.themes import to_ascii
from tests.ui import play, sessions, sweeps

_SIXTEEN = {*map(str, range(30, 38)), "39", *map(str, range(40, 48)), "49"}
_SIXTEEN |= {*map(str, range(90, 98)), *map(str, range(100, 108))}
_CUBE = {0, 95, 135, 175, 215, 255}
_ATTRIBUTES = {"", "0", "1", "2", "4", "7", "22"}


async def _sent(theme: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal is sent in `theme`."""
    sent = play.record(monkeypatch, Console(color_system="truecolor", force_terminal=True))
    app = play.app_of(play.engine_of(sessions.varied_snapshot()), theme=theme)
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "400 lines")
        await pilot.press("slash", *"4096", "enter")
        await play.sees(pilot, "match ")
        painted = asyncio.Event()
        app.screen.call_after_refresh(painted.set)
        await painted.wait()
    return "".join(sent)


def _parameters(sent: str) -> set[str]:
    return {part for sequence in re.findall(r"\x1b\[([\d;]*)m", sent) for part in sequence.split(";")}


async def test_every_theme_draws_its_background_in_every_cell_and_has_distinct_styles() -> None:
    app = play.app_of(play.engine_of(sessions.varied_snapshot()))
    async with app.run_test(size=(120, 40)) as pilot:
        await play.sees(pilot, "400 lines")
        for name in THEMES:
            app.theme = themes.textual_name(name, no_color=False)
            await pilot.pause()
            styles = themes.appearance(app)
            assert set(styles) == set(STYLES)
            distinct = [styles[kind] for kind in ("ok", "warn", "error", "text", "dim")]
            assert len(set(distinct)) == len(distinct)
            grounds = {
                segment.style.bgcolor.get_truecolor() if segment.style and segment.style.bgcolor else None
                for strip in app.screen._compositor.render_strips()
                for segment in strip
            }
            background = Color.parse(app.current_theme.background or "").rich_color.get_truecolor()
            assert name == "ansi" or grounds == {background}


@pytest.mark.parametrize("name", ["dark", "light", "contrast"])
def test_colours_are_from_the_256_colour_palette(name: str) -> None:
    appearance = themes.appearance(play.app_of(play.engine_of(sessions.busy_snapshot(1)), theme=name))
    for style in appearance.values():
        colour = style.color.get_truecolor()
        # Textual calculates with colours, and comes out one below.
        cube = all(part in _CUBE or part + 1 in _CUBE for part in colour)
        grey = len(set(colour)) == 1 and colour.red in range(8, 239, 10)
        assert cube or grey, (style, colour)


async def test_ansi_sends_only_the_sixteen_colours_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = _parameters(await _sent("ansi", monkeypatch))
    assert parameters <= _SIXTEEN | _ATTRIBUTES
    assert parameters & {str(number) for number in range(31, 38)}


async def test_no_color_sends_attributes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    parameters = _parameters(await _sent(None, monkeypatch))
    assert parameters <= _ATTRIBUTES | {"39", "49"}
    assert {"1", "7"} <= parameters


async def test_without_colours_the_cursor_of_a_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = sweeps.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await play.press(pilot, "Q")
        await play.sees(pilot, "#13 ")
        strips = app.screen._compositor.render_strips()
        reverse = ["".join(part.text for part in strip if part.style and part.style.reverse) for strip in strips]
        assert [row.split()[1] for row in reverse if " gpu0 " in row] == ["13"]


async def test_no_text_on_the_screen_controls_the_terminal() -> None:
    app = sweeps.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.screen.mount(Static(Content("hostile\x1b]0;title\x07 \x9b2J\u3164\u202e"), expand=True))
        await play.sees(pilot, "hostile")
        drawn = "".join(part.text for strip in app.screen._compositor.render_strips() for part in strip)
        assert safe(drawn) == drawn


# What `--ascii` draws: as many cells as without, all of them ASCII


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("╭─┬─╮ │ ┃ ┗━┛", "+-+-+ | # #=#"),
        (" ▁▂▃▄▅▆▇█", " .:-=+*##"),
        ("⠉⠒⠤⣀ ⢸⠑", "'-._ |'"),
        ("█▌░", "#=."),
        ("2 → 4 … 61 °C ±3 %", "2 > 4 ~ 61  C ~3 %"),
        ("é 好", "? ??"),
    ],
)
def test_each_character_has_an_ascii_equivalent(text: str, drawn: str) -> None:
    assert to_ascii(text) == drawn


@given(st.text())
def test_ascii_text_keeps_its_width(text: str) -> None:
    assert to_ascii(text).isascii()
    assert len(to_ascii(text)) == cell_len(text) or any(
        ord(character) < 0x20 or ord(character) == 0x7F for character in text
    )


def test_a_row_under_the_cursor_has_the_cursors_colours() -> None:
    appearance = dict.fromkeys(STYLES, RichStyle(color="green"))
    row = Row(9).add("running", "ok").add("–", "dim")
    styles = [segment.style for segment in row.strip(appearance, RichStyle(color="black", bgcolor="blue"))]
    assert {(style.color and style.color.name, style.bgcolor and style.bgcolor.name) for style in styles if style} == {
        ("black", "blue")
    }


def test_states_have_distinct_symbols() -> None:
    symbols = [to_ascii(symbol) for symbol in (*STATE_SYMBOLS.values(), "⚠")]
    assert len(set(symbols)) == len(symbols)


async def test_a_theme_of_the_settings_is_drawn_and_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(themes, "_COLORS", dict(themes._COLORS))
    themes.add({"mine": {"base": "light", "background": "#fdf6e3", "text-muted": "teal"}})
    app = play.app_of(play.engine_of(sessions.varied_snapshot()), theme="mine")
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "400 lines")
        assert app.screen.styles.background.hex == "#FDF6E3"
        assert app.current_theme.variables["text-muted"] == "#008080"
        assert not app.current_theme.dark
        assert any("mine" in command.title for command in app.get_system_commands(app.screen))
