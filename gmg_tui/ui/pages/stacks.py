"""The Python stacks of a worker or a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.app import ComposeResult

from gmg_tui.model import Stacks
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import Source
from gmg_tui.ui.drawing import Piece
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.pages.page import Page


class StacksPage(Page):
    """The stacks of the worker on a slot and of all ranks of its group, as they were when the page was opened.

    They are asked for once, because a stack is of one moment, and asking interrupts a rank.
    """

    DEFAULT_CSS = "StacksPage Facts { height: 1fr; padding: 1 1 0 1; }"

    def __init__(self, engine: Source, slot: str) -> None:
        super().__init__()
        self._engine = engine
        self._slot = slot
        self._facts = Facts([Fact("", "Waiting for the worker", "dim")])
        self._facts.can_focus = True

    def body(self) -> ComposeResult:
        """The stacks, one after another."""
        yield self._facts

    def on_mount(self) -> None:
        """Ask for the stacks."""
        self.run_worker(self._ask())

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the slot."""
        return (self._slot, "title"), ("  Python stacks", "dim")

    async def _ask(self) -> None:
        try:
            stacks = await self._engine.stacks(self._slot)
        except GmgError as error:
            self._facts.show([Fact("", str(error), "warn")])
        else:
            self._facts.show([fact for each in stacks for fact in _facts(each)])


def _facts(stacks: Stacks) -> Iterator[Fact]:
    """Yields the stack of a worker, that of the current thread first."""
    yield Fact(stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}")
    threads = sorted(stacks.text.strip().split("\n\n"), key=lambda text: not text.startswith("Current thread"))
    if stacks.error:
        yield Fact("", stacks.error, "warn")
    elif stacks.text:
        yield Fact("", "\n\n".join(threads))
