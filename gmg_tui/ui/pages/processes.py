"""The processes on one GPU: whose they are, and a way to end those that should not be there."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from gmg_tui import units
from gmg_tui.client import Source
from gmg_tui.columns import Column
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuProcess
from gmg_tui.ui.dialogs import ConfirmScreen
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import safe
from gmg_tui.ui.pages.page import COMMON, TablePage
from gmg_tui.ui.pages.table import RowTable


def whose(process: GpuProcess) -> str:
    """The owner: a worker of this session, somebody else, or not visible; a PID of the host means nothing here."""
    if process.slot is not None:
        return f"{process.slot} worker"
    if process.foreign:
        return "host's PID"
    return "not ours" if process.user is not None else "not visible"


def command_of(process: GpuProcess) -> str:
    """The command line, or at least the name."""
    return process.command or process.name or units.NOT_KNOWN


COLUMNS: Final = (
    Column[GpuProcess]("pid", lambda process: process.pid, "PID", write=str),
    Column[GpuProcess]("user", lambda process: process.user, left=True, limit=16),
    Column[GpuProcess]("age_s", lambda process: process.age_s, "age", write=units.span),
    Column[GpuProcess]("memory_mib", lambda process: process.memory_mib, "VRAM", write=units.mib),
    Column[GpuProcess]("whose", whose, left=True),
    Column[GpuProcess]("command", command_of, left=True, limit=200),
)


class ProcessesPage(TablePage[GpuProcess], inherit_bindings=False):
    """The processes on a slot's GPU, refreshed every few seconds."""

    TAKES = TablePage.TAKES | {"end_process"}
    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("x", "end_process(False)", "SIGTERM", id="stop"),
        Binding("X", "end_process(True)", "SIGKILL", id="kill"),
    ]

    def __init__(self, engine: Source, slot: str) -> None:
        super().__init__(RowTable(COLUMNS, key=lambda process: str(process.pid)))
        self._engine = engine
        self._slot = slot
        self._slot_info = engine.welcome.session.slot(slot)

    def on_mount(self) -> None:
        """Begin to ask."""
        self.poll()

    async def ask(self) -> None:
        """Ask for the processes."""
        processes = (await self._engine.details(self._slot)).processes
        if processes is not None:
            empty = "No process uses memory on this GPU."
        elif self._slot_info is not None and self._slot_info.gpu is None:
            empty = f"{self._slot} is a share of the CPU and has no GPU."
        else:
            empty = "The driver does not report this GPU's processes."
        self.show_rows(list(processes or ()), empty)

    def title_text(self) -> Content:
        """The GPU, and how many processes it has."""
        name = f" · {words.gpu_name(self._slot_info)}" if self._slot_info else ""
        count = units.count(self.table.row_count, "process")
        return Content.assemble((safe(f"{self._slot}{name}"), "bold $primary"), (f"  {count}", "$text-muted"))

    def selected_text(self, row: GpuProcess) -> Content:
        """The command in full."""
        return Content(safe(command_of(row)))

    async def action_end_process(self, kill: bool) -> None:
        """Send SIGTERM or SIGKILL to the selected process, after a confirmation."""
        process = self.table.selected
        if process is None:
            self.tell("There is no process to end.")
        elif process.slot is not None:
            self.tell(f"Process {process.pid} is the worker of {process.slot}: stop it on the main screen.")
        else:
            owner = f"{process.user}'s " if process.user else ""
            question = f"Send {_signal(kill)} to {owner}process {process.pid}, {command_of(process)}?"
            # Awaited, so that another key that follows at once does not ask again.
            await self.app.push_screen(ConfirmScreen(question), partial(self._end_if, process, kill))

    def _end_if(self, process: GpuProcess, kill: bool, sure: bool | None) -> None:
        if sure:
            self._end(process, kill)

    @work(group="ending")
    async def _end(self, process: GpuProcess, kill: bool) -> None:
        try:
            await self._engine.end_process(self._slot, process, kill=kill)
        except GmgError as error:
            self.tell(str(error))
            return
        self.tell(f"Sent {_signal(kill)} to process {process.pid}.")
        self.poll()


def _signal(kill: bool) -> str:
    return "SIGKILL" if kill else "SIGTERM"
