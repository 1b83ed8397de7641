"""The page of a sweep's queue, and the base class that it shares with the page of a tuning run."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec import structs
from textual.binding import Binding, BindingType

from gmg_tui.model import Fps, JobRecord, Queue, QueueAction, Worker, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import SKIPPED
from gmg_tui.results import job_columns
from gmg_tui.results.column import Column
from gmg_tui.results.report import best_job, sort_jobs
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import Piece
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.header import queue_progress
from gmg_tui.ui.pages.page import LogPage, TablePage
from gmg_tui.ui.table import Table

T = TypeVar("T")
JOBS_PER_QUERY: Final = 500
"""Maximum jobs per query, set by the engine."""


class SelectedJob(NamedTuple):
    """The selected job or trial."""

    number: int
    name: str
    """The name for messages: `job 13 (wide)`."""
    running: bool
    ended: bool
    slot: str | None
    """The slot with the job's worker; None while the job is waiting, and once the worker is gone."""


class JobsPage(TablePage[T], Generic[T]):
    """A table of jobs or trials, which can be skipped or stopped; the cursor follows the running one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "details",
            "Details",
            id="details",
            tooltip="Show the job's worker, or the job's log if it no longer has a worker.",
        ),
        Binding("x", "skip", "Skip or stop", id="stop", tooltip="Skip the selected job, or stop it if it is running."),
        Binding("f", "follow", "Follow", id="follow", tooltip="Keep the running job selected.", show=False),
    ]
    OPENED_BY = "queue"
    ENTER = "details"

    def on_mount(self) -> None:
        """Starts watching for snapshots."""
        self.set_focus(self.table)
        self.watch(self.app, "snapshot", self.update_snapshot)

    def update_snapshot(self) -> None:
        """Shows the newest snapshot."""
        raise NotImplementedError

    def selected_job(self) -> SelectedJob | None:
        """Returns the selected job; None if the table is empty."""
        raise NotImplementedError

    def has_effect(self, action: str) -> bool:
        """Returns False for `skip` unless the selected job can be skipped or stopped."""
        job = self.selected_job()
        return action != "skip" or (job is not None and not job.ended)

    def action_follow(self) -> None:
        """Keeps the cursor on the running job until the user moves it."""
        self.table.follow()

    async def action_details(self) -> None:
        """Enlarges the pane of the job's worker; without a worker, opens the job's log."""
        job = self.selected_job()
        if job is not None and job.slot is not None:
            self.dismiss(None)
            self.app.select(job.slot, maximize=True)
        elif job is not None and (path := self.app.job_log_path(job.number)) is not None:
            await self.app.push_screen(LogPage(job.name, path))
        elif job is not None:
            self.app.say("The job has no log: it has written nothing.")

    async def action_skip(self) -> None:
        """Skips the selected job or, if it is running, stops it after confirmation."""
        job = self.selected_job()
        if job is not None and job.ended:
            self.app.say(f"{job.name[:1].upper()}{job.name[1:]} has ended.")
        elif job is not None and job.running:
            await self.app.ask(f"Stop {job.name}, which is running?", partial(self.act, QueueAction.STOP, job.number))
        elif job is not None:
            self.act(QueueAction.SKIP, job.number)

    def act(self, action: QueueAction, *numbers: int) -> None:
        """Asks the engine to apply an action to the jobs with these numbers."""
        self.app.request(partial(self.app.engine.act_on_jobs, action, *numbers))


# Jobs


def _with_live_figures(job: JobRecord, worker: Worker, group_fps: float | None, time: float) -> JobRecord:
    """Returns the job with its worker's figures; for a group, those of the first worker and the rate of all ranks."""
    fps, newest, attempt_s = worker.fps, worker.newest, worker.attempt_s(time)
    rate = group_fps if job.world_size is not None else fps.settled if fps is not None else None
    live_fps = Fps(None, rate, None, 0)
    return structs.replace(
        job,
        state=worker.state,
        slot=worker.slot,
        last=structs.replace(newest, number=worker.attempt or job.last.number, args=(), fps=live_fps),
        elapsed_s=job.elapsed_s if attempt_s is None else max(attempt_s, job.elapsed_s or 0.0),
    )


def _state_text(job: JobRecord) -> str:
    return SKIPPED if job.state is WorkerState.STOPPED and job.reason == SKIPPED else job.state.value


def _columns(jobs: Sequence[JobRecord], best_column: Column[JobRecord] | None) -> list[Column[JobRecord]]:
    """Returns the columns of jobs: number, name, `best_column`, then the others by priority."""
    number, name, *others = (
        replace(column, value=_state_text) if column.name == "state" else column for column in job_columns.columns(jobs)
    )
    best = [column for column in others if best_column is not None and column.name == best_column.name]
    others.sort(key=lambda column: -column.priority)
    return [number, name, *best, *(column for column in others if column not in best)]


class QueuePage(JobsPage[JobRecord]):
    """The queue of a sweep, whose jobs can be retried, skipped and stopped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", "Retry", id="restart", tooltip="Run the selected job again.")
    ]
    PALETTE = (("Retry failed jobs", "Run all failed jobs again, in order.", "retry_failed"),)
    POLL_INTERVAL_S = 0.25

    def __init__(self) -> None:
        super().__init__(
            Table(
                (),
                key=lambda job: str(job.number),
                style=lambda job: worker_text.STATE_STYLES[job.state],
                follow=lambda jobs: next((job for job in jobs if not job.state.ended), jobs[-1] if jobs else None),
            ),
        )
        self._records: dict[int, JobRecord] = {}
        self._queue_version = -1
        """Version of the queue at the last query; -1 before the first."""
        self._result_names: set[str] = set()
        """Names of the results that have columns, and an empty name; an empty set if the columns must be set again."""
        self._live_numbers: set[int] = set()
        """Numbers of the jobs shown with their workers' figures."""
        self._best_text = ""

    # The jobs

    def on_mount(self) -> None:
        """Starts watching for snapshots and polling the jobs."""
        super().on_mount()
        self.poll()

    async def fetch(self) -> None:
        """Queries all jobs if the queue has changed."""
        queue = self.app.view.queue
        if queue is None or queue.version == self._queue_version:
            return
        await asyncio.sleep(self.POLL_INTERVAL_S * (len(self._records) // JOBS_PER_QUERY))  # poll long queues slowly
        batches = [await self.app.engine.queue(first, JOBS_PER_QUERY) for first in range(0, queue.jobs, JOBS_PER_QUERY)]
        self._queue_version = queue.version
        self._records = {job.number: job for batch in batches for job in batch}  # a moved job may be in two batches
        self._result_names.clear()
        self.update_snapshot()

    def _set_columns(self, jobs: Sequence[JobRecord]) -> None:
        """Sets the columns for these jobs, and finds the best job by the sweep's metric."""
        sweep, column, self._best_text = self.app.view.session.spec.sweep, None, ""
        with suppress(GmgError):  # no job has reported the metric yet
            ranked, column, _ = sort_jobs(jobs, sweep.best if sweep is not None else None)
            if column is not None and (best := best_job(ranked, column)) is not None:
                self._best_text = f"best: #{best.number} {best.name}, {column.heading} {column.text(best)}"
        self.table.set_columns(_columns(jobs, column))

    def update_snapshot(self) -> None:
        """Updates the jobs with live workers, and those whose workers have just ended."""
        snapshot, records = self.app.view.snapshot, self._records
        # The first worker of a job represents it.
        workers = {worker.job: worker for worker in reversed(snapshot.workers) if not worker.state.ended}
        groups = {group.job: group.fps for group in snapshot.groups}
        live = {
            number: _with_live_figures(job, worker, groups.get(number), snapshot.time)
            for number, worker in workers.items()
            if number is not None and (job := records.get(number)) is not None
        }
        self.table.empty = "" if self.failure else "Waiting for the engine"
        names = {"", *job_columns.result_names(live.values())}
        if names <= self._result_names:
            self.table.replace([*(records[number] for number in self._live_numbers - live.keys()), *live.values()])
            self.listing.on_table_moved()
        else:
            rows = list((records | live).values())
            self._result_names |= {*names, *job_columns.result_names(rows)}
            self._set_columns(rows)
            self.listing.show(rows, self.table.empty)
        self._live_numbers = set(live)
        self.redraw_bars()

    def title_pieces(self) -> list[Piece]:
        """Returns the queue's progress, the best job and, once the queue has ended, the command for the results."""
        queue = self.app.view.queue or Queue(0, 0, 0, 0, 0, 0)
        pieces = [(f"{self.app.view.session.spec.name}  ", "title")]
        pieces += queue_progress(queue, self.app.view.snapshot.elapsed_s, self.app.size.width)
        pieces += [(f"  {self._best_text}", "ok")] if self._best_text else []
        return [*pieces, *([(f"  gmg-tui report {self.app.view.session.spec.name}", "dim")] if queue.ended else [])]

    def facts(self, row: JobRecord) -> Iterator[Fact]:
        """Yields the job with its state and log file, then its reason and values."""
        yield Fact("", f"#{row.number} {row.name}  {_state_text(row)}  {row.log or ''}", "strong")
        details = (row.reason or "", worker_text.STATE_STYLES[row.state]), (worker_text.values_of(row), "dim")
        yield from (Fact("", *piece) for piece in details if piece[0])

    # Keys

    def selected_job(self) -> SelectedJob | None:
        """Returns the selected job; with a live worker it is running, even if its record says otherwise."""
        row = self.table.selected
        if row is None:
            return None
        number, waiting = row.number, row.state is WorkerState.WAITING
        workers = [worker for worker in self.app.view.snapshot.workers if worker.job == number]
        running = any(not worker.state.ended for worker in workers) or not (waiting or row.state.ended)
        slot = workers[0].slot if workers and not waiting else None
        ended = row.state.ended and not running
        return SelectedJob(number, f"job {number} ({row.name})", running, ended, slot)

    def action_retry(self) -> None:
        """Retries the selected job."""
        if (job := self.selected_job()) is not None:
            self.table.following = False
            self.act(QueueAction.RETRY, job.number)

    def action_retry_failed(self) -> None:
        """Retries all failed jobs, in order."""
        failed = [job.number for job in self._records.values() if job.state is WorkerState.FAILED]
        if not failed:
            self.app.say("No job has failed.")
            return
        # Each job moves to the head of the queue, so the last one sent runs first.
        self.act(QueueAction.RETRY, *failed[::-1])
