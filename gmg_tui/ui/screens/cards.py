"""The dialog that chooses the cards of a sweep while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.client import Engine
from gmg_tui.errors import GmgError
from gmg_tui.model import Lane, Slot, Snapshot
from gmg_tui.ui.line import Line
from gmg_tui.ui.renderables import words
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.screens import tables
from gmg_tui.ui.screens.parts import Dialog, as_shown, bindings, foot, look_of, signs_of, style
from gmg_tui.ui.state import UiState


class Card(NamedTuple):
    """A card, or a share of the CPU, with its slots."""

    slots: tuple[Slot, ...]

    @property
    def name(self) -> str:
        """As its first slot, without the number of the share: `gpu0`."""
        first = self.slots[0]
        return first.name if len(self.slots) == 1 else first.name.rpartition("-")[0] or first.name


def cards_of(slots: Sequence[Slot]) -> list[Card]:
    """The slots put together by their cards, in their order; a slot without a card stands for itself."""
    found: dict[str, list[Slot]] = {}
    for slot in slots:
        found.setdefault(slot.gpu.uuid if slot.gpu is not None else slot.name, []).append(slot)
    return [Card(tuple(group)) for group in found.values()]


class CardsScreen(Dialog[None]):
    """Shows every card that the sweep may use, and lets jobs start on it or not.

    Args:
        state: What the interface knows.
        engine: Asked which slots are used, and told to use others.
    """

    DEFAULT_CSS = """
    CardsScreen {
        Rows { height: auto; }
        #said { height: auto; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(tables.CARDS),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
    ]
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "redraw"})
    TITLE_TEXT: ClassVar[str] = "Cards of the sweep"

    def __init__(self, state: UiState, engine: Engine) -> None:
        super().__init__()
        self._state = state
        self._engine = engine
        self._cards = cards_of(state.session.slots)
        self._at = 0
        self._lanes: dict[str, Lane] = {}
        self._version: int | None = None

    def contents(self) -> ComposeResult:
        """The cards, what became of the last key, and the keys."""
        yield Rows()
        yield Static(markup=False, id="said")
        yield Static(foot(tables.CARDS, signs_of(self.app)), markup=False, classes="foot")

    def on_mount(self) -> None:
        """Ask which are used."""
        self.query_one(Rows).styles.height = len(self._cards)
        self.run_worker(self._ask(), group="asking")

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.draw)

    def show(self, snapshot: Snapshot) -> None:
        """Ask again when something has changed."""
        if snapshot.queue is not None and snapshot.queue.version != self._version:
            self.run_worker(self._ask(), group="asking", exclusive=True)

    def draw(self) -> None:
        """Draw the cards."""
        rows = next(iter(self.query(Rows)), None)
        if rows is None:  # an answer came while the dialog is taken down
            return
        rows.show_rows([self._row(number, card, rows.size.width).strip() for number, card in enumerate(self._cards)])
        self.query_one(".box", VerticalScroll).scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)

    def _row(self, number: int, card: Card, width: int) -> Line:
        look, at = look_of(self.app), number == self._at
        known, used = self._used(card)
        line = Line(look, width).add(f"{look.signs.pointer if at else ' '} ", "key")
        line.add(f"[{'x' if used else ' '}] " if known else "[?] ", "ok" if used else "dim")
        line.add(card.name, "strong" if at else "text")
        if card.slots[0].gpu is not None:
            line.add(f" {look.signs.dot} {words.card_name(card.slots[0])}", "dim")
        lanes = [self._lanes[slot.name] for slot in card.slots if slot.name in self._lanes]
        running = sum(1 for lane in lanes if lane.job is not None)
        parts = [f"{len(card.slots)} slots"] if len(card.slots) > 1 else []
        if running:
            parts.append(f"{units.count(running, 'job')} {'runs' if running == 1 else 'run'}")
        return line.add(f"  {', '.join(parts)}", "text")

    def _used(self, card: Card) -> tuple[bool, bool]:
        """Whether it is known if jobs may start on the card, and whether they may."""
        lanes = [self._lanes[slot.name] for slot in card.slots if slot.name in self._lanes]
        return bool(lanes), any(lane.used for lane in lanes)

    async def _ask(self) -> None:
        queue = self._state.queue
        self._version = None if queue is None else queue.version
        try:
            view = await self._engine.queue(0, 1)
        except GmgError as error:
            self._say(str(error))
            return
        self._lanes = {lane.slot: lane for lane in view.lanes}
        self.draw()

    def _say(self, text: str) -> None:
        self.query_one("#said", Static).update(Content.styled(as_shown(text, self.app), style("warn")))

    def action_move(self, step: int) -> None:
        """Choose the next card, or the one before."""
        self._at = max(0, min(len(self._cards) - 1, self._at + step))
        self.draw()

    def action_turn(self) -> None:
        """Use the chosen card, or leave it."""
        card = self._cards[self._at]
        known, used = self._used(card)
        if known:
            self.run_worker(self._use(card, used=not used), group="using")

    async def _use(self, card: Card, *, used: bool) -> None:
        self._say("")
        try:
            await self._engine.use_slot(card.slots[0].name, used=used)  # its card's other slots go with it
        except GmgError as error:
            self._say(str(error))
        await self._ask()
