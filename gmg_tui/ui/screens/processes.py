"""The processes on one card: whose they are, and a way to end those that should not be there."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.client import Engine
from gmg_tui.errors import GmgError
from gmg_tui.model import Details, GpuProcess
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import words
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.screens import process_table, tables
from gmg_tui.ui.screens.asking import keep_asking
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.page import Page
from gmg_tui.ui.screens.parts import bindings, foot
from gmg_tui.ui.screens.sheet import Sheet


class ProcessesScreen(Page):
    """Shows the processes on a card, asks again every few seconds, and ends strangers' after a question.

    Args:
        engine: Asked for the processes, and told to end one.
        slot: The slot whose card it is.
        look: Styles and signs.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(tables.PROCESSES)

    def __init__(self, engine: Engine, slot: str, look: Look) -> None:
        super().__init__(look)
        self._engine = engine
        self._slot = slot
        self._place = engine.welcome.session.slot(slot)
        self._details: Details | None = None
        self._chosen: int | None = None

    def compose(self) -> ComposeResult:
        """The table, then the keys."""
        yield Rows()
        yield Static(foot(tables.PROCESSES, self.look.signs), markup=False, classes="foot")

    def on_mount(self) -> None:
        """Begin to ask."""
        self._ask_anew()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw the table."""
        rows = next(iter(self.query(Rows)), None)
        if rows is None:  # an answer came while the screen is taken down, its widgets first
            return
        above = self._above(rows.size.width)
        room = max(0, rows.size.height - len(above))
        sheet = Sheet(rows.size.width, self.look)
        if self._details is None:
            sheet.text(" " if self._failure else "Asking the engine", "dim", indent=2)
        elif self._details.processes is None:
            sheet.text(process_table.none_to_show(self._place), "dim", indent=2)
        elif not self._processes:
            sheet.text("No process holds memory on this card.", "dim", indent=2)
        else:
            self._write_table(sheet, room)
        rows.show_rows([*above, *sheet.rows[:room]])

    def _above(self, width: int) -> list[Strip]:
        name = f" {self.look.signs.dot} {words.card_name(self._place)}" if self._place else ""
        line = (
            Line(self.look, width)
            .end(f" {units.count(len(self._processes), 'process')} ", "dim")
            .add(f" {self._slot}", "title")
            .add(f"{name}  ", "text")
        )
        sheet = Sheet(width, self.look).line(line.add("processes on the card", "dim"))
        for text in (self._said, self._failure):
            if text:
                sheet.row(f" {self.look.signs.pointer}", text, "warn", label_width=3)
        return sheet.gap().rows

    def _write_table(self, sheet: Sheet, room: int) -> None:
        """The part of the table around the chosen process that fits, and that process's command in full."""
        processes = self._processes
        at = next((number for number, one in enumerate(processes) if one.pid == self._chosen), 0)
        command = Sheet(sheet.width, self.look).text(process_table.command_of(processes[at]), "dim", indent=2).rows
        visible = max(1, room - 2 - len(command))
        first = max(0, min(at - visible // 2, len(processes) - visible))
        process_table.write(sheet, processes[first : first + visible], chosen=processes[at].pid)
        sheet.gap().rows.extend(command)

    @property
    def _processes(self) -> tuple[GpuProcess, ...]:
        return (self._details.processes if self._details else None) or ()

    @property
    def _process(self) -> GpuProcess | None:
        return next((process for process in self._processes if process.pid == self._chosen), None)

    # What is asked

    def _ask_anew(self) -> None:
        self.run_worker(keep_asking(self._ask, self._fail), group="asking", exclusive=True)

    async def _ask(self) -> None:
        """Ask for the processes and draw them; the choice stays on its process while that is there."""
        pids = [process.pid for process in self._processes]
        at = pids.index(self._chosen) if self._chosen in pids else 0
        self._details = await self._engine.details(self._slot)
        self._failure = ""
        if self._process is None:
            fresh = self._processes
            self._chosen = fresh[min(at, len(fresh) - 1)].pid if fresh else None
        self.draw()

    # What the keys do

    def action_move(self, step: int) -> None:
        """Choose the next process, or the one before."""
        pids = [process.pid for process in self._processes]
        if self._chosen in pids:
            self._chosen = pids[max(0, min(len(pids) - 1, pids.index(self._chosen) + step))]
            self._say("")

    def action_end_process(self, kill: bool) -> None:
        """End the chosen process by SIGTERM, or SIGKILL, after a question."""
        process = self._process
        if process is None:
            self._say("there is no process to end")
        elif process.slot is not None:
            self._say(f"process {process.pid} is {process.slot}'s worker: x on the main screen stops it")
        else:
            self.run_worker(self._end(process, kill=kill), group="ending")

    async def _end(self, process: GpuProcess, *, kill: bool) -> None:
        signal = "SIGKILL" if kill else "SIGTERM"
        owner = f"{process.user}'s " if process.user else ""
        question = f"Send {signal} to {owner}process {process.pid}, {process_table.command_of(process)}?"
        if not await self.app.push_screen_wait(ConfirmScreen(question)):
            return
        try:
            await self._engine.end_process(self._slot, process.pid, kill=kill)
        except GmgError as error:
            self._say(str(error))
            return
        self._say(f"{signal} was sent to process {process.pid}")
        self._ask_anew()
