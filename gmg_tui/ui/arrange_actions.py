"""What the keys do that sort and filter the workers, fold their nodes, or look for the next one in trouble."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from textual.screen import Screen

from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import themes
from gmg_tui.ui.keys import now
from gmg_tui.ui.mark_actions import MarkActions
from gmg_tui.ui.messages import NodeClicked, SelectionChanged
from gmg_tui.ui.remembered import Memory, Settings
from gmg_tui.ui.state import View

T = TypeVar("T")


class ArrangeActions(MarkActions, inherit_bindings=False):
    """An app whose user says which workers are shown, how, and in which order; it is remembered."""

    memory: Memory | None
    """None where nothing is remembered."""

    def _open(self, opening: Callable[[], Awaitable[object]]) -> None:
        """Open a screen that asks something."""
        raise NotImplementedError

    async def _show(self, screen: Screen[T]) -> T | None:
        """Put `screen` on top and wait for its answer."""
        raise NotImplementedError

    # Sorting

    def action_sort(self) -> None:
        """Ask what to sort by; the present order again reverses it."""
        self._open(self._sort)

    async def _sort(self) -> None:
        from gmg_tui.ui.screens.sorting import SortScreen

        order = await self._show(SortScreen(self.state))
        if order is not None:
            self.action_sort_by(order.value)

    def action_sort_by(self, name: str) -> None:
        """Sort by what `Order` calls so; the present order again reverses it."""
        order = Order(name)
        arrangement = self.state.arrangement
        again = order is arrangement.order
        self.state.sort_by(order, reverse=again and not arrangement.reverse)
        self.main.grid.go_to_top()
        self.main.show_state()
        self.remember()

    # The filter

    async def action_filter_slots(self) -> None:
        """Open the line that asks which workers to show."""
        from gmg_tui.ui.widgets.log_bars import LogBar
        from gmg_tui.ui.widgets.slot_bar import SlotBar

        main = self.main
        for other in main.query(LogBar):
            if isinstance(other, SlotBar):
                main.set_focus(other)
                return
            await other.remove()
        bar = SlotBar(main.log_view, self.state.arrangement.filter.text, self.show_only)
        await main.mount(bar, before=main.footer)
        main.set_focus(bar)

    def show_only(self, text: str) -> None:
        """Show only the workers that hold all words of `text`."""
        moved = self.state.show_only(text)
        self.main.show_state()
        if moved:
            self.post_message(SelectionChanged())

    def leave_filter(self) -> bool:
        """Show all workers; whether some were hidden."""
        if not self.state.arrangement.filter:
            return False
        self.show_only("")
        return True

    # Trouble

    def action_trouble(self) -> None:
        """Select the next worker in trouble, from the first again after the last."""
        state, troubled = self.state, self.state.troubled()
        seen = [name for name in state.slots if name in set(troubled)]
        if not seen:
            hides = f"; the filter hides {len(troubled)} that are" if troubled else ""
            shown = "of those that are shown, " if troubled else ""
            self.say(f"{now('!')}: {shown}no worker is in trouble{hides}.")
            return
        places = {name: place for place, name in enumerate(state.slots)}
        # A folded node's line stands before all of its workers.
        here = places[state.of_node(state.folded_node)[0]] - 1 if state.folded_node else places.get(state.chosen, -1)
        there = next((name for name in seen if places[name] > here), seen[0])
        unfolds = state.folds.holds(there)
        if unfolds:
            state.folds.fold(state.folds.node_of(there), folded=False)
            self._show_folds()
        if state.choose(there):
            self.post_message(SelectionChanged())
        elif not unfolds:
            self.say(f"{now('!')}: {there} is the only one in trouble{' that is shown' if len(troubled) > 1 else ''}.")

    # Nodes

    def action_fold_node(self) -> None:
        """Fold the node of the selected worker, or unfold it."""
        state = self.state
        if not self._no_nodes("z") and (node := state.folds.node_of(state.chosen)):
            state.folds.fold(node, folded=not state.folds.holds(state.chosen))
            self._show_folds()

    def action_fold_all(self) -> None:
        """Fold all nodes, or unfold all where all are folded."""
        folds = self.state.folds
        if not self._no_nodes("Z"):
            folds.fold(*folds.slots, folded=not folds.all_folded)
            self._show_folds()

    def on_node_clicked(self, message: NodeClicked) -> None:
        """Fold a node, or unfold it, and select what stands there."""
        folds, slots = self.state.folds, self.state.of_node(message.node)
        if not slots:
            return
        folds.fold(message.node, folded=not folds.holds(slots[0]))
        if self.state.choose(slots[0]):
            self.post_message(SelectionChanged())
        self._show_folds()

    def _no_nodes(self, key: str) -> bool:
        if not self.state.folds.slots:
            self.say(f"{now(key)}: there is one machine, and nothing to fold.")
        return not self.state.folds.slots

    def _show_folds(self) -> None:
        self.say("")
        self.main.show_state()
        self.remember()

    # What is remembered

    def remember(self) -> None:
        """Keep the view, the theme, the order and what is folded for the next session."""
        if self.memory is None:
            return
        arrangement, kept = self.state.arrangement, self.memory.settings
        folds = self.memory.folds_with(self.state.folds.chosen, self.state.folds.slots)
        theme = self.theme_chosen or kept.theme
        self.memory.keep(Settings(self.state.view, theme, arrangement.order, arrangement.reverse, folds))

    theme_chosen = ""
    """The theme that was chosen on the screen; empty before that."""

    def recall(self, memory: Memory) -> str | None:
        """Take the view, the order and the folds that are remembered. Returns the name of the theme, if one is."""
        settings = memory.settings
        self.state.view = View(settings.view)
        self.state.sort_by(settings.order, reverse=settings.reverse)
        self.state.folds.choose(settings.folds)
        if memory.trouble:
            self.state.message = memory.trouble
        return settings.theme if settings.theme in themes.NAMES else None
