"""The keys, on the last row: as many as fit, the most useful first; each can be clicked."""

from __future__ import annotations

from typing import NamedTuple

from textual import events

from gmg_tui.ui.keys import KEYS, Key
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.rows import Rows

_ALWAYS = {"quit_session", "help"}


class Place(NamedTuple):
    """Where a key stands in the footer."""

    start: int
    end: int
    key: Key


def places(width: int, *, sweep: bool = False) -> list[Place]:
    """The keys that fit into `width` columns; how to quit and how to get help are always among them.

    Args:
        width: In cells.
        sweep: Whether the session has a queue, and so the keys that are for one.
    """
    keys = [key for key in KEYS if key.footer or (sweep and key.sweep)]
    room = width - sum(_length(key) for key in keys if key.action in _ALWAYS)
    found: list[Place] = []
    at = 0
    for key in keys:
        if key.action not in _ALWAYS:
            if _length(key) > room:
                continue
            room -= _length(key)
        found.append(Place(at, at + _length(key), key))
        at += _length(key)
    return found


def _length(key: Key) -> int:
    return len(key.shown) + len(key.label) + 3


class Footer(Rows):
    """The last row of the screen."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self.look = look
        self.sweep = False
        """Whether the session has a queue."""

    def on_resize(self) -> None:
        """Fill the new size."""
        self.draw()

    def draw(self) -> None:
        """Draw the keys."""
        line = Line(self.look, self.size.width)
        for place in places(self.size.width, sweep=self.sweep):
            line.to(place.start).add(f" {place.key.shown}", "key").add(f" {place.key.label}", "dim")
        self.show_rows([line.strip()])

    async def on_click(self, event: events.Click) -> None:
        """Do what the key under the mouse does."""
        for place in places(self.size.width, sweep=self.sweep):
            if place.start <= event.x < place.end:
                await self.app.run_action(place.key.action)
