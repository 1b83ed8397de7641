"""The queue of a sweep: how far it is, what each slot does, and all jobs in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip
from textual.widgets import Static

from gmg_tui.client import Engine
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Queue, QueueAction, Snapshot, WorkerState
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables.queue_row import queue_row
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.screens import queue_table, tables
from gmg_tui.ui.screens.cards import CardsScreen
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.details import DetailsScreen
from gmg_tui.ui.screens.page import Page
from gmg_tui.ui.screens.parts import bindings, foot
from gmg_tui.ui.screens.queue_window import QueueWindow, Wanted
from gmg_tui.ui.screens.sheet import Sheet
from gmg_tui.ui.state import UiState

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

_PAGE: Final = 500
"""Jobs that are asked for at once when all that have ended are looked through; an engine gives no more."""
_OVERLAP: Final = 50
"""Jobs that are asked for again with the next of these pages."""
_WITHOUT_LANES: Final = 8
"""Rows that are not the slots', at least; of the others they have a third."""


class QueueScreen(Page):
    """Shows the queue, of which the engine is asked for what is visible, and acts on its jobs.

    Args:
        state: What the interface knows.
        engine: Asked for the jobs, and told what to do with them.
        look: Styles and signs.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(tables.QUEUE)
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "redraw", "command_palette"})
    """The main screen's keys that act here too; no other one may, for its chosen worker cannot be seen."""

    def __init__(self, state: UiState, engine: Engine, look: Look) -> None:
        super().__init__(look)
        self._state = state
        self._engine = engine
        queue = self._queue
        self.window = QueueWindow(queue.jobs, queue.done)
        self._asking = False
        self._scrolled = False
        self._jobs_at = 0

    @property
    def _app(self) -> GmgApp:
        return cast("GmgApp", self.app)

    @property
    def _queue(self) -> Queue:
        return self._state.queue or Queue(0, 0, 0, 0, 0, 0)

    def compose(self) -> ComposeResult:
        """The tables, then the keys."""
        yield Rows()
        yield Static(foot(tables.QUEUE, self.look.signs), markup=False, classes="foot")

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.show, self._state.snapshot)

    def on_screen_resume(self) -> None:
        """Catch up with what happened under another screen."""
        self.call_after_refresh(self.show, self._state.snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Draw what `snapshot` says; the state has it already."""
        self.draw()
        self._ask_if_needed()

    # What is drawn

    def draw(self) -> None:
        """Draw all of it."""
        rows = next(iter(self.query(Rows)), None)
        if rows is None or rows.size.height <= 0:  # it is being taken down, or not laid out yet
            return
        width, height = rows.size
        layout = queue_table.columns(width, self._queue.jobs, tuple(slot.name for slot in self._state.session.slots))
        above = [*self._above(width), *self._lanes(layout, height), queue_table.heading(layout, self.look).strip()]
        self._jobs_at = len(above)
        self.window.rows = height - len(above) - 1
        jobs = self._jobs(layout)
        blank = [Line(self.look, width).strip()] * (self.window.rows - len(jobs))
        place = f"{self.window.at + 1:,} of {self.window.total:,}"
        below = queue_table.detail(self.window.chosen, layout, self.look, place).strip()
        rows.show_rows([*above, *jobs, *blank, below][:height])

    def _above(self, width: int) -> list[Strip]:
        sheet = Sheet(width, self.look).line(queue_row(self._queue, self._state.snapshot.elapsed_s, width, self.look))
        for text in (self._said, self._failure, self._app.main.header.message):
            if text:
                sheet.row(f" {self.look.signs.pointer}", text, "warn", label_width=3)
        return sheet.rows

    def _lanes(self, layout: queue_table.Columns, height: int) -> list[Strip]:
        view = self.window.view
        lanes = view.lanes if view is not None else ()
        room = max(1, (height - _WITHOUT_LANES) // 3)
        workers = {worker.slot: worker for worker in self._state.snapshot.workers}
        shown = lanes if len(lanes) <= room else lanes[: room - 1]
        rows = [queue_table.lane_row(lane, workers.get(lane.slot), layout, self.look).strip() for lane in shown]
        if len(shown) < len(lanes):
            more = f"  {self.look.signs.ellipsis} {len(lanes) - len(shown)} more slots: c shows the cards"
            rows.append(Line(self.look, layout.width).add(more, "dim").strip())
        return rows

    def _jobs(self, layout: queue_table.Columns) -> list[Strip]:
        window = self.window
        workers = {worker.job: worker for worker in self._state.snapshot.workers if worker.job is not None}
        strips = []
        for place in range(window.top, min(window.total, window.top + window.rows)):
            job = window.record(place)
            if job is None:
                line = Line(self.look, layout.width).add(f"  {self.look.signs.ellipsis}", "dim")
            else:
                chosen = place == window.at
                line = queue_table.row(job, workers.get(job.number), layout, self.look, chosen=chosen)
            strips.append(line.strip())
        return strips

    # What is asked

    def _ask_if_needed(self) -> None:
        if self._asking:
            self._scrolled = True
            return
        wanted = self.window.wanted(self._queue.version, self._queue.done)
        if wanted is not None:
            self._asking = True
            self._scrolled = False
            self.run_worker(self._ask(wanted), group="asking")

    async def _ask(self, wanted: Wanted) -> None:
        """Ask for a part of the queue and draw it; once more where the rows have moved on meanwhile."""
        try:
            view = await self._engine.queue(wanted.first, wanted.number)
        except GmgError as error:
            self._failure = str(error)
        else:
            self._failure = ""
            self.window.take(view)
        finally:
            self._asking = False
        self.draw()
        if self._scrolled and not self._failure:
            self._ask_if_needed()

    # What the keys do

    def action_move(self, step: int) -> None:
        """Choose the job `step` rows further down."""
        self._choose(self.window.at + step)

    def action_page(self, step: int) -> None:
        """Choose a job a page further down, or up when -1."""
        self._choose(self.window.at + step * max(1, self.window.rows - 1))

    def action_edge(self, last: bool) -> None:
        """Choose the first job, or the last."""
        self._choose(self.window.total - 1 if last else 0)

    def _choose(self, place: int) -> None:
        self._said = ""
        self.window.choose(place)
        self.draw()
        self._ask_if_needed()

    def action_follow(self) -> None:
        """Go to the first job that runs, and stay with those that run."""
        self._said = ""
        self.window.follow(self._queue.done)
        self.draw()
        self._ask_if_needed()

    def on_click(self, event: events.Click) -> None:
        """Choose the job under the mouse."""
        row = event.screen_y - self._jobs_at
        if 0 <= row < min(self.window.rows, self.window.total - self.window.top):
            self._choose(self.window.top + row)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Choose a job three rows up."""
        event.stop()
        self.action_move(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Choose a job three rows down."""
        event.stop()
        self.action_move(3)

    def action_shift(self, where: str) -> None:
        """Move the chosen job `up` or `down` by a place, or to the `top`."""
        job = self._chosen()
        if job is not None:
            head = self._queue.done + self._queue.running if where == QueueAction.TOP else None
            self.run_worker(self._told(QueueAction(where), job.number, place=head), group="acting")

    def action_skip(self) -> None:
        """Do not run the chosen job, or stop it."""
        job = self._chosen()
        if job is not None:
            self.run_worker(self._skip(job), group="acting")

    async def _skip(self, job: JobRecord) -> None:
        name = f"job {job.number} ({job.name})"
        waits = job.state is WorkerState.WAITING
        runs = not waits and not job.state.ended
        if runs and not await self.app.push_screen_wait(ConfirmScreen(f"Stop {name}, which is running?")):
            return
        if await self._told(QueueAction.SKIP, job.number):
            chosen = self.window.chosen
            if waits and chosen is not None and chosen.number == job.number:
                self.window.leave()  # it goes to those that have ended; the next one may be skipped too
            done = "is skipped" if waits else "is being stopped"
            self._say(f"{name} {done}; r on it runs it again")

    def action_retry(self) -> None:
        """Run the chosen job again."""
        job = self._chosen()
        if job is not None:
            self.run_worker(self._told(QueueAction.RETRY, job.number), group="acting")

    def action_retry_failed(self) -> None:
        """Run all jobs again that have failed."""
        if self._queue.failed:
            self.run_worker(self._retry_failed(), group="acting")
        else:
            self._say("R: no job has failed")

    async def _retry_failed(self) -> None:
        try:
            numbers = await self._failed()
        except GmgError as error:
            self._say(str(error))
            return
        # Each becomes the next one in its turn: the last that is named will run first.
        if numbers and await self._told(QueueAction.RETRY, *reversed(numbers)):
            self._say("1 failed job waits again" if len(numbers) == 1 else f"{len(numbers):,} failed jobs wait again")

    async def _failed(self) -> list[int]:
        """The numbers of all jobs that have failed: they stand among those that have ended, at the queue's beginning.

        Others may retry some of them between two pages, and so move the rest up: the pages overlap.
        """
        found: dict[int, None] = {}
        first = 0
        while True:
            view = await self._engine.queue(first, _PAGE)
            found.update({job.number: None for job in view.jobs if job.state is WorkerState.FAILED})
            end = view.first + len(view.jobs)
            if len(view.jobs) <= _OVERLAP or end >= view.total or not view.jobs[-1].state.ended:
                return list(found)
            first = end - _OVERLAP

    def action_details(self) -> None:
        """Show the details of the chosen job's slot, if the job runs."""
        job = self._chosen()
        if job is None:
            return
        slot = next((one.slot for one in self._state.snapshot.workers if one.job == job.number), None)
        if slot is None or job.state is WorkerState.WAITING:
            log = f"; its log: {job.log}" if job.log else ""
            self._say(f"job {job.number} ({job.name}) has no slot now{log}")
            return
        if self._state.choose(slot):
            self._app.chosen_changed()
        self.app.push_screen(DetailsScreen(self._state, self._engine, slot, self.look))

    def action_cards(self) -> None:
        """Choose the cards that jobs may start on."""
        self.app.push_screen(CardsScreen(self._state, self._engine))

    def _chosen(self) -> JobRecord | None:
        """The job that a key acts on, which stays chosen."""
        job = self.window.chosen
        self._said = ""
        if job is not None:
            self.window.choose(self.window.at)
        return job

    async def _told(self, action: QueueAction, *numbers: int, place: int | None = None) -> bool:
        """Tell the engine, and say why it refuses.

        Args:
            action: What to do.
            numbers: To which jobs.
            place: Where the job goes, if that is far from where it is.

        Returns:
            Whether the engine did it.
        """
        try:
            await self._engine.act_on_jobs(action, *numbers)
        except GmgError as error:
            self._say(str(error))
            return False
        self.window.forget()
        if place is not None:
            self.window.expect(numbers[0], place)
        self.draw()
        self._ask_if_needed()
        return True
