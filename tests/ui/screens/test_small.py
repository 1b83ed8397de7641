"""Terminals that become very small, and what is left once they are large again."""

from textual.events import Resize
from textual.geometry import Size

from tests.ui import play
from tests.ui.play import asked, press

LARGE = (100, 30)
SCREENS = {
    "": "? Help",
    "enter": "1 of 4",
    "tab": "lowest",
    "p": "Xorg",
    "a": "sets of arguments",
    "slash": "search the log",
    "q": "Quit franka-1",
}


async def test_a_screen_that_has_had_no_room_is_as_before() -> None:
    app = play.edited()
    async with app.run_test(size=LARGE) as pilot:
        for key, text in SCREENS.items():
            await press(pilot, *key.split())
            await play.sees(pilot, text)
            before = play.screen(app)
            for size in [(59, 24), (80, 5), (4, 20), (1, 1)]:
                await pilot.resize_terminal(*size)
                await press(pilot, "down", "up")
                await play.resize(pilot, *LARGE)
                await play.sees(pilot, text)
            assert play.screen(app)[-1] == before[-1]
            await press(pilot, "escape")
        assert asked(app.engine) == []


async def test_the_palette_survives_page_keys_where_it_has_no_room() -> None:
    """The list of Textual 8.2.8 fails there on `PgUp`."""
    app = play.edited()
    async with app.run_test(size=LARGE) as pilot:
        await press(pilot, "ctrl+p")
        await play.sees(pilot, "Search for")
        await pilot.resize_terminal(40, 5)
        await press(pilot, "pageup", "pagedown", "escape")
        assert app.screen is app.main


async def test_a_stale_size_changes_no_screen() -> None:
    """A screen of Textual sends itself the size that it was laid out for, which may not be the newest by then."""
    app = play.edited()
    async with app.run_test(size=LARGE) as pilot:
        for key in (*SCREENS, "question_mark", "X", "ctrl+p"):
            await press(pilot, *key.split())
            app.screen.post_message(Resize(Size(120, 40), Size(120, 40)))
            await pilot.pause()
            assert app.screen.size == Size(*LARGE)
            await press(pilot, "escape")
