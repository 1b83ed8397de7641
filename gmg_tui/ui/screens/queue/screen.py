"""The queue of a sweep: its progress, what each slot does, and all jobs in order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Final

from textual import events, work
from textual.binding import BindingType
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Queue, QueueAction, WorkerState
from gmg_tui.source import Source
from gmg_tui.ui import keys
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.queue_row import queue_row
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.time_row import time_rows
from gmg_tui.ui.messages import SelectionChanged
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.details.screen import DetailsScreen
from gmg_tui.ui.screens.dialog_base import bindings
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.queue import table
from gmg_tui.ui.screens.queue.gpus import GpusScreen
from gmg_tui.ui.screens.queue.window import QueueWindow
from gmg_tui.ui.state import UiState

_PAGE: Final = 500
"""Jobs per query when all ended ones are searched; an engine returns no more."""
_OVERLAP: Final = 50
"""Jobs that two of these queries have in common."""
_WITHOUT_LANES: Final = 8
"""Rows that the slots always leave free; they get a third of the rest."""


class QueueScreen(PageScreen):
    """Shows the queue, querying the engine for the visible part, and acts on its jobs."""

    KEYS = keys.QUEUE
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.QUEUE)
    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help", "command_palette"})
    """No other key of the main screen may act here, because the worker it would act on cannot be seen."""

    def __init__(self, state: UiState, engine: Source, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._state = state
        self._engine = engine
        self.window = QueueWindow(self._queue.jobs, self._queue.done)
        self._asking = False
        self._scrolled = False
        self._jobs_at = 0
        self._lane_jobs: dict[int, int] = {}
        """The number of the job of each slot, by its row."""
        self._several = False
        """Whether a job that has been shown takes several slots."""

    @property
    def _queue(self) -> Queue:
        return self._state.queue or Queue(0, 0, 0, 0, 0, 0)

    def show_state(self) -> None:
        """Draw what the state says now, and ask for the jobs that it may have moved into view."""
        self.draw()
        self._ask_if_needed()

    # Drawing

    def draw(self) -> None:
        """Draw all of it."""
        width, height = self.rows.size
        if height <= 0:  # not laid out yet
            return
        slots = tuple(slot.name for slot in self._state.session.slots)
        layout = table.columns(width, self._queue.jobs, slots, several=self._several)
        above = self._above(width)
        above += [*self._lanes(layout, height, len(above)), table.heading(layout, self.appearance).strip()]
        self._jobs_at = len(above)
        self.window.fit(height - len(above) - 1)
        jobs = self._jobs(layout)
        blank = [Row(self.appearance, width).strip()] * (self.window.rows - len(jobs))
        position = f"{self.window.at + 1:,} of {self.window.total:,}"
        below = table.detail(self.window.chosen, layout, self.appearance, position).strip()
        self.rows.show_rows([*above, *jobs, *blank, below][:height])

    def _above(self, width: int) -> list[Strip]:
        progress = queue_row(self._queue, self._state.snapshot.elapsed_s, width, self.appearance)
        page = Page(width, self.appearance).line(progress)
        page.rows += time_rows(self._state, width, self.appearance)
        for text in (self._said, self._failure, self._state.message):
            if text:
                page.row(f" {self.appearance.signs.pointer}", text, "warn", label_width=3)
        return page.rows

    def _lanes(self, layout: table.Columns, height: int, above: int) -> list[Strip]:
        view = self.window.view
        lanes = view.lanes if view is not None else ()
        room = max(1, (height - _WITHOUT_LANES) // 3)
        workers = {worker.slot: worker for worker in self._state.snapshot.workers}
        shown = lanes if len(lanes) <= room else lanes[: room - 1]
        self._lane_jobs = {above + row: lane.job for row, lane in enumerate(shown) if lane.job is not None}
        rows = [table.lane_row(lane, workers.get(lane.slot), layout, self.appearance).strip() for lane in shown]
        if len(shown) < len(lanes):
            more = f"  {self.appearance.signs.ellipsis} {len(lanes) - len(shown)} more slots; c lists the GPUs"
            rows.append(Row(self.appearance, layout.width).add(more, "dim").strip())
        return rows

    def _jobs(self, layout: table.Columns) -> list[Strip]:
        window = self.window
        snapshot = self._state.snapshot
        # Of a job with several workers, the first one speaks for it.
        workers = {worker.job: worker for worker in reversed(snapshot.workers) if worker.job is not None}
        rates = {group.job: group.fps for group in snapshot.groups}
        strips = []
        for position in range(window.top, min(window.total, window.top + window.rows)):
            job = window.record(position)
            if job is None:
                line = Row(self.appearance, layout.width).add(f"  {self.appearance.signs.ellipsis}", "dim")
            else:
                chosen = position == window.at
                worker = workers.get(job.number)
                whole = rates.get(job.number)
                line = table.row(job, worker, layout, self.appearance, chosen=chosen, group_fps=whole)
            strips.append(line.strip())
        return strips

    # Queries

    def _ask_if_needed(self) -> None:
        if self._asking:
            self._scrolled = True
            return
        wanted = self.window.wanted(self._queue.version, self._queue.done)
        if wanted is not None:
            self._asking = True
            self._scrolled = False
            self.run_worker(self._ask(*wanted), group="asking")

    async def _ask(self, first: int, number: int) -> None:
        """Ask for a part of the queue and draw it; ask again if the view has moved meanwhile."""
        try:
            view = await self._engine.queue(first, number)
        except GmgError as error:
            self._failure = str(error)
        else:
            self._failure = ""
            self.window.take(view)
            self._several |= any(job.gpus > 1 for job in view.jobs)
        finally:
            self._asking = False
        self.draw()
        if self._scrolled and not self._failure:
            self._ask_if_needed()

    # Keys

    def action_move(self, step: int) -> None:
        """Select the job `step` rows further down."""
        self._choose(self.window.at + step)

    def action_page(self, step: int) -> None:
        """Select the job a page further down, or up when `step` is -1."""
        self._choose(self.window.at + step * max(1, self.window.rows - 1))

    def action_edge(self, last: bool) -> None:
        """Select the first job, or the last."""
        self._choose(self.window.total - 1 if last else 0)

    def _choose(self, position: int, *, follow: bool = False) -> None:
        self._said = ""
        self.window.choose(position, follow=follow)
        self.show_state()

    def action_follow(self) -> None:
        """Select the first running job, and keep following the running ones."""
        self._choose(self._queue.done, follow=True)

    async def on_click(self, event: events.Click) -> None:
        """Select the job under the mouse, also that of a slot; a double click shows its details."""
        row = event.screen_y - self._jobs_at
        if 0 <= row < min(self.window.rows, self.window.total - self.window.top):
            self._choose(self.window.top + row)
        elif event.screen_y not in self._lane_jobs or not self._choose_number(self._lane_jobs[event.screen_y]):
            return
        if event.chain == 2:
            await self.app.run_action("details", self)

    def _choose_number(self, number: int) -> bool:
        """Select the job of that number; whether it is among those that are known."""
        view = self.window.view
        known = enumerate(view.jobs, view.first) if view is not None else ()
        position = next((place for place, job in known if job.number == number), None)
        if position is not None:
            self._choose(position)
        return position is not None

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the job three rows up."""
        event.stop()
        self.action_move(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select the job three rows down."""
        event.stop()
        self.action_move(3)

    def _act(self, doing: Callable[[JobRecord], Coroutine[Any, Any, object]]) -> None:
        """Do something to the job that is selected now."""
        job = self._chosen()
        if job is not None:
            self.run_worker(doing(job), group="acting")

    def action_shift(self, where: str) -> None:
        """Move the selected job `up` or `down` by a position, or to the `top`."""
        head = self._queue.done + self._queue.running if where == QueueAction.TOP else None
        self._act(lambda job: self._told(QueueAction(where), job.number, position=head))

    async def action_skip(self) -> None:
        """Skip the selected job, or stop it if it is running."""
        job = self._chosen()
        if job is None:
            return
        if job.state is WorkerState.WAITING or job.state.ended:
            self._skip_if(job, True)
        else:
            question = f"Stop job {job.number} ({job.name}), which is running?"
            # Awaited, so that another key that follows at once does not ask again.
            await self.app.push_screen(ConfirmScreen(question), partial(self._skip_if, job))

    def _skip_if(self, job: JobRecord, sure: bool | None) -> None:
        if sure:
            self.run_worker(self._skip(job), group="acting")

    async def _skip(self, job: JobRecord) -> None:
        waits = job.state is WorkerState.WAITING
        if await self._told(QueueAction.SKIP, job.number):
            chosen = self.window.chosen
            if waits and chosen is not None and chosen.number == job.number:
                self.window.leave()  # it joins the ended ones; the next one may be skipped too
            done = "is skipped" if waits else "is being stopped"
            self._say(f"Job {job.number} ({job.name}) {done}; {keys.now('r', 'in-queue')} on it runs it again.")

    def action_retry(self) -> None:
        """Run the selected job again."""
        self._act(lambda job: self._told(QueueAction.RETRY, job.number))

    @work(group="acting")
    async def action_retry_failed(self) -> None:
        """Run all failed jobs again."""
        if not self._queue.failed:
            self._say("R: no job has failed.")
            return
        try:
            numbers = await self._failed()
        except GmgError as error:
            self._say(str(error))
            return
        # Each in turn moves to the head of the queue: the last one named will run first.
        if numbers and await self._told(QueueAction.RETRY, *reversed(numbers)):
            self._say(f"Queued {units.count(len(numbers), 'failed job')} again.")

    async def _failed(self) -> list[int]:
        """The numbers of all failed jobs, which are among the ended ones at the beginning of the queue.

        Another client may retry some between two queries and so move the rest up; hence the pages overlap.
        """
        found: dict[int, None] = {}
        first = 0
        while True:
            view = await self._engine.queue(first, _PAGE)
            found.update({job.number: None for job in view.jobs if job.state is WorkerState.FAILED})
            end = view.first + len(view.jobs)
            if not view.jobs or end >= view.total or not view.jobs[-1].state.ended:
                return list(found)
            first = max(first + 1, end - _OVERLAP)

    async def action_details(self) -> None:
        """Show the details of the selected job's slot, if the job is running."""
        job = self._chosen()
        if job is None:
            return
        slot = next((one.slot for one in self._state.snapshot.workers if one.job == job.number), None)
        if slot is None or job.state is WorkerState.WAITING:
            log = f" Log: {job.log}" if job.log else ""
            self._say(f"Job {job.number} ({job.name}) has no slot now.{log}")
            return
        if self._state.choose(slot):
            self.post_message(SelectionChanged())
        await self.app.push_screen(DetailsScreen(self._state, self._engine, slot, self.appearance))

    def _chosen(self) -> JobRecord | None:
        """The job that a key acts on, which stays selected."""
        job = self.window.chosen
        self._said = ""
        if job is not None:
            self.window.choose(self.window.at)
        return job

    async def action_gpus(self) -> None:
        """Choose the GPUs that jobs may start on."""
        await self.app.push_screen(GpusScreen(self._state, self._engine))

    async def _told(self, action: QueueAction, *numbers: int, position: int | None = None) -> bool:
        """Tell the engine what to do with jobs; whether it accepted, and if not, show why.

        `position` is the next one of the first job, if that is far from where it is.
        """
        try:
            await self._engine.act_on_jobs(action, *numbers)
        except GmgError as error:
            self._say(str(error))
            return False
        self.window.forget()
        if position is not None:
            self.window.expect(numbers[0], position)
        self.show_state()
        return True
