"""Drawing no more than needed: only rows and keys that changed, and no faster than a reader can follow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from time import monotonic
from typing import TypeAlias

from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Footer

from gmg_tui.ui.drawing import Appearance, Row

Key: TypeAlias = tuple[str, str, bool]
"""A key, what it does, and whether it can be pressed."""
_BLANK = Strip([], 0)


class Rows(Widget):
    """A widget that makes all of its rows for its size and theme, and refreshes those that differ from before."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Strip] = []
        self._made_for: object = None
        """Size and theme that the rows were made for."""

    @property
    def appearance(self) -> Appearance:
        """The styles of the present theme."""
        return self.app.appearance  # type: ignore[attr-defined,no-any-return]

    def make_rows(self, width: int, height: int) -> list[Row]:
        """All rows, from the top."""
        raise NotImplementedError

    def update_rows(self) -> None:
        """Refresh the rows that have changed; a screen under a page is drawn once it is back, one under a dialog now."""
        if not self.is_mounted or not self.size or not self.screen.is_current:
            return
        before, width = self._rows, self.size.width
        self._make()
        changed = [
            Region(0, y, width, 1)
            for y, (old, new) in enumerate(zip_longest(before, self._rows, fillvalue=_BLANK))
            if old is not new and old != new
        ]
        if changed:
            self.refresh(*changed)

    def _make(self) -> None:
        self._made_for = (self.size, self.app.theme)
        self._rows = [row.strip(self.appearance) for row in self.make_rows(*self.size)]

    def render_line(self, y: int) -> Strip:
        """A row in full width; all are made anew for another size or theme."""
        if self._made_for != (self.size, self.app.theme):
            self._make()
        row = self._rows[y] if y < len(self._rows) else _BLANK
        return row.adjust_cell_length(self.size.width, self.appearance["text"])


class RefreshLimiter:
    """Merges redraws that would follow each other in less than `period_s`."""

    def __init__(self, pump: MessagePump, draw: Callable[[], object], period_s: float) -> None:
        self.period_s = period_s
        self._pump = pump
        self._draw = draw
        self._last = float("-inf")
        self._timer: Timer | None = None

    def ask(self) -> None:
        """Draw as soon as the period since the last redraw is over."""
        wait = self._last + self.period_s - monotonic()
        if wait <= 0:
            self._go()
        elif self._timer is None:
            self._timer = self._pump.set_timer(wait, self._go)

    def settle(self) -> None:
        """Draw now what is to be drawn soon, because the screen is being drawn anyway."""
        if self._timer is not None:
            self._go()

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._last = monotonic()
        self._draw()


class KeysFooter(Footer):
    """Textual's footer, without the command palette, composed again only when other keys are to be shown.

    Textual's own makes all its widgets again whenever bindings are refreshed, here after each move of the selection.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._composed: list[Key] | None = None

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Compose the keys for the first time also without focus, which a page in a browser gets by a click only."""
        super().bindings_changed(screen)
        if self._composed is None and self.is_attached and screen is self.screen:
            self.call_after_refresh(self.recompose)

    async def recompose(self) -> None:
        """Compose the keys, if they have changed."""
        if not self.is_attached:  # its page has been closed meanwhile
            return
        bindings = self.screen.active_bindings.values()
        keys = [(each.binding.key, each.binding.description, each.enabled) for each in bindings if each.binding.show]
        if keys != self._composed:
            self._composed = keys
            await super().recompose()
