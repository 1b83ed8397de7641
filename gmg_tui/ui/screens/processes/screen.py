"""The processes on one GPU: whose they are, and a way to end those that should not be there."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import Details, GpuProcess
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.dialog_base import bindings
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.processes import table


class ProcessesScreen(PageScreen):
    """Shows the processes on a slot's GPU, refreshed every few seconds, and ends other users' after a confirmation."""

    KEYS = keys.PROCESSES
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "redraw", "command_palette"})
    """No other key of the main screen may act here: the processes are what is chosen."""
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.PROCESSES)

    def __init__(self, engine: Source, slot: str, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._engine = engine
        self._slot = slot
        self._slot_info = engine.welcome.session.slot(slot)
        self._details: Details | None = None
        self._chosen: int | None = None
        self._shown: dict[int, int] = {}
        """The processes in sight: the PID of each by its row."""

    def on_mount(self) -> None:
        """Start querying the engine."""
        self.keep_asking()

    def draw(self) -> None:
        """Draw the table."""
        rows = self.rows
        above = self._above(rows.size.width)
        self._shown = {}
        room = max(0, rows.size.height - len(above))
        page = Page(rows.size.width, self.appearance)
        if self._details is None:
            page.text(" " if self._failure else "Waiting for the engine", "dim", indent=2)
        elif self._details.processes is None:
            page.text(table.none_to_show(self._slot_info), "dim", indent=2)
        elif not self._processes:
            page.text("No process uses memory on this GPU.", "dim", indent=2)
        else:
            self._write_table(page, room, len(above))
        rows.show_rows([*above, *page.rows[:room]])

    def _above(self, width: int) -> list[Strip]:
        name = f" {self.appearance.signs.dot} {words.gpu_name(self._slot_info)}" if self._slot_info else ""
        line = (
            Row(self.appearance, width)
            .end(f" {units.count(len(self._processes), 'process')} ", "dim")
            .add(f" {self._slot}", "title")
            .add(f"{name}  ", "text")
        )
        page = Page(width, self.appearance).line(line.add("processes on the GPU", "dim"))
        for text in (self._said, self._failure):
            if text:
                page.row(f" {self.appearance.signs.pointer}", text, "warn", label_width=3)
        return page.gap().rows

    def _write_table(self, page: Page, room: int, above: int) -> None:
        """The rows around the selected process that fit, below so many others, and that process's command in full."""
        processes = self._processes
        at = next((number for number, one in enumerate(processes) if one.pid == self._chosen), 0)
        command = Page(page.width, self.appearance).text(table.command_of(processes[at]), "dim", indent=2).rows
        visible = max(1, room - 2 - len(command))
        first = max(0, min(at - visible // 2, len(processes) - visible))
        shown = processes[first : first + visible]
        self._shown = {above + 1 + row: process.pid for row, process in enumerate(shown)}
        table.write(page, shown, chosen=processes[at].pid)
        page.gap().rows.extend(command)

    @property
    def _processes(self) -> tuple[GpuProcess, ...]:
        return (self._details.processes if self._details else None) or ()

    @property
    def _process(self) -> GpuProcess | None:
        return next((process for process in self._processes if process.pid == self._chosen), None)

    # Queries

    async def ask(self) -> None:
        """Ask for the processes and draw them; the selection stays on its process while that exists."""
        pids = [process.pid for process in self._processes]
        at = pids.index(self._chosen) if self._chosen in pids else 0
        self._details = await self._engine.details(self._slot)
        self._failure = ""
        if self._process is None:
            fresh = self._processes
            self._chosen = fresh[min(at, len(fresh) - 1)].pid if fresh else None
        self.draw()

    # Keys

    def action_move(self, step: int) -> None:
        """Select the next process, or the previous one."""
        pids = [process.pid for process in self._processes]
        if self._chosen in pids:
            self._chosen = pids[max(0, min(len(pids) - 1, pids.index(self._chosen) + step))]
            self._say("")

    def on_click(self, event: events.Click) -> None:
        """Select the process under the mouse."""
        if event.screen_y in self._shown:
            self._chosen = self._shown[event.screen_y]
            self._say("")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the process above."""
        event.stop()
        self.action_move(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select the process below."""
        event.stop()
        self.action_move(1)

    def action_refresh(self) -> None:
        """Ask for the processes again."""
        self._say("")
        self.keep_asking()

    async def action_end_process(self, kill: bool) -> None:
        """Send SIGTERM or SIGKILL to the selected process, after a confirmation."""
        process = self._process
        if process is None:
            self._say("There is no process to end.")
        elif process.slot is not None:
            self._say(
                f"Process {process.pid} is the worker of {process.slot}; {keys.now('x')} on the main screen stops it."
            )
        else:
            owner = f"{process.user}'s " if process.user else ""
            question = f"Send {_signal(kill)} to {owner}process {process.pid}, {table.command_of(process)}?"
            # Awaited, so that another key that follows at once does not ask again.
            await self.app.push_screen(ConfirmScreen(question), partial(self._end_if, process, kill))

    def _end_if(self, process: GpuProcess, kill: bool, sure: bool | None) -> None:
        if sure:
            self.run_worker(self._end(process, kill=kill), group="ending")

    async def _end(self, process: GpuProcess, *, kill: bool) -> None:
        try:
            await self._engine.end_process(self._slot, process, kill=kill)
        except GmgError as error:
            self._say(str(error))
            return
        self._say(f"Sent {_signal(kill)} to process {process.pid}.")
        self.keep_asking()


def _signal(kill: bool) -> str:
    return "SIGKILL" if kill else "SIGTERM"
