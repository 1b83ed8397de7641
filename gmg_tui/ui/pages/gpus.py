"""The dialog that chooses the GPUs of a sweep while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from gmg_tui import units
from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.model import Lane, Slot
from gmg_tui.ui.dialogs import Dialog
from gmg_tui.ui.drawing import words
from gmg_tui.ui.text import plain


def devices_of(slots: Sequence[Slot]) -> dict[str, list[Slot]]:
    """The slots of each GPU, by the name of its first slot; a slot without a GPU is alone."""
    by_gpu: dict[str, list[Slot]] = {}
    for slot in slots:
        by_gpu.setdefault(slot.gpu.uuid if slot.gpu is not None else slot.name, []).append(slot)
    return {group[0].name: group for group in by_gpu.values()}


class GpusScreen(Dialog[None]):
    """Every GPU that the sweep may use, each enabled or disabled for new jobs; a job running there goes on."""

    DEFAULT_CSS = """
    GpusScreen SelectionList { height: auto; max-height: 100%; border: none; }
    """
    heading = "GPUs of the sweep"

    def __init__(self, engine: Source, slots: Sequence[Slot]) -> None:
        super().__init__()
        self._engine = engine
        self._devices = devices_of(slots)
        self._list = SelectionList[str]()
        self._failure = Static()

    def contents(self) -> ComposeResult:
        """The GPUs, and why one could not be changed."""
        yield from (self._list, self._failure)
        yield Static("Space enables or disables a GPU. A job that runs there goes on.", classes="effect")

    def on_mount(self) -> None:
        """Ask which are enabled."""
        self._ask()

    @work(exclusive=True, group="asking")
    async def _ask(self) -> None:
        try:
            lanes = {lane.slot: lane for lane in (await self._engine.queue(0, 1)).lanes}
        except GmgError as error:
            self._show_failure(str(error))
            return
        at = self._list.highlighted
        with self.prevent(SelectionList.SelectionToggled, SelectionList.SelectedChanged):
            self._list.clear_options()
            for name, slots in self._devices.items():
                on_it = [lanes[slot.name] for slot in slots if slot.name in lanes]
                self._list.add_option(Selection(_text(slots, on_it), name, any(lane.used for lane in on_it)))
        self._list.highlighted = at or 0
        self._list.focus()

    def on_selection_list_selection_toggled(self, event: SelectionList.SelectionToggled[str]) -> None:
        """Enable or disable the GPU."""
        self._use(event.selection.value, event.selection.value in self._list.selected)

    @work(group="using")
    async def _use(self, slot: str, used: bool) -> None:
        try:
            await self._engine.use_slot(slot, used=used)  # the other slots of the GPU follow
            self._show_failure("")
        except GmgError as error:
            self._show_failure(str(error))
        self._ask()

    def _show_failure(self, text: str) -> None:
        self._failure.update(plain(text).stylize("$warning"))


def _text(slots: Sequence[Slot], lanes: Sequence[Lane]) -> Content:
    """The GPU, its slots and jobs, and why no job starts on it."""
    first, running = slots[0], sum(lane.job is not None for lane in lanes)
    name = first.name if len(slots) == 1 else first.name.rpartition("-")[0] or first.name
    parts = [
        f" {name}{f' · {words.gpu_name(first)}' if first.gpu is not None else ''}",
        f"{len(slots)} slots" if len(slots) > 1 else "",
        f"{units.count(running, 'job')} running" if running else "",
        "" if any(lane.used for lane in lanes) else "not used",
        next((f"benched: {lane.benched}" for lane in lanes if lane.benched), ""),
    ]
    return plain("  ".join(filter(None, parts)))
