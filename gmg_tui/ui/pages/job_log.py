"""The page with the log of a job that has left its slot."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import LineBar, ask_line
from gmg_tui.ui.drawing import Piece
from gmg_tui.ui.log.source import LogSource
from gmg_tui.ui.log.view import LogView
from gmg_tui.ui.pages.page import Page


class LogPage(Page):
    """A log file, which can be scrolled and searched."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.SCROLL, *keys.SEARCH]

    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self._log, self._source = LogView(), LogSource(name, lambda: path)

    def body(self) -> ComposeResult:
        """Yields the log."""
        yield self._log

    def on_mount(self) -> None:
        """Shows the end of the log."""
        self._log.empty = "The log is empty, or cannot be read."
        self._log.open(self._source)

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the job's name, and the visible part of its log."""
        shown = [each for each in self._log.status() if each[1] not in {"dim", "ok"}]  # no counts, no following
        return [(f"{text}  ", style) for text, style in reversed(shown)]

    def on_log_view_changed(self) -> None:
        """Updates the title with the visible part of the log."""
        self.show_title()

    def action_go(self, direction: str) -> None:
        """Scrolls."""
        self._log.action_go(direction)

    async def action_search(self) -> None:
        """Opens the search line."""
        await ask_line(self, LineBar("search", self._log.sought.text, "search the log", self._log.search))

    def action_back(self) -> None:
        """Ends the search, else returns to the previous screen."""
        if self._log.sought.text:
            self._log.search("")
        else:
            super().action_back()

    def action_search_next(self, direction: str) -> None:
        """Goes to the next match."""
        self._log.search_next(direction)
