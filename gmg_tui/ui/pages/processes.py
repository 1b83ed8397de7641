"""What runs right now: the processes on a GPU, and whose they are; the Python stacks of a worker or a group."""

from __future__ import annotations

from typing import Final

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from gmg_tui.model import GpuProcess, Stacks, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results.column import Column
from gmg_tui.session.client import Source
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import plain, safe
from gmg_tui.ui.pages.page import Page, Scroll, TablePage
from gmg_tui.ui.pages.table import RowTable


def _owner(process: GpuProcess) -> str:
    """The owner: a worker of this session, somebody else, or not visible; a PID of the host means nothing here."""
    if process.slot is not None:
        return f"{process.slot} worker"
    if process.foreign:
        return "host's PID"
    return "not ours" if process.user is not None else "not visible"


def _command(process: GpuProcess) -> str:
    """The command line, or at least the name."""
    return process.command or process.name or units.NOT_KNOWN


_COLUMNS: Final = (
    Column[GpuProcess]("pid", lambda process: process.pid, "PID", write=str),
    Column[GpuProcess]("user", lambda process: process.user, left=True, limit=16),
    Column[GpuProcess]("age_s", lambda process: process.age_s, "age", write=units.span),
    Column[GpuProcess]("memory_mib", lambda process: process.memory_mib, "VRAM", write=units.mib),
    Column[GpuProcess]("owner", _owner, left=True),
    Column[GpuProcess]("command", _command, left=True, limit=200),
)


class ProcessesPage(TablePage[GpuProcess]):
    """The processes on a slot's GPU, refreshed every few seconds."""

    def __init__(self, engine: Source, slot: str) -> None:
        super().__init__(RowTable(_COLUMNS, key=lambda process: str(process.pid)))
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
        self.table.styles.height = "1fr" if processes else 0  # why there are none stands at the top

    def title_text(self) -> Content:
        """The GPU, and how many processes it has."""
        name = f" · {worker_text.gpu_name(self._slot_info)}" if self._slot_info else ""
        count = units.count(self.table.row_count, "process")
        return Content.assemble((safe(f"{self._slot}{name}"), "bold $primary"), (f"  {count}", "$text-muted"))

    def selected_text(self, row: GpuProcess) -> Content:
        """The command in full."""
        return Content(safe(_command(row)))


class StacksPage(Page):
    """The stacks of the worker on a slot and of all ranks of its group, as they were when the page was opened.

    They are asked for once, because a stack is of one moment, and asking interrupts a rank.
    """

    DEFAULT_CSS = "StacksPage Scroll { padding: 1 1 0 1; }"

    def __init__(self, engine: Source, slot: str) -> None:
        super().__init__()
        self._engine = engine
        self._slot = slot
        self._text = Static("Waiting for the worker")

    def body(self) -> ComposeResult:
        """The stacks, one after another."""
        with Scroll():
            yield self._text

    def on_mount(self) -> None:
        """Ask for the stacks."""
        self.show_title()
        self._ask()

    def title_text(self) -> Content:
        """The slot."""
        return plain(self._slot).stylize("bold $primary") + Content.styled("  Python stacks", "$text-muted")

    @work
    async def _ask(self) -> None:
        try:
            stacks = await self._engine.stacks(self._slot)
        except GmgError as error:
            self._text.update(plain(str(error)).stylize("$warning"))
        else:
            self._text.update(Content("\n\n").join(map(_content, stacks)))


def _content(stacks: Stacks) -> Content:
    """The stacks of a worker, that of the current thread first."""
    title = stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}"
    threads = sorted(stacks.text.strip().split("\n\n"), key=lambda text: not text.startswith("Current thread"))
    error = plain(stacks.error or "").stylize("$warning")
    return Content("\n").join([plain(title).stylize("bold $primary"), error or plain("\n\n".join(threads))])
