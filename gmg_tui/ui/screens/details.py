"""All there is to know of one worker: charts, attempts, command line and environment, card."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.strip import Strip
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.client import Engine
from gmg_tui.model import Details, JobRecord, Series, Snapshot, Worker
from gmg_tui.ui.held_job import held_job
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import words
from gmg_tui.ui.renderables.words import Note, Shown
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.screens import sections, tables
from gmg_tui.ui.screens.asking import keep_asking
from gmg_tui.ui.screens.page import Page
from gmg_tui.ui.screens.parts import bindings, fit_scrollbar, foot, scroll
from gmg_tui.ui.screens.queue_table import values_of
from gmg_tui.ui.screens.sections import Subject
from gmg_tui.ui.screens.sheet import Sheet
from gmg_tui.ui.state import UiState

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

SECTIONS: Final = ("charts", "attempts", "setup", "card")
"""The sections, in the order of their keys."""
_NOTE_ROWS: Final = 5
"""Rows that warnings, reason and advice may take above the section; the section `card` has them in full."""


class DetailsScreen(Page):
    """Shows one worker; the keys that act on the main screen's chosen worker act on this one.

    Args:
        state: What the interface knows; its chosen worker is changed with the one shown.
        engine: Asked for what snapshots do not have.
        slot: The worker to begin with.
        look: Styles and signs.
    """

    DEFAULT_CSS = """
    DetailsScreen {
        & > #head { height: 2; }
        & > #body { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(tables.DETAILS)

    def __init__(self, state: UiState, engine: Engine, slot: str, look: Look) -> None:
        super().__init__(look)
        self._state = state
        self._engine = engine
        self._slot = slot
        self._section = SECTIONS[0]
        self._details: Details | None = None
        self._series: Series | None = None
        self._job: JobRecord | None = None

    @property
    def _app(self) -> GmgApp:
        return cast("GmgApp", self.app)

    def compose(self) -> ComposeResult:
        """Head, section, keys."""
        yield Rows(id="head")
        with VerticalScroll(id="body", can_focus=False):
            yield Rows(id="section")
        keys = foot(tables.DETAILS, self.look.signs) + foot(tables.ACTING, self.look.signs, "app")
        yield Static(keys, markup=False, classes="foot")

    def on_mount(self) -> None:
        """Begin to ask."""
        fit_scrollbar(self.query_one("#body"))
        self._ask_anew()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.draw)

    def on_screen_resume(self) -> None:
        """Catch up with what happened under another screen."""
        self.call_after_refresh(self.draw)

    def show(self, snapshot: Snapshot) -> None:
        """Draw what `snapshot` says; the state has it already. In a sweep the slot may have gone: the chosen one stays."""
        if self._slot not in self._state.slots and self._state.chosen:
            self._turn_to(self._state.chosen)
        worker = snapshot.worker(self._slot)
        if worker is not None and worker.job is not None and self._job is not None and worker.job != self._job.number:
            self._job = None  # another one has taken the slot
            self._ask_anew()
        self.draw()

    def draw(self) -> None:
        """Draw all of it."""
        subject = self._subject()
        if not self.is_mounted:
            return
        if subject is None:
            self._draw_nobody()
            return
        notes = self._notes(subject)
        head, full = self._head(subject, notes)
        with suppress(NoMatches):  # an answer came while the screen is taken down, its widgets first
            rows = self.query_one("#head", Rows)
            rows.styles.height = len(head)
            rows.show_rows(head)
            self._draw_section(subject, [] if full else notes, len(head))

    def _draw_nobody(self) -> None:
        """Say that the slot has gone, and that there is no other."""
        line = Line(self.look, self.size.width).add(f" {self._slot} is not used any more", "warn")
        with suppress(NoMatches):
            self.query_one("#head", Rows).show_rows([line.strip()])
            self.query_one("#section", Rows).show_rows([])

    def _draw_section(self, subject: Subject, notes: list[Note], above: int) -> None:
        width = self.size.width
        match self._section:
            case "attempts":
                rows = sections.attempts(subject, width, self.look)
            case "setup":
                rows = sections.setup(subject, width, self.look)
            case "card":
                rows = sections.card(subject, notes, width - 1, self.look)
            case _:
                room = self.size.height - above - self.query_one(".foot").size.height
                rows = sections.charts(subject, width, room, self.look)
        section = self.query_one("#section", Rows)
        section.styles.height = len(rows)
        section.show_rows(rows)

    def _subject(self) -> Subject | None:
        slot, worker = self._state.slot(self._slot), self._state.snapshot.worker(self._slot)
        if slot is None or worker is None:
            return None
        reading = self._state.reading(self._slot)
        return Subject(slot, worker, reading, self._state.snapshot.time, self._details, self._series)

    def _notes(self, subject: Subject) -> list[Note]:
        """What a person should know first: what became of the last key, then what is wrong with the worker."""
        said = [Note(text, "warn") for text in (self._app.main.header.message, self._failure) if text]
        history = self._state.histories[self._slot]
        shown = Shown(subject.slot, subject.worker, subject.reading, history, chosen=True, time=subject.time)
        return said + words.trouble(shown)

    def _head(self, subject: Subject, notes: list[Note]) -> tuple[list[Strip], bool]:
        """What stands above the section, and whether all notes are in it."""
        worker, look, width = subject.worker, self.look, self.size.width
        at = self._state.slots.index(self._slot) + 1
        line = Line(look, width).end(f" {at} of {len(self._state.slots)} ", "dim")
        line.add(f" {self._slot}", "title").add(f" {look.signs.dot} {words.card_name(subject.slot)}  ", "text")
        line.add(f"{words.sign_of(worker, look)} {words.state_of(worker)} ", words.style_of(worker))
        line.add(f"{units.span(worker.state_s)}  ", "text")
        line.add(f"attempt {worker.attempt}" + (f"  PID {worker.pid}" if worker.pid else ""), "dim")
        tabs = Line(look, width).add(look.signs.line[0] * 2, "border")
        for number, name in enumerate(SECTIONS, 1):
            chosen = name == self._section
            tabs.add(f"[{number} {name}]" if chosen else f" {number} {name} ", "key" if chosen else "dim")
        sheet = Sheet(width, look).line(line)
        if worker.job is not None:
            sheet.line(self._job_line(worker))
        for note in notes:
            sheet.row(f" {look.signs.pointer}", note.text, note.style, label_width=3)
        full = len(sheet.rows) <= _NOTE_ROWS + 1 + (worker.job is not None)
        if not full:
            del sheet.rows[_NOTE_ROWS:]
            sheet.row("", "all of this is in section 4", "dim", label_width=3)
        return [*sheet.rows, tabs.strip(look.signs.line[0], "border")], full

    def _job_line(self, worker: Worker) -> Line:
        """The job and its values, as far as they are known yet, and the time that is left to it."""
        left = words.timeout_of(worker)
        line = Line(self.look, self.size.width).end(f" {left} " if left is not None else "", "text")
        line.add(f" job {words.job_of(worker)}", "strong")
        job = self._job if self._job is not None and self._job.number == worker.job else None
        return line.add(f"  {values_of(job)}", "text") if job is not None else line

    # What is asked

    def _ask_anew(self) -> None:
        self.run_worker(keep_asking(self._ask, self._fail), group="asking", exclusive=True)

    async def _ask(self) -> None:
        """Ask for what snapshots do not have, and draw it."""
        self._details = await self._engine.details(self._slot)
        self._series = await self._engine.series(self._slot)
        await self._ask_job()
        self._failure = ""
        self.draw()

    async def _ask_job(self) -> None:
        """Ask for the slot's job, unless it is known."""
        worker = self._state.snapshot.worker(self._slot)
        if worker is not None and worker.job is not None and (self._job is None or self._job.number != worker.job):
            self._job = await held_job(self._engine, self._state, self._slot)

    # What the keys do

    def action_neighbour(self, step: int) -> None:
        """Show the worker `step` places on, and choose it."""
        slots = self._state.slots
        if self._slot not in slots:
            return
        at = slots.index(self._slot) + step
        if 0 <= at < len(slots):
            if self._state.choose(slots[at]):
                self._app.chosen_changed()
            self._turn_to(slots[at])
            self.draw()

    def _turn_to(self, slot: str) -> None:
        """Show `slot` from now on."""
        self._slot = slot
        self._details = self._series = self._job = None
        self._failure = ""
        self.query_one("#body").scroll_home(animate=False)
        self._ask_anew()

    def action_show(self, section: str) -> None:
        """Show a section of `SECTIONS`, from its top."""
        self._section = section
        self.query_one("#body").scroll_home(animate=False)
        self.draw()

    def action_section(self, step: int) -> None:
        """Show the next section, or the one before."""
        self.action_show(SECTIONS[(SECTIONS.index(self._section) + step) % len(SECTIONS)])

    def action_scroll(self, where: str) -> None:
        """Scroll the section: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
        scroll(self.query_one("#body"), where)
