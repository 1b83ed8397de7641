"""The page of a sweep's queue, and its base class, which the page of a tuning shares."""

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
"""Jobs per query, the engine's limit."""


class SelectedJob(NamedTuple):
    """The selected job or trial."""

    number: int
    name: str
    """The name in a sentence: `job 13 (wide)`."""
    running: bool
    ended: bool
    slot: str | None
    """The slot it runs or ran on; None if another job has it now, or it never had one."""


class JobsPage(TablePage[T], Generic[T]):
    """A table of jobs or trials, whose cursor follows the running one; they can be skipped and stopped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "details",
            "Details",
            id="details",
            tooltip="Show the details of the job's worker, or the log of an earlier one.",
        ),
        Binding("x", "skip", "Skip or stop", id="stop", tooltip="Skip the selected job, or stop it if it is running."),
        Binding("f", "follow", "Follow", id="follow", tooltip="Select the running job, then the next.", show=False),
    ]
    OPENED_BY = "queue"
    ENTER = "details"

    def on_mount(self) -> None:
        """Follows the snapshots."""
        self.set_focus(self.table)
        self.watch(self.app, "snapshot", self.update_snapshot)

    def update_snapshot(self) -> None:
        """Shows the newest snapshot."""
        raise NotImplementedError

    def selected_job(self) -> SelectedJob | None:
        """Returns the selected job; None in an empty table."""
        raise NotImplementedError

    def has_effect(self, action: str) -> bool:
        """Returns False for actions that the selected job does not allow."""
        job = self.selected_job()
        return action != "skip" or (job is not None and not job.ended)

    def action_follow(self) -> None:
        """Selects the running job and, once it has ended, the next one."""
        self.table.follow()

    async def action_details(self) -> None:
        """Enlarges the pane of the job's worker; if the job is no longer on a slot, opens its log."""
        job = self.selected_job()
        if job is not None and job.slot is not None:
            self.dismiss(None)
            self.app.select(job.slot, maximize=True)
        elif job is not None and (path := self.app.job_log(job.number)) is not None:
            await self.app.push_screen(LogPage(job.name, path))
        elif job is not None:
            self.app.say("There is no log: nothing has been written.")

    async def action_skip(self) -> None:
        """Skips the selected job, or stops it if running, after a confirmation."""
        job = self.selected_job()
        if job is not None and job.ended:
            self.app.say(f"{job.name.capitalize()} has ended.")
        elif job is not None and job.running:
            await self.app.ask(f"Stop {job.name}, which is running?", partial(self.act, QueueAction.STOP, job.number))
        elif job is not None:
            self.act(QueueAction.SKIP, job.number)

    def act(self, action: QueueAction, *numbers: int) -> None:
        """Sends an action on jobs to the engine."""
        self.app.request(partial(self.app.engine.act_on_jobs, action, *numbers))


# Jobs


def _with_live_figures(job: JobRecord, worker: Worker, group_fps: float | None, now: float) -> JobRecord:
    """Returns the job with its worker's figures; for a group, those of the first worker and the rate of all ranks."""
    fps, newest, lasted_s = worker.fps, worker.newest, worker.attempt_s(now)
    rate = group_fps if job.world_size is not None else fps.settled if fps is not None else None
    shown = Fps(None, rate, None, 0)
    return structs.replace(
        job,
        state=worker.state,
        slot=worker.slot,
        last=structs.replace(newest, number=worker.attempt or job.last.number, args=(), fps=shown),
        elapsed_s=job.elapsed_s if lasted_s is None else max(lasted_s, job.elapsed_s or 0.0),
    )


def _state(job: JobRecord) -> str:
    return SKIPPED if job.state is WorkerState.STOPPED and job.reason == SKIPPED else job.state.value


def _columns(jobs: Sequence[JobRecord], best: Column[JobRecord] | None) -> list[Column[JobRecord]]:
    """Returns the columns of jobs: number, name, `best`, then the others by priority."""
    number, name, *rest = (
        replace(column, value=_state) if column.name == "state" else column for column in job_columns.columns(jobs)
    )
    first = [number, name, *(column for column in rest if best is not None and column.name == best.name)]
    rest.sort(key=lambda column: -column.priority)
    return [*first, *(column for column in rest if column not in first)]


class QueuePage(JobsPage[JobRecord]):
    """The queue of a sweep. Jobs can be run again, skipped and stopped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", "Run again", id="restart", tooltip="Retry: run the selected job again.")
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
        self._version = -1
        """Version of the queue at the last query; -1 before."""
        self._result_names: set[str] = set()
        """Names of the results that have columns, and an empty name; an empty set if the columns must be set."""
        self._live_numbers: set[int] = set()
        """Numbers of the jobs shown with their worker's figures."""
        self._best_text = ""

    # The jobs

    def on_mount(self) -> None:
        """Follows the snapshots, and asks for the jobs."""
        super().on_mount()
        self.poll()

    async def ask(self) -> None:
        """Queries all jobs if the queue has changed."""
        queue = self.app.view.queue
        if queue is None or queue.version == self._version:
            return
        await asyncio.sleep(self.POLL_INTERVAL_S * (len(self._records) // JOBS_PER_QUERY))  # longer queues less often
        parts = [await self.app.engine.queue(first, JOBS_PER_QUERY) for first in range(0, queue.jobs, JOBS_PER_QUERY)]
        self._version = queue.version
        self._records = {job.number: job for part in parts for job in part}  # a job that has moved may be in two parts
        self._result_names.clear()
        self.update_snapshot()

    def _arrange(self, jobs: Sequence[JobRecord]) -> None:
        """Sets the columns for these jobs, and finds the best job by the sweep's metric."""
        sweep, column, self._best_text = self.app.view.session.spec.sweep, None, ""
        with suppress(GmgError):  # no job has reported it yet
            order, column, _ = sort_jobs(jobs, sweep.best if sweep is not None else None)
            if column is not None and (best := best_job(order, column)) is not None:
                self._best_text = f"best: #{best.number} {best.name}, {column.heading} {column.text(best)}"
        self.table.set_columns(_columns(jobs, column))

    def update_snapshot(self) -> None:
        """Updates the jobs that may have changed: those with workers."""
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
            self._arrange(rows)
            self.listing.show(rows, self.table.empty)
        self._live_numbers = set(live)
        self.show_title()

    def title_pieces(self) -> list[Piece]:
        """Returns the queue's progress, the best job and, at the end, the command for the results."""
        queue = self.app.view.queue or Queue(0, 0, 0, 0, 0, 0)
        parts = [(f"{self.app.view.session.spec.name}  ", "title")]
        parts += queue_progress(queue, self.app.view.snapshot.elapsed_s, self.app.size.width)
        parts += [(f"  {self._best_text}", "ok")] if self._best_text else []
        return [*parts, *([(f"  gmg-tui report {self.app.view.session.spec.name}", "dim")] if queue.ended else [])]

    def facts(self, row: JobRecord) -> Iterator[Fact]:
        """Yields the job with its reason, its values and its log."""
        yield Fact("", f"#{row.number} {row.name}  {_state(row)}  {row.log or ''}", "strong")
        texts = (row.reason or "", worker_text.STATE_STYLES[row.state]), (worker_text.values_of(row), "dim")
        yield from (Fact("", *piece) for piece in texts if piece[0])

    # Keys

    def selected_job(self) -> SelectedJob | None:
        """Returns the selected job; a live worker means running, even if the record is older."""
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
        """Runs the selected job again."""
        if (job := self.selected_job()) is not None:
            self.table.following = False
            self.act(QueueAction.RETRY, job.number)

    def action_retry_failed(self) -> None:
        """Runs all failed jobs again, in order."""
        failed = [job.number for job in self._records.values() if job.state is WorkerState.FAILED]
        if not failed:
            self.app.say("No job has failed.")
            return
        # Each job moves to the head of the queue, so the last one sent runs first.
        self.act(QueueAction.RETRY, *failed[::-1])
