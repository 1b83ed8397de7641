"""The row that says which workers are shown, and in which order, where these are not all in the order of their slots."""

from __future__ import annotations

from gmg_tui.ui.arrangement import Arrangement, Order
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.view import View


def order_name(order: Order, *, on_gpus: bool) -> str:
    """What the slots are sorted by, in words."""
    names = {
        Order.STATE: "state",
        Order.UTILISATION: "GPU utilisation" if on_gpus else "CPU",
        Order.MEMORY: "VRAM" if on_gpus else "RAM",
        Order.TEMPERATURE: "temperature",
        Order.POWER: "power",
    }
    return names.get(order, order.value)


def direction(order: Order, *, falls: bool) -> str:
    """What is first, in words."""
    if order is Order.STATE:
        return "best first" if falls else "worst first"
    if order in {Order.SLOT, Order.GROUP}:
        return "from the last" if falls else "from the first"
    return "highest first" if falls else "lowest first"


def order_sign(arrangement: Arrangement, appearance: Appearance) -> str:
    """The sign of the direction."""
    return appearance.signs.down if arrangement.falls else appearance.signs.up


def arrangement_row(state: View, width: int, appearance: Appearance) -> Row:
    """The filter at the left, with how many it shows; the order at the right."""
    arrangement = state.arrangement
    line = Row(appearance, width)
    if arrangement.filter:
        line.add(f" {len(state.slots)} of {len(state.present)} shown", "warn")
    if arrangement.order is not Order.SLOT or arrangement.reverse:
        sign, name = order_sign(arrangement, appearance), order_name(arrangement.order, on_gpus=state.on_gpus)
        whole = f"{sign} by {name}, {direction(arrangement.order, falls=arrangement.falls)}"
        text_cells = len(arrangement.filter.text) + 4
        forms = (f"{whole} ", f"{whole} ", f"{sign} by {name} ")
        line.end(next((form for form in forms if len(form) + text_cells <= line.room), f"{sign} {name} "), "title")
    if arrangement.filter:
        line.add(f" {appearance.signs.dot} {arrangement.filter.text}", "strong", limit=line.room - 1)
    return line
