"""How a test compares a screen with its picture."""

from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from tests.ui import play
from tests.ui.play import press

Compare = Callable[..., bool]
SMALL, MIDDLE, LARGE = (80, 24), (120, 36), (160, 48)


def drawn(
    compare: Compare, app: App[Any], size: tuple[int, int], keys: str, *texts: str, first: tuple[str, ...] = ()
) -> bool:
    """Whether `app` looks as in its picture, once `keys` are pressed and `texts` are on the screen.

    Args:
        compare: The fixture `snap_compare`.
        app: What is drawn.
        size: Columns and rows.
        keys: Names of keys, with spaces between.
        texts: What must be on the screen at the end.
        first: What must be on it before the first key.
    """

    async def act(pilot: Pilot[Any]) -> None:
        if first:
            await play.sees(pilot, *first)
        await press(pilot, *keys.split())
        await play.sees(pilot, *texts)

    return compare(app, terminal_size=size, run_before=act)
