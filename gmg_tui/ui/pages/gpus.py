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
from gmg_tui.ui.drawing.appearance import plain


class GpusScreen(Dialog[None]):
    """Every GPU that the sweep may use, each enabled or disabled for new jobs; a job running there goes on."""

    DEFAULT_CSS = """
    GpusScreen SelectionList { height: auto; max-height: 100%; border: none; &:focus { border: none; } }
    """
    heading = "GPUs of the sweep"

    def __init__(self, engine: Source, slots: Sequence[Slot]) -> None:
        super().__init__()
        self._engine = engine
        self._gpus: dict[str, list[Slot]] = {}
        """The slots of each GPU; a slot without a GPU is alone."""
        for slot in slots:
            self._gpus.setdefault(slot.gpu.uuid if slot.gpu is not None else slot.name, []).append(slot)
        self._list = SelectionList[str]()
        self._failure = Static()

    def contents(self) -> ComposeResult:
        """The GPUs, and why one could not be changed."""
        yield from (self._list, self._failure)
        yield Static("Space enables or disables a GPU. A job that runs there goes on.", classes="effect")

    def on_mount(self) -> None:
        """Ask which are enabled."""
        self._list.focus()
        self._use()

    def on_selection_list_selection_toggled(self, event: SelectionList.SelectionToggled[str]) -> None:
        """Enable or disable the GPU."""
        self._use(event.selection.value, enabled=event.selection.value in self._list.selected)

    @work(group="using")
    async def _use(self, slot: str = "", *, enabled: bool = True) -> None:
        """Enable or disable the GPU of `slot`, if any is given, and show which are enabled now."""
        failure = ""
        try:
            if slot:
                await self._engine.use_slot(slot, used=enabled)  # the other slots of the GPU follow
        except GmgError as error:
            failure = str(error)
        try:
            lanes = {lane.slot: lane for lane in (await self._engine.queue(0, 1)).lanes}
        except GmgError as error:
            failure = failure or str(error)
        else:
            self._show(lanes)
        self._failure.update(plain(failure).stylize("$warning"))

    def _show(self, lanes: dict[str, Lane]) -> None:
        highlighted = self._list.highlighted
        with self.prevent(SelectionList.SelectionToggled, SelectionList.SelectedChanged):
            self._list.clear_options()
            for slots in self._gpus.values():
                used = [lanes[slot.name] for slot in slots if slot.name in lanes]
                selected = any(lane.used for lane in used)
                self._list.add_option(Selection(_text(slots, used), slots[0].name, selected))
        self._list.highlighted = highlighted or 0


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
