"""The dialog that chooses the GPUs of a sweep while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import Lane, Slot
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.screens.dialog_base import Dialog, app_bindings, appearance_of, as_shown, bindings, style
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.footer import Footer
from gmg_tui.ui.widgets.row_view import RowView


class Device(NamedTuple):
    """A GPU or a share of the CPU, with its slots."""

    slots: tuple[Slot, ...]

    @property
    def name(self) -> str:
        """That of its first slot without the number of the share: `gpu0`."""
        first = self.slots[0]
        return first.name if len(self.slots) == 1 else first.name.rpartition("-")[0] or first.name


def devices_of(slots: Sequence[Slot]) -> list[Device]:
    """The slots grouped by GPU, in their order; a slot without a GPU is a group of its own."""
    found: dict[str, list[Slot]] = {}
    for slot in slots:
        found.setdefault(slot.gpu.uuid if slot.gpu is not None else slot.name, []).append(slot)
    return [Device(tuple(group)) for group in found.values()]


class GpusScreen(Dialog[None], LiveScreen[None]):
    """Shows every GPU that the sweep may use, and enables or disables it for new jobs."""

    DEFAULT_CSS = """
    GpusScreen > .box { background: $background; }
    """
    KEYS = keys.GPUS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(keys.GPUS), *app_bindings(keys.COMMON)]
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help"})
    heading = "GPUs of the sweep"

    def __init__(self, state: UiState, engine: Source) -> None:
        super().__init__()
        self._state = state
        self._engine = engine
        self._devices = devices_of(state.session.slots)
        self._rows = RowView()
        self._at = 0
        self._lanes: dict[str, Lane] = {}
        self._version: int | None = None

    def contents(self) -> ComposeResult:
        """The GPUs, the outcome of the last key, and the keys."""
        yield self._rows
        yield Static(markup=False, id="said")
        own = (key for key in keys.GPUS if key.footer)
        yield Footer(appearance_of(self.app), [*own, *keys.COMMON], {"cancel", "detach", "help"})

    def on_mount(self) -> None:
        """Ask which are in use."""
        self._rows.styles.height = len(self._devices)
        self.run_worker(self._ask(), group="asking")

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.draw)

    def show_state(self) -> None:
        """Ask again when something has changed."""
        queue = self._state.queue
        if queue is not None and queue.version != self._version:
            self.run_worker(self._ask(), group="asking", exclusive=True)

    def draw(self) -> None:
        """Draw the GPUs."""
        width = self._rows.size.width
        self._rows.show_rows([self._row(number, device, width).strip() for number, device in enumerate(self._devices)])
        for box in self.query(".box").results(VerticalScroll):  # none while the dialog is being taken away
            box.scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)

    def _row(self, number: int, device: Device, width: int) -> Row:
        appearance, at = appearance_of(self.app), number == self._at
        lanes = self._lanes_of(device)
        used = any(lane.used for lane in lanes)
        line = Row(appearance, width).add(f"{appearance.signs.pointer if at else ' '} ", "key")
        line.add(f"[{'x' if used else ' '}] " if lanes else "[?] ", "ok" if used else "dim")
        line.add(device.name, "strong" if at else "text")
        if device.slots[0].gpu is not None:
            line.add(f" {appearance.signs.dot} {words.gpu_name(device.slots[0])}", "dim")
        running = sum(1 for lane in lanes if lane.job is not None)
        parts = [f"{len(device.slots)} slots"] if len(device.slots) > 1 else []
        if running:
            parts.append(f"{units.count(running, 'job')} running")
        line.add(f"  {', '.join(parts)}", "text")
        benched = next((lane.benched for lane in lanes if lane.benched), None)
        return line.add(f"  benched: {benched}", "warn") if benched else line

    def _lanes_of(self, device: Device) -> list[Lane]:
        """What the engine says of the device's slots; nothing before its first answer."""
        return [self._lanes[slot.name] for slot in device.slots if slot.name in self._lanes]

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
        for line in self.query("#said").results(Static):
            line.update(Content.styled(as_shown(text, self.app), style("warn")))

    async def on_click(self, event: events.Click) -> None:
        """Select the GPU under the mouse; enable or disable it where it was selected already."""
        row = event.screen_y - self._rows.region.y
        if not self._rows.region.contains(event.screen_x, event.screen_y):
            return
        if row == self._at:
            await self.app.run_action("turn", self)
        elif 0 <= row < len(self._devices):
            self.action_move(row - self._at)

    def action_move(self, step: int) -> None:
        """Select the next GPU, or the previous one."""
        self._at = max(0, min(len(self._devices) - 1, self._at + step))
        self.draw()

    def action_turn(self) -> None:
        """Enable or disable the selected GPU."""
        device = self._devices[self._at]
        lanes = self._lanes_of(device)
        if lanes:
            self.run_worker(self._use(device, used=not any(lane.used for lane in lanes)), group="using")

    async def _use(self, device: Device, *, used: bool) -> None:
        self._say("")
        try:
            await self._engine.use_slot(device.slots[0].name, used=used)  # the other slots of the GPU follow
        except GmgError as error:
            self._say(str(error))
        await self._ask()
