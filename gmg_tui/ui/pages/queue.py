"""The queue of a sweep: its progress, and all jobs in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from msgspec import structs
from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from gmg_tui import units
from gmg_tui.client import Source
from gmg_tui.columns import Column
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, Queue, QueueAction, QueueView, Snapshot, Worker, WorkerState
from gmg_tui.model.jobs import SKIPPED
from gmg_tui.ui.dialogs import ConfirmScreen
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import STYLES, UNICODE, safe
from gmg_tui.ui.drawing.queue_row import progress
from gmg_tui.ui.messages import SelectionChanged
from gmg_tui.ui.pages.details import DetailsPage
from gmg_tui.ui.pages.gpus import GpusScreen
from gmg_tui.ui.pages.page import COMMON, TablePage
from gmg_tui.ui.pages.table import RowTable
from gmg_tui.ui.view import View

PART: Final = 500
"""Jobs per query: an engine returns no more."""
_CHANGED: Final = -1
"""In place of a version: what was acted on."""


class Row(NamedTuple):
    """A job, with what is known of it beside its record."""

    job: JobRecord
    worker: Worker | None
    """Its own on its first slot, which knows more than the record while it lives."""
    group_fps: float | None
    """The rate of all its ranks, where it runs as a group."""
    earlier_fps: float | None
    """The rate of its last attempt that has ended."""

    @property
    def state(self) -> WorkerState:
        """That of the worker while it lives."""
        return self.worker.state if self.worker is not None else self.job.state

    @property
    def fps(self) -> float | None:
        """The rate now; of a job without one the rate of its last attempt."""
        if self.worker is None:
            now = None
        elif self.job.world_size is not None:
            now = self.group_fps
        else:
            now = self.worker.fps.settled if self.worker.fps is not None else None
        return self.earlier_fps if now is None else now

    @property
    def elapsed_s(self) -> float | None:
        """How long it has occupied slots, seconds."""
        if self.worker is None:
            return self.job.elapsed_s
        return max(words.attempt_s(self.worker) or 0.0, self.job.elapsed_s or 0.0)


def _state(row: Row) -> str:
    skipped = row.state is WorkerState.STOPPED and row.job.reason == SKIPPED
    return SKIPPED if skipped else row.state.value


def _slot(row: Row) -> str | None:
    slot = row.worker.slot if row.worker is not None else row.job.slot
    return f"{slot} +{len(row.job.slots) - 1}" if row.job.slots else slot


def _attempts(row: Row) -> int | None:
    return (row.worker.attempt if row.worker is not None else row.job.last.number) or None


def _note(row: Row) -> str:
    return row.job.reason or words.unnamed_values_of(row.job)


COLUMNS: Final = (
    Column[Row]("number", lambda row: row.job.number, "#", write=str),
    Column[Row]("name", lambda row: row.job.name, "job", left=True, limit=32),
    Column[Row]("state", _state, left=True),
    Column[Row]("slot", _slot, left=True),
    Column[Row]("fps", lambda row: row.fps, "FPS", write=units.fps),
    Column[Row]("elapsed_s", lambda row: row.elapsed_s, "elapsed", write=units.span),
    Column[Row]("attempts", _attempts, "tries"),
    Column[Row]("note", _note, "reason or values", left=True, limit=200),
)


def _style(row: Row, column: Column[Row]) -> str:
    match column.name:
        case "state":
            return words.STATE_STYLES.get(row.state, "title")
        case "fps":
            return "fps" if row.state is WorkerState.RUNNING else "text"
        case "note" if row.state is WorkerState.FAILED:
            return "error"
        case "number" | "attempts" | "note":
            return "dim"
    return "text"


class Jobs:
    """The jobs of a queue, asked for in parts of `PART` positions, as there may be ten thousand.

    Jobs move only around those that run and where somebody acts on them. So these parts are asked for with each
    version of the queue, and the others by turns.
    """

    def __init__(self) -> None:
        self._parts: dict[int, QueueView] = {}

    def wanted(self, queue: Queue) -> list[int]:
        """The parts that are out of date, the most urgent first; with those that are not urgent, one of them."""
        parts = range(-(-queue.jobs // PART))
        active = range(queue.done // PART, (queue.done + queue.running) // PART + 1)
        versions = {part: view.version for part, view in self._parts.items()}
        stale = [part for part in parts if versions.get(part) != queue.version]
        changed = [part for part in parts if versions.get(part, _CHANGED) == _CHANGED]
        urgent = [part for part in parts if part in changed or (part in active and (changed or part in stale))]
        urgent.sort(key=lambda part: part not in active)
        oldest = sorted((part for part in stale if part not in urgent), key=lambda part: versions[part])
        return urgent + oldest[:1]

    def take(self, part: int, view: QueueView) -> None:
        """Keep an answer."""
        self._parts[part] = view

    def forget(self, numbers: Sequence[int]) -> None:
        """Ask again at once for the parts with these jobs: they have been changed."""
        for part, view in self._parts.items():
            if any(job.number in numbers for job in view.jobs):
                self._parts[part] = structs.replace(view, version=_CHANGED)

    @property
    def count(self) -> int:
        """How many are known."""
        return sum(len(view.jobs) for view in self._parts.values())

    @property
    def records(self) -> list[JobRecord]:
        """All that are known, in the queue's order; of a job that has moved between two answers the newer record."""
        newest = sorted(self._parts.values(), key=lambda view: view.version)
        known = {job.number: (view.version, job) for view in newest for job in view.jobs}
        return [
            job
            for _, view in sorted(self._parts.items())
            for job in view.jobs
            if known[job.number] == (view.version, job)
        ]


class QueuePage(TablePage[Row], inherit_bindings=False):
    """The queue, on which jobs are run again, skipped, stopped and moved."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("enter", "details", "Details", id="details"),
        Binding("r", "retry", "Run again", id="restart"),
        Binding("x", "skip", "Skip or stop", id="stop"),
        Binding("f", "follow", "Follow running", id="follow"),
        Binding("Q", "back", "Back", show=False, id="queue"),
    ]
    PALETTE = (
        ("Run failed jobs again", "Run all jobs that have failed again, the first one first.", "retry_failed"),
        ("Move job to the top", "Move the selected job to the head of the queue: it starts next.", "shift('top')"),
        ("Move job up", "Move the selected job up by one position: it starts sooner.", "shift('up')"),
        ("Move job down", "Move the selected job down by one position: it starts later.", "shift('down')"),
        ("Choose GPUs", "Choose the GPUs that jobs may start on.", "gpus"),
    )
    TAKES = TablePage.TAKES | {"retry", "skip", "retry_failed", "shift", "gpus"}
    ENTER = "details"

    def __init__(self, engine: Source, view: View) -> None:
        super().__init__(RowTable(COLUMNS, key=_key, style=_style, follow=_first_running, unknown=""))
        self._engine = engine
        self._view = view
        self._jobs = Jobs()
        self._asking = False
        self._rates: dict[int, float | None] = {}
        """Of each job the rate of its last attempt that has ended, by number."""

    @property
    def _snapshot(self) -> Snapshot:
        return self._view.snapshot

    def on_mount(self) -> None:
        """Follow the snapshots."""
        self.watch(self.app, "snapshot", self.update_snapshot)

    def update_snapshot(self) -> None:
        """Show the newest states, and ask for the parts of the queue that have changed."""
        self._show_jobs()
        self._ask()

    def _ask(self) -> None:
        if not self._asking:
            self._asking = True
            self._fill()

    @work(group="queue")
    async def _fill(self) -> None:
        """Ask for the parts of the queue that are out of date."""
        queue = self._snapshot.queue
        try:
            for part in self._jobs.wanted(queue) if queue is not None else ():
                self._jobs.take(part, await self._engine.queue(part * PART, PART))
                if self.table.row_count < self._jobs.count:  # the first time
                    self._show_jobs()
            self.failure = ""
        except GmgError as error:
            self.failure = str(error)
        finally:
            self._asking = False
        self._show_jobs()

    def _show_jobs(self) -> None:
        snapshot = self._snapshot
        # Of a job with several workers, the first one speaks for it.
        live = (worker for worker in snapshot.workers if not worker.state.ended)
        workers = {worker.job: worker for worker in reversed(list(live)) if worker.job is not None}
        groups = {group.job: group.fps for group in snapshot.groups}
        rows = []
        for job in self._jobs.records:
            if job.state.ended and job.last.fps is not None:
                self._rates[job.number] = job.last.fps.mean
            worker = workers.get(job.number)
            if worker is not None and job.state.ended and worker.attempt <= job.last.number:
                worker = None  # the record is newer than the snapshot
            rows.append(Row(job, worker, groups.get(job.number), self._rates.get(job.number)))
        self.show_rows(rows, "" if self.failure else "Waiting for the engine")
        self.show_title()

    def on_resize(self) -> None:
        """Give the progress its width."""
        self.show_title()

    def title_text(self) -> Content:
        """The progress of the queue."""
        queue, elapsed_s = self._snapshot.queue or Queue(0, 0, 0, 0, 0, 0), self._snapshot.elapsed_s
        parts = progress(queue, elapsed_s, self.app.size.width, UNICODE)
        title = Content.assemble(*((safe(text), f"${STYLES[name]}") for text, name in parts[1:]))
        missing = queue.jobs - self.table.row_count
        return title + Content.styled(f"  loading {missing:,} more", "$text-muted") if missing > 0 else title

    def selected_text(self, row: Row) -> Content:
        """The job with its reason, its values and its log."""
        job = row.job
        head = Content.assemble(
            (safe(f"#{job.number} {job.name}"), "bold $foreground"),
            safe(f"  {_state(row)}  {job.log or ''}"),
        )
        reason = Content.styled(safe(job.reason or ""), f"${STYLES[_style(row, COLUMNS[-1])]}")
        lines = [head, reason, Content(safe(words.values_of(job)))]
        return Content("\n").join(line for line in lines if line)

    # Keys

    def action_follow(self) -> None:
        """Select the first running job, and go on to the next one when it ends."""
        self.table.action_follow()

    def action_retry(self) -> None:
        """Run the selected job again."""
        self._act(QueueAction.RETRY)

    def action_shift(self, where: str) -> None:
        """Move the selected job `up` or `down` by a position, or to the `top`."""
        self._act(QueueAction(where))

    async def action_skip(self) -> None:
        """Skip the selected job, or stop it if it is running."""
        row = self.table.selected
        if row is None:
            return
        number, workers = row.job.number, self._snapshot.workers
        live = any(worker.job == number and not worker.state.ended for worker in workers)
        if not live and (row.state is WorkerState.WAITING or row.state.ended):
            self._act(QueueAction.SKIP, f"Job {row.job.number} ({row.job.name}) is skipped.")
            return
        question = f"Stop job {row.job.number} ({row.job.name}), which is running?"
        # Awaited, so that another key that follows at once does not ask again.
        await self.app.push_screen(ConfirmScreen(question), partial(self._stop_if, row.job))

    def _stop_if(self, job: JobRecord, sure: bool | None) -> None:
        if sure:
            self._tell_engine(QueueAction.STOP, (job.number,), f"Job {job.number} ({job.name}) is being stopped.")

    def _act(self, action: QueueAction, done: str = "") -> None:
        row = self.table.selected
        if row is not None:
            self.table.following = False
            self._tell_engine(action, (row.job.number,), done)

    @work(group="acting")
    async def _tell_engine(self, action: QueueAction, numbers: tuple[int, ...], done: str) -> None:
        try:
            await self._engine.act_on_jobs(action, *numbers)
        except GmgError as error:
            self.tell(str(error))
            return
        if done:
            self.tell(done)
        self._jobs.forget(numbers)
        self._ask()

    def action_retry_failed(self) -> None:
        """Run all failed jobs again, the first one first."""
        queue = self._snapshot.queue
        failed = tuple(job.number for job in self._jobs.records if job.state is WorkerState.FAILED)
        if not failed or queue is None or not queue.failed:
            self.tell("No job has failed.")
            return
        # Each in turn moves to the head of the queue: the last one named runs first.
        self._tell_engine(QueueAction.RETRY, failed[::-1], f"Queued {units.count(len(failed), 'failed job')} again.")

    async def action_details(self) -> None:
        """Show the details of the selected job's slot, if the job has one now."""
        row = self.table.selected
        if row is None:
            return
        slot = next((worker.slot for worker in self._snapshot.workers if worker.job == row.job.number), None)
        if slot is None or row.state is WorkerState.WAITING:
            self.tell(f"Job {row.job.number} has no slot now.")
            return
        if self._view.choose(slot):
            self.post_message(SelectionChanged())
        await self.app.push_screen(DetailsPage(self._view, self._engine, slot))

    async def action_gpus(self) -> None:
        """Choose the GPUs that jobs may start on."""
        await self.app.push_screen(GpusScreen(self._engine, self._view.session.slots))


def _key(row: Row) -> str:
    return str(row.job.number)


def _first_running(rows: Sequence[Row]) -> Row | None:
    """The first job that has not ended, or else the last one."""
    return next((row for row in rows if not row.job.state.ended), rows[-1] if rows else None)
