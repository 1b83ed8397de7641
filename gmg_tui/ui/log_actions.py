"""What the keys of the log do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.source import Source
from gmg_tui.ui.drawing.row import cut
from gmg_tui.ui.keys import now
from gmg_tui.ui.screens.main import MainScreen
from gmg_tui.ui.screens.queries import log_path, slot_job
from gmg_tui.ui.state import Outcome, UiState

if TYPE_CHECKING:
    from gmg_tui.ui.widgets.log_bars import FilterBar, SearchBar

_SAID_CELLS = 30
"""Cells of what was copied in the title of the log."""


class LogActions(App[Outcome], inherit_bindings=False):
    """An app with the actions of the log of its main screen."""

    main: MainScreen
    engine: Source
    state: UiState

    def lend_terminal(self) -> AbstractContextManager[object]:
        """Leave the terminal to another program while the context lasts."""
        raise NotImplementedError

    def _ask(self, request: Callable[[], Awaitable[object]]) -> None:
        """Run a request, and say why it failed if it does."""
        raise NotImplementedError

    def open_log(self, *, anew: bool = False) -> None:
        """Show the log that the state says, also (`anew`) where one of that name is shown."""
        raise NotImplementedError

    def say(self, message: str) -> None:
        """Show why something could not be done."""
        raise NotImplementedError

    def action_follow(self) -> None:
        """Follow the log or pause it."""
        self.main.log_view.toggle_follow()

    def action_group_log(self) -> None:
        """Show the log of all ranks of the selected one's group, or of that one alone again."""
        state = self.state
        if not state.together and state.snapshot.group(state.chosen) is None:
            self.say(f"{now('g')}: only ranks of a group have a log together; gmg-tui --ddp starts groups.")
            return
        state.together = not state.together
        self.open_log()

    def action_log_page(self, direction: str) -> None:
        """Scroll the log."""
        self.main.log_view.go(direction)

    def action_log_across(self, steps: int) -> None:
        """Scroll the log sideways."""
        self.main.log_view.across(steps)

    def action_log_folds(self) -> None:
        """Fold progress lines, or show all."""
        self.main.log_view.toggle_folds()

    def action_log_heads(self) -> None:
        """Show the head of Genesis's lines whole, or only the time."""
        self.main.log_view.toggle_whole()

    def action_log_wraps(self) -> None:
        """Wrap long lines, or cut them."""
        self.main.log_view.toggle_wraps()

    # Search and filter

    async def action_search(self) -> None:
        """Open the line that asks what to search for."""
        from gmg_tui.ui.widgets.log_bars import SearchBar

        await self._open_bar(SearchBar)

    async def action_filter(self) -> None:
        """Open the line that asks what lines must hold to be shown."""
        from gmg_tui.ui.widgets.log_bars import FilterBar

        await self._open_bar(FilterBar)

    async def _open_bar(self, kind: type[SearchBar | FilterBar]) -> None:
        from gmg_tui.ui.widgets.log_bars import LogBar

        main = self.main
        for other in main.query(LogBar):
            if isinstance(other, kind):
                main.set_focus(other)
                return
            await other.remove()
        bar = kind(main.log_view)
        await main.mount(bar, before=main.footer)
        main.set_focus(bar)

    def action_search_next(self, direction: str) -> None:
        """Go to the next match."""
        self.main.log_view.search_next(direction)

    def leave_bars(self) -> bool:
        """End the search, else the filter; whether there was one."""
        log = self.main.log_view
        if log.buffer.query:
            log.search("")
        elif log.buffer.filter:
            log.only("")
            log.go("end")
        else:
            return False
        return True

    # The log elsewhere

    def action_log_pager(self) -> None:
        """Open the log's file in the pager."""
        self._ask(self._page)

    async def _page(self) -> None:
        from gmg_tui.ui.terminal import pager

        try:
            words, path = pager.command(), await self._path()
            await self._bring(path)
            await pager.check(path)
            pager.show(words, path, self.lend_terminal())
        except GmgError as error:
            raise GmgError(f"{now('o')}: {error}") from error

    async def _bring(self, path: Path) -> None:
        """Have the log come from the node that keeps it."""
        folder = Path(self.state.session.spec.folder)
        if self.state.session.spec.nodes is not None:
            await self.engine.bring_log(
                str(path.relative_to(folder)),
                lambda size: self.main.log_view.say(f"{units.mib(size / (1 << 20))} of the log have come"),
            )

    async def _path(self) -> Path:
        slot = self.state.chosen
        path = log_path(self.state, slot, await slot_job(self.engine, self.state, slot)) if slot else None
        if path is None:
            raise GmgError(f"there is no job on {slot}, and no log." if slot else "there is no log.")
        return Path(path)

    def action_copy_line(self) -> None:
        """Copy a line of the log to the terminal's clipboard."""
        line = self.main.log_view.line
        if line:
            self.copy_to_clipboard(line)
            self.main.log_view.say(f"copied {cut(line, _SAID_CELLS, self.main.appearance.signs.ellipsis)}")
        else:
            self.say(f"{now('y')}: there is no line to copy.")

    def action_copy_log_path(self) -> None:
        """Copy the path of the log's file to the terminal's clipboard."""
        self._ask(self._copy_path)

    async def _copy_path(self) -> None:
        try:
            path = await self._path()
        except GmgError as error:
            raise GmgError(f"{now('Y')}: {error}") from error
        self.copy_to_clipboard(str(path))
        self.main.log_view.say(f"copied the path of {path.name}")
