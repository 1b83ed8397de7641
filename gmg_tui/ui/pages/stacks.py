"""The Python stacks of a worker or a group."""

from __future__ import annotations

from collections.abc import Iterable

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from gmg_tui.model import Stacks
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import Source
from gmg_tui.ui.drawing import Piece, plain
from gmg_tui.ui.pages.page import Page, Scroll


class StacksPage(Page):
    """The stacks of the worker on a slot and of all ranks of its group, as they were when the page was opened.

    They are asked for once, because a stack is of one moment, and asking interrupts a rank.
    """

    DEFAULT_CSS = "StacksPage Scroll { padding: 1 1 0 1; }"

    def __init__(self, engine: Source, slot: str) -> None:
        super().__init__()
        self._engine = engine
        self._slot = slot
        self._text = Static("Waiting for the worker")

    def body(self) -> ComposeResult:
        """The stacks, one after another."""
        with Scroll():
            yield self._text

    def on_mount(self) -> None:
        """Ask for the stacks."""
        self.show_title()
        self._ask()

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the slot."""
        return (self._slot, "title"), ("  Python stacks", "dim")

    @work
    async def _ask(self) -> None:
        try:
            stacks = await self._engine.stacks(self._slot)
        except GmgError as error:
            self._text.update(plain(str(error)).stylize("$warning"))
        else:
            self._text.update(Content("\n\n").join(map(_content, stacks)))


def _content(stacks: Stacks) -> Content:
    """The stacks of a worker, that of the current thread first."""
    title = stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}"
    threads = sorted(stacks.text.strip().split("\n\n"), key=lambda text: not text.startswith("Current thread"))
    error = plain(stacks.error or "").stylize("$warning")
    return Content("\n").join([plain(title).stylize("bold $primary"), error or plain("\n\n".join(threads))])
