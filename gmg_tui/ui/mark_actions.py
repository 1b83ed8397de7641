"""What the keys that mark workers do, and which workers other keys mean."""

from __future__ import annotations

from gmg_tui.ui.log_actions import LogActions
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.state import UiState


class MarkActions(LogActions, inherit_bindings=False):
    """An app whose user marks workers on the grid, to act on several at once."""

    state: UiState

    @property
    def covered(self) -> bool:
        """Whether a page covers the grid, as the details do: then keys act on the one worker that it shows."""
        return any(isinstance(screen, LiveScreen) and screen is not self.main for screen in self.screen_stack)

    @property
    def meant(self) -> tuple[str, ...]:
        """The slots that a key acts on: the marked ones, or the selected one.

        None where no slot is in use, or the line of a folded node is selected.
        """
        single = self.state.chosen and (self.covered or not self.state.folded_node)
        chosen = (self.state.chosen,) if single else ()
        marked = () if self.covered else tuple(slot for slot in self.state.slots if slot in self.state.marked)
        return marked or chosen

    def action_mark(self) -> None:
        """Mark the selected worker, or unmark it; of a folded node all, or none once all are."""
        state = self.state
        if state.folded_node:
            workers = set(state.of_node(state.folded_node))
            state.marked = state.marked - workers if workers <= state.marked else state.marked | workers
        elif state.chosen:
            state.marked ^= {state.chosen}
        if state.chosen:
            self.main.show_state()

    def action_leave(self) -> None:
        """End the search, else the log's filter, else unmark all, else show all workers."""
        if self.leave_bars():
            return
        if self.state.marked:
            self.state.marked.clear()
            self.main.show_state()
        else:
            self.leave_filter()

    def leave_filter(self) -> bool:
        """Show all workers; whether some were hidden."""
        raise NotImplementedError
