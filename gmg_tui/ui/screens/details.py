"""All there is to know of one worker: charts, attempts, command line and environment, card."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.client import Engine
from gmg_tui.model import Details, Series, Snapshot
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import words
from gmg_tui.ui.renderables.words import Note, Shown
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.screens import sections, tables
from gmg_tui.ui.screens.asking import keep_asking
from gmg_tui.ui.screens.parts import bindings, fit_scrollbar, foot, look_of, scroll
from gmg_tui.ui.screens.sections import Subject
from gmg_tui.ui.screens.sheet import Sheet
from gmg_tui.ui.state import UiState

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

SECTIONS: Final = ("charts", "attempts", "setup", "card")
"""The sections, in the order of their keys."""
_NOTE_ROWS: Final = 5
"""Rows that warnings, reason and advice may take above the section; the section `card` has them in full."""


class DetailsScreen(Screen[None]):
    """Shows one worker; the keys that act on the main screen's chosen worker act on this one.

    Args:
        state: What the interface knows; its chosen worker is changed with the one shown.
        engine: Asked for what snapshots do not have.
        slot: The worker to begin with.
        look: Styles and signs.
    """

    DEFAULT_CSS = """
    DetailsScreen {
        layout: vertical;
        overflow: hidden;
        & > #head { height: 2; }
        & > #body { height: 1fr; }
        & > .foot { height: auto; color: $text-muted; link-style: none; link-style-hover: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(tables.DETAILS),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
    ]

    def __init__(self, state: UiState, engine: Engine, slot: str, look: Look) -> None:
        super().__init__()
        self.look = look
        self._state = state
        self._engine = engine
        self._slot = slot
        self._section = SECTIONS[0]
        self._details: Details | None = None
        self._series: Series | None = None
        self._failure = ""

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
        self.app.theme_changed_signal.subscribe(self, lambda _: self._wear())
        self._ask_anew()

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.draw)

    def on_screen_resume(self) -> None:
        """Catch up with what happened under another screen."""
        self.call_after_refresh(self.draw)

    def show(self, snapshot: Snapshot) -> None:
        """Draw what `snapshot` says; the state has it already."""
        self.draw()

    def draw(self) -> None:
        """Draw all of it."""
        subject = self._subject()
        if subject is None or not self.is_mounted:
            return
        notes = self._notes(subject)
        head, full = self._head(subject, notes)
        with suppress(NoMatches):  # an answer came while the screen is taken down, its widgets first
            rows = self.query_one("#head", Rows)
            rows.styles.height = len(head)
            rows.show_rows(head)
            self._draw_section(subject, [] if full else notes, len(head))

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
        for note in notes:
            sheet.row(f" {look.signs.pointer}", note.text, note.style, label_width=3)
        full = len(sheet.rows) <= _NOTE_ROWS + 1
        if not full:
            del sheet.rows[_NOTE_ROWS:]
            sheet.row("", "all of this is in section 4", "dim", label_width=3)
        return [*sheet.rows, tabs.strip(look.signs.line[0], "border")], full

    # What is asked

    def _ask_anew(self) -> None:
        self.run_worker(keep_asking(self._ask, self._fail), group="asking", exclusive=True)

    async def _ask(self) -> None:
        """Ask for what snapshots do not have, and draw it."""
        self._details = await self._engine.details(self._slot)
        self._series = await self._engine.series(self._slot)
        self._failure = ""
        self.draw()

    def _fail(self, text: str) -> None:
        self._failure = text
        self.draw()

    def _wear(self) -> None:
        self.look = look_of(self.app)
        self.draw()

    # What the keys do

    def action_back(self) -> None:
        """Return to the main screen."""
        self.dismiss(None)

    def action_neighbour(self, step: int) -> None:
        """Show the worker `step` places on, and choose it."""
        slots = self._state.slots
        at = slots.index(self._slot) + step
        if 0 <= at < len(slots):
            self._slot = slots[at]
            self._details = self._series = None
            self._failure = ""
            if self._state.choose(self._slot):
                self._app.chosen_changed()
            self.query_one("#body").scroll_home(animate=False)
            self.draw()
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
