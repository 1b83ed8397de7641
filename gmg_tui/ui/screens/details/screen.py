"""Everything about one worker: charts, attempts, command line and environment, GPU."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Details, JobRecord, Series, Worker
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.time_row import time_rows
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.keys import Key
from gmg_tui.ui.messages import SelectionChanged
from gmg_tui.ui.screens.details import sections
from gmg_tui.ui.screens.details.command import CommandScreen, shell_line
from gmg_tui.ui.screens.details.sections import Log, Subject
from gmg_tui.ui.screens.details.window import Life, Window
from gmg_tui.ui.screens.dialog_base import bindings, fit_scrollbar, scroll
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.queries import log_path, slot_job
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.row_view import RowView

SECTIONS: Final = ("charts", "attempts", "setup", "GPU")
"""The sections, in the order of their keys."""
_OWN_KEYS: Final = {"attempts": "use_again", "setup": "command"}
"""Actions of the keys that the foot has in these sections only."""
_STEPS: Final = {"up": -1, "down": 1}
_NOTE_ROWS: Final = 5
"""Rows that warnings, reason and advice may take above the section; the section `GPU` has them in full."""


class DetailsScreen(PageScreen):
    """Shows one worker, which is also the one selected on the main screen, so that its keys act on it here too."""

    DEFAULT_CSS = """
    DetailsScreen {
        & > RowView { height: 2; }
        & > #body { height: 1fr; }
    }
    """
    KEYS = keys.DETAILS
    ACTING = keys.ACTING
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.DETAILS)

    def __init__(self, state: UiState, engine: Source, slot: str, appearance: Appearance) -> None:
        self._section = SECTIONS[0]
        super().__init__(appearance)
        self._state = state
        self._engine = engine
        self._slot = slot
        self._section_rows = RowView()
        self._body = VerticalScroll(id="body", can_focus=False)
        """Kept, as answers of the engine may still come when the screen is being taken away with all that is on it."""
        self._attempt: int | None = None
        """The number of the attempt that is selected; None for the newest."""
        self._attempt_rows: dict[int, range] = {}
        """The rows of the section that each attempt has, by number."""
        self._tabs: dict[str, range] = {}
        """The cells of each section's name, in the last row of the head."""
        self._details: Details | None = None
        self._series: Series | None = None
        self._life: Life | None = None
        self._window = Window()
        self._job: JobRecord | None = None

    def compose(self) -> ComposeResult:
        """Head, section, keys."""
        yield self.rows
        with self._body:
            yield self._section_rows
        yield self.footer

    def on_mount(self) -> None:
        """Start querying the engine."""
        fit_scrollbar(self._body)
        self.keep_asking()

    def shown_keys(self) -> list[Key]:
        """The keys of the footer, in some sections with one of their own behind those that act on the worker."""
        own = _OWN_KEYS.get(self._section)
        shown = [key for key in super().shown_keys() if key.action not in _OWN_KEYS.values()]
        at = len(self.ACTING)
        return [*shown[:at], *(key for key in self.KEYS if key.action == own), *shown[at:]]

    def show_state(self) -> None:
        """Draw what the state says now. In a sweep the slot may be gone: then the selected one is shown."""
        if self._slot not in self._state.slots and self._state.chosen:
            self._turn_to(self._state.chosen)
        worker = self._state.snapshot.worker(self._slot)
        if self._job is not None and worker is not None and worker.job is not None and not self._known_job(worker):
            self._job = None  # the slot has another job now
            self.keep_asking()
        self.draw()

    def draw(self) -> None:
        """Draw all of it."""
        subject = self._subject()
        if not self.is_mounted:
            return
        if subject is None:  # the slot is gone, and there is no other
            line = Row(self.appearance, self.size.width).add(f" {self._slot} is not in use any more", "warn")
            self.rows.show_rows([line.strip()])
            self._section_rows.show_rows([])
            return
        notes = self._notes(subject)
        head, full = self._head(subject, notes)
        self.rows.styles.height = len(head)
        self.rows.show_rows(head)
        self._draw_section(subject, [] if full else notes, len(head))

    def _draw_section(self, subject: Subject, notes: list[Note], above: int) -> None:
        width = self.size.width
        beside_bar = width - self._body.styles.scrollbar_size_vertical
        match self._section:
            case "attempts":
                selected = self._selected_attempt()
                rows, self._attempt_rows = sections.attempts(subject, beside_bar, self.appearance, selected)
            case "setup":
                rows = sections.setup(subject, self._log(subject.worker), beside_bar, self.appearance)
            case "GPU":
                rows = sections.gpu(subject, notes, beside_bar, self.appearance)
            case _:
                room = self.size.height - above - 1
                rows = sections.charts(subject, width, room, self.appearance)
        self._section_rows.styles.height = len(rows)
        self._section_rows.show_rows(rows)

    def _subject(self) -> Subject | None:
        slot, worker = self._state.slot(self._slot), self._state.snapshot.worker(self._slot)
        if slot is None or worker is None:
            return None
        sample = self._state.sample(self._slot)
        time, life, window = self._state.snapshot.time, self._life, self._window
        return Subject(slot, worker, sample, time, self._details, self._series, life, window)

    def _log(self, worker: Worker) -> Log | None:
        """Where all that the worker has printed is; None while the job of its slot is not known."""
        name, job = self._state.session.spec.name, self._known_job(worker)
        path = log_path(self._state, self._slot, job)
        return None if path is None else Log(path, f"gmg-tui logs {name} {self._slot if job is None else job.number}")

    def _notes(self, subject: Subject) -> list[Note]:
        """What to know first: why the last key failed, then what is wrong with the worker."""
        said = [Note(text, "warn") for text in dict.fromkeys((self._state.message, self._failure)) if text]
        return said + words.trouble(subject.worker, subject.sample)

    def _head(self, subject: Subject, notes: list[Note]) -> tuple[list[Strip], bool]:
        """The rows above the section, and whether all notes are in them."""
        worker, appearance, width = subject.worker, self.appearance, self.size.width
        at = self._state.slots.index(self._slot) + 1
        line = Row(appearance, width).end(f" {at} of {len(self._state.slots)} ", "dim")
        line.add(f" {self._slot}", "title").add(f" {appearance.signs.dot} {words.gpu_name(subject.slot)}  ", "text")
        line.add(f"{words.sign_of(worker, appearance)} {words.state_of(worker)} ", words.style_of(worker))
        line.add(f"{units.span(worker.state_s)}  ", "text")
        line.add(f"attempt {worker.attempt}" + (f"  PID {worker.pid}" if worker.pid else ""), "dim")
        tabs = Row(appearance, width).add(appearance.signs.line[0] * 2, "border")
        for number, name in enumerate(SECTIONS, 1):
            chosen, key = name == self._section, keys.now(f"{number}", "in-details")
            self._tabs[name] = range(tabs.width - tabs.room, tabs.width - tabs.room + len(f" {key} {name} "))
            tabs.add(f"[{key} {name}]" if chosen else f" {key} {name} ", "key" if chosen else "dim")
        page = Page(width, appearance).line(line)
        if worker.job is not None:
            page.line(self._job_line(worker))
        for note in notes:
            page.row(f" {appearance.signs.pointer}", note.text, note.style, label_width=3)
        full = len(page.rows) <= _NOTE_ROWS + 1 + (worker.job is not None)
        if not full:
            del page.rows[_NOTE_ROWS:]
            page.row("", "see section 4 for all of this", "dim", label_width=3)
        first, *rest = page.rows
        past = time_rows(self._state, width, appearance)
        return [first, *past, *rest, tabs.strip(appearance.signs.line[0], "border")], full

    def _job_line(self, worker: Worker) -> Row:
        """The job, its values as far as they are known, and the time it has left."""
        left = words.timeout_of(worker)
        line = Row(self.appearance, self.size.width).end(f" {left} " if left else "", "text")
        line.add(f" job {words.job_of(worker)}", "strong")
        job = self._known_job(worker)
        return line.add(f"  {words.unnamed_values_of(job)}", "text") if job is not None else line

    def tell(self, text: str) -> None:
        """Show why a key did nothing, as the main screen does."""
        self._state.message = text
        self.draw()

    # Queries

    async def ask(self) -> None:
        """Ask for details, time series and job, and draw them."""
        self._details = await self._engine.details(self._slot)
        self._failure = ""
        await self._ask_series()
        if self._known_job(self._state.snapshot.worker(self._slot)) is None:
            self._job = await slot_job(self._engine, self._state, self._slot)
        self.draw()

    async def _ask_series(self) -> None:
        """Ask for the whole life, and where a part of it is shown, for that in finer steps."""
        slot, window = self._slot, self._window
        series = await self._engine.series(slot)
        life = Life.of(series)
        if window.span_s is not None:
            series = await self._engine.series(slot, window.within(life)[0])
        if (slot, window) == (self._slot, self._window):
            self._series, self._life = series, life

    def _known_job(self, worker: Worker | None) -> JobRecord | None:
        """The worker's job; None where it has none, or the engine has not been asked for it yet."""
        return self._job if self._job is not None and worker is not None and worker.job == self._job.number else None

    # Keys

    def action_neighbour(self, step: int) -> None:
        """Show and select the worker `step` slots on."""
        slots = self._state.slots
        if self._slot not in slots:
            return
        at = slots.index(self._slot) + step
        if 0 <= at < len(slots):
            if self._state.choose(slots[at]):
                self.post_message(SelectionChanged())
            self._turn_to(slots[at])
            self.draw()

    def _turn_to(self, slot: str) -> None:
        """Show `slot` from now on."""
        self._slot = slot
        self._details = self._series = self._job = self._attempt = self._life = None
        self._window = Window()
        self._failure = ""
        self._body.scroll_home(animate=False)
        self.keep_asking()

    def action_show(self, section: str) -> None:
        """Show a section of `SECTIONS`, from its top."""
        self._section = section
        self.footer.offer(self.shown_keys())
        self._body.scroll_home(animate=False)
        self.draw()

    def action_zoom(self, factor: float) -> None:
        """Show `factor` times as much of the worker's life in the charts; all of it with 0."""
        if factor == 0:
            self._look_at(Window())
        elif self._life is not None:
            self._look_at(self._window.zoomed(self._life, factor))

    def action_pan(self, share: float) -> None:
        """Move the charts by a share of what they show: back in time when it is negative."""
        if self._life is not None:
            self._look_at(self._window.moved(self._life, share))

    def _look_at(self, window: Window) -> None:
        if self._section == SECTIONS[0] and window != self._window:
            self._window = window
            self.draw()
            self.keep_asking()

    def action_section(self, step: int) -> None:
        """Show the next section, or the previous one."""
        self.action_show(SECTIONS[(SECTIONS.index(self._section) + step) % len(SECTIONS)])

    def action_scroll(self, where: str) -> None:
        """Scroll the section: `up`, `down`, `page_up`, `page_down`, `home` or `end`; by attempts where they are."""
        if self._section == "attempts" and where in _STEPS:
            self._select_attempt(_STEPS[where])
        else:
            scroll(self._body, where)

    def _selected_attempt(self) -> int | None:
        """The number of the selected attempt: the newest, unless another was selected; None where there is none."""
        numbers = [attempt.number for attempt in self._details.attempts] if self._details is not None else []
        return self._attempt if self._attempt in numbers else next(reversed(numbers), None)

    def _select_attempt(self, step: int) -> None:
        """Select the attempt `step` places further down in the list, whose first is the newest, and show it.

        From the first one on it goes up to what is above the list.
        """
        numbers = [attempt.number for attempt in self._details.attempts] if self._details is not None else []
        selected, body = self._selected_attempt(), self._body
        place = numbers.index(selected) - step if selected is not None else 0
        if selected is None or place >= len(numbers):
            scroll(body, "up" if step < 0 else "down")
            return
        self._attempt = numbers[max(0, place)]
        self.draw()
        rows = self._attempt_rows.get(self._attempt, range(0))
        body.scroll_to_region(Region(0, rows.start, 1, len(rows)), animate=False, force=True)

    def on_click(self, event: events.Click) -> None:
        """Show the section whose name is under the mouse, or select the attempt."""
        head, row = self.rows.size.height, event.screen_y
        if row == head - 1:
            section = next((name for name, cells in self._tabs.items() if event.screen_x in cells), None)
            if section is not None:
                self.action_show(section)
        elif head <= row < head + self._body.size.height and self._section == "attempts":
            place = row - head + self._body.scroll_offset.y
            self._attempt = next(
                (number for number, rows in self._attempt_rows.items() if place in rows), self._attempt
            )
            self.draw()

    async def action_use_again(self) -> None:
        """Edit with the settings of the selected attempt; in another section, show the attempts first."""
        selected = self._selected_attempt()
        if self._section != "attempts":
            self.action_show("attempts")
        elif selected is not None:
            await self.app.run_action(f"app.edit({selected})")

    async def action_command(self) -> None:
        """Show the command line, once an attempt has begun."""
        if self._details is not None and (line := shell_line(self._details)):
            await self.app.push_screen(CommandScreen(self._slot, line))
