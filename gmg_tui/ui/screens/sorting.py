"""The dialog that chooses what the workers are sorted by."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing.arrangement_row import direction, order_name
from gmg_tui.ui.keys import KEYS
from gmg_tui.ui.screens.dialog_base import Choice, Dialog, Menu
from gmg_tui.ui.state import UiState

_KEYS = {
    Order.SLOT: "s",
    Order.STATE: "w",
    Order.FPS: "f",
    Order.ENVS: "e",
    Order.UTILISATION: "u",
    Order.MEMORY: "m",
    Order.TEMPERATURE: "t",
    Order.POWER: "p",
    Order.GROUP: "g",
}


class SortScreen(Dialog[Order]):
    """What the workers can be sorted by. The present order is chosen again to reverse it, also by `S`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,q", "cancel", "cancel", show=False),
        *(Binding(key.keys, "again", "reverse", show=False) for key in KEYS if key.action == "sort"),
    ]
    heading = "Sort by"
    SCROLLS: ClassVar[bool] = True

    def __init__(self, state: UiState) -> None:
        super().__init__()
        self._state = state
        lacking = set() if state.on_gpus else {Order.TEMPERATURE, Order.POWER}
        lacking |= set() if state.snapshot.groups else {Order.GROUP}
        present = state.arrangement.order
        self._orders = [order for order in Order if order is present or order not in lacking]

    def contents(self) -> ComposeResult:
        """The orders, beginning at the present one."""
        present, on_gpus = self._state.arrangement, self._state.on_gpus
        choices = []
        for order in self._orders:
            again = order is present.order
            falls = not present.falls if again else order.falls
            label = f"{order_name(order, on_gpus=on_gpus)}, {direction(order, falls=falls)}"
            choices.append(Choice(_KEYS[order], f"{label}{' (now the other way round)' if again else ''}", "", order))
        yield Menu(choices)

    def action_again(self) -> None:
        """Reverse the present order."""
        self.dismiss(self._state.arrangement.order)
