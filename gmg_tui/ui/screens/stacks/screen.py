"""What each rank of a group does right now: its Python stack, beside those of the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gmg_tui.errors import GmgError
from gmg_tui.model import Stacks
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.screens.dialog_base import bindings
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.stacks import columns


class StacksScreen(PageScreen):
    """Shows the stacks of the worker on a slot and of all ranks of its group, as they were when it asked."""

    KEYS = keys.STACKS
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "redraw", "command_palette"})
    """No other key of the main screen may act here: what it would act on is not shown."""
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.STACKS)

    def __init__(self, engine: Source, slot: str, slots: Sequence[str], appearance: Appearance) -> None:
        """`slots` are those of the group."""
        super().__init__(appearance)
        self._engine = engine
        self._slot = slot
        self._slots = tuple(slots)
        self._stacks: tuple[Stacks, ...] = ()
        self._asked_at = ""
        self._asking = False
        self._first = 0
        """The first row that is shown."""

    def on_mount(self) -> None:
        """Ask for the stacks."""
        self.action_again()

    def draw(self) -> None:
        """Draw as many rows as fit."""
        width, height = self.rows.size
        if width < 1 or height < 1:
            return
        above = self._above(width)
        found = columns.rows(self._stacks, width, self.appearance) if self._stacks else []
        room = max(1, height - len(above))
        self._first = max(0, min(self._first, len(found) - room))
        self.rows.show_rows([*above, *found[self._first : self._first + room]][:height])

    def _above(self, width: int) -> list[Strip]:
        when = "asking …" if self._asking else f"asked {self._asked_at}" if self._asked_at else ""
        row = Row(self.appearance, width).end(f" {self.appearance.text(when)} ", "dim")
        row.add(f" {', '.join(self._slots)}", "title").add("  Python stacks", "dim")
        page = Page(width, self.appearance).line(row)
        for text in (self._said, self._failure):
            if text:
                page.row(f" {self.appearance.signs.pointer}", text, "warn", label_width=3)
        return page.gap().rows

    async def ask(self) -> None:
        """Ask each rank once: stacks are of one moment, and asking interrupts a rank."""
        self._asking = True
        self.draw()
        try:
            self._stacks = await self._engine.stacks(self._slot)
            self._asked_at, self._failure = time.strftime("%H:%M:%S"), ""
        except GmgError as error:
            self._failure = str(error)
        finally:
            self._asking = False
        self.draw()

    # Keys

    def action_again(self) -> None:
        """Ask again, unless the last question is still open."""
        if not self._asking:
            self._said = ""
            self.run_worker(self.ask(), group="asking")

    def action_copy(self) -> None:
        """Put all stacks as they were written on the terminal's clipboard."""
        if self._stacks:
            self.app.copy_to_clipboard(columns.copied(self._stacks))
            self._say("Copied, if the terminal takes it (OSC 52).")
        else:
            self._say("There is nothing to copy yet.")

    def action_scroll(self, rows: int) -> None:
        """Scroll by rows."""
        self._first = max(0, self._first + rows)
        self.draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by three rows."""
        event.stop()
        self.action_scroll(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by three rows."""
        event.stop()
        self.action_scroll(3)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_scroll(pages * max(1, self.rows.size.height - 3))

    def action_edge(self, end: bool) -> None:
        """Go to the first row, or the last."""
        self._first = 1 << 30 if end else 0
        self.draw()
