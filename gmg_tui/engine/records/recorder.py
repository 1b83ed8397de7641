"""Records changes of workers in the session's store."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import ReportedFiles, keys_of
from gmg_tui.engine.faults import Faults
from gmg_tui.engine.notify import Notifications
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import Alert, AlertAction, GpuSample, JobRecord, OccurrenceKind, Snapshot, WorkerState
from gmg_tui.model.attempt import sum_known
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tried import TriedArguments
from gmg_tui.model.worker import combine_ranks
from gmg_tui.scripts.genesis.output.failures import FailureKind
from gmg_tui.session.store.database import JobAttempt, LateCurves, MetricsRow
from gmg_tui.session.store.writer import StoreWriter

_log = logging.getLogger(__name__)

_REFRESH_BEATS, _CURVES_REFRESHES = 10, 12
"""Beats between writes of running jobs, and of their metrics over time, which are large."""
_NO_SAMPLE = GpuSample(uuid="")
_MAX_FILES_AGE_S = 1.0
"""Maximum age of the files that nodes have reported: with many jobs, collecting them takes long."""


class _Occupant:
    """A job that occupies slots with its `workers`, the first of which represents it."""

    def __init__(self, record: JobRecord, workers: Sequence[Worker]) -> None:
        self.initial = record
        """The job's record when it got its slots."""
        self.record = record
        self.lead, *self.others = workers
        self.since = time.monotonic()
        self.running_since: float | None = None
        """Start of its first process on these slots, monotonic seconds."""
        self.checkpoint_saved = 0.0
        """Unix time of the newest checkpoint in the record."""
        self.energy_j: float | None = None
        """Energy of the ended attempts on these slots; None if unknown."""

    @property
    def elapsed_s(self) -> float | None:
        """Seconds the job has run, including on earlier slots; None before its first process."""
        if self.running_since is None:
            return self.initial.elapsed_s
        return round((self.initial.elapsed_s or 0.0) + time.monotonic() - self.running_since, 3)


_STATE_EVENTS: Final = {
    WorkerState.RESTARTING: "is restarting",
    WorkerState.FINISHED: "has finished",
    WorkerState.STOPPED: "was stopped",
    WorkerState.FAILED: "has failed",
}
"""States whose start is an event, with the event's text; only a failure notifies the user."""


class Recorder:
    """Keeps the records of jobs that occupy slots, and writes every change to the store. Workers report to it.

    Calls `changed` when the display must change; adds ended attempts to `tried`, and events to `notifications`.
    """

    def __init__(
        self,
        store: StoreWriter,
        changed: Callable[[], None],
        tried: TriedArguments,
        notifications: Notifications,
        faults: Faults,
    ) -> None:
        self.notifications = notifications
        self.tried = tried
        self._store, self._changed, self.faults = store, changed, faults
        self._occupants: dict[str, _Occupant] = {}
        """The job on each slot."""
        self._reported_files: tuple[float, ReportedFiles] = -math.inf, {}
        """The last result of `reported_files`, and its time, monotonic seconds."""
        self._beats = 0
        self._snapshot_due = False

    # From the scheduler

    def occupy(self, record: JobRecord, workers: Sequence[Worker]) -> JobRecord:
        """Records that a job gets its workers' slots. Returns the job's record."""
        first, names = workers[0].slot, tuple(worker.slot.name for worker in workers)
        uuid, slots = first.gpu.uuid if first.gpu else None, names if len(names) > 1 else ()
        log = workers[0].task.log
        record = structs.replace(record, slot=first.name, slots=slots, gpu_uuid=uuid, log=log, reason=None)
        self._occupants |= dict.fromkeys(names, _Occupant(record, workers))
        self.write(record)
        return record

    def release(self, worker: Worker, **changes: Any) -> JobRecord:
        """Records that a job leaves its slots; `worker` is its first worker. Returns the job's record.

        `changes` replace fields of the record that were derived from the worker.
        """
        occupant = self._occupants[worker.slot.name]
        record = self.faults.guard("records", self._record, occupant)
        if record is None:
            record = structs.replace(occupant.record, state=worker.state, reason=worker.reason, ended=clock.now())
        return self._free(worker.slot.name, structs.replace(record, **changes))

    def amend(self, worker: Worker, **changes: Any) -> None:
        """Changes fields of the record of a worker's job."""
        if (occupant := self._occupants.get(worker.slot.name)) is not None:
            occupant.initial = structs.replace(occupant.initial, **changes)
            self.faults.guard("records", self._update, worker)

    async def flush(self) -> None:
        """Waits until all records are written, or for a second if the disk hangs."""
        await self._store.wait_written()

    async def save(self, records: Iterable[JobRecord]) -> None:
        """Writes records to the store before it returns. Raises `StoreError` if that is not possible."""
        await self._store.write(*records)

    def check_store(self) -> None:
        """Raises `GmgError` if the store could not be written."""
        if self._store.trouble is not None:
            raise GmgError(f"the store cannot be written: {self._store.trouble}", 1)

    def fail(self, slot: str, record: JobRecord, reason: str) -> JobRecord:
        """Records that the job on a slot failed because of an internal error. Returns the job's record."""
        occupant = self._occupants.get(slot)
        record = occupant.record if occupant is not None else record
        return self._free(slot, structs.replace(record, state=WorkerState.FAILED, reason=reason, ended=clock.now()))

    def _free(self, slot: str, record: JobRecord) -> JobRecord:
        occupants = [self._occupants.pop(name, None) for name in (slot, *record.slots)]
        self.write(record)
        self._snapshot_due = True
        outcome = f"{record.state.value}: {record.reason}" if record.reason else record.state.value
        if record.state is WorkerState.FAILED and occupants[0] is not None:
            text = f"job {record.number} ({record.name}) has {outcome}"
            self._notify(OccurrenceKind.JOB_FAILED, occupants[0].lead, text, record.reason)
        return record

    def occupant(self, slot: str) -> tuple[JobRecord, float] | None:
        """Returns the record of the job on a slot and the seconds since it got the slot; None if there is none."""
        occupant = self._occupants.get(slot)
        return None if occupant is None else (occupant.record, time.monotonic() - occupant.since)

    def reported_files(self, records: Mapping[int, JobRecord]) -> ReportedFiles:
        """Returns the checkpoints that nodes have reported until now, or until `_MAX_FILES_AGE_S` ago."""
        if time.monotonic() - self._reported_files[0] > _MAX_FILES_AGE_S:
            live = [
                self.faults.guard("records", self._record, each) or each.record for each in self._occupants.values()
            ]
            current = {**records, **{record.number: record for record in live}}
            files = defaultdict[int, list[tuple[int, model.Checkpoint]]](list)
            for record in current.values():
                origin = origin_of(record, records)
                for checkpoint in record.last.checkpoints:
                    for key in keys_of(checkpoint) if checkpoint.reported else ():
                        files[key].append((origin, checkpoint))
            self._reported_files = time.monotonic(), files
        return self._reported_files[1]

    def write(self, record: JobRecord | Snapshot) -> None:
        """Writes a record to the store."""
        self._store.put(record)

    def beat(
        self,
        moment: float,
        views: Iterable[model.Worker],
        slots: Mapping[str, EngineSlot],
        snapshot: Callable[[], Snapshot],
    ) -> None:
        """Records this second's metrics, and at intervals the progress of each job and the session.

        `moment` is Unix time; `views` are the workers as clients see them.
        """
        if self._beats % _REFRESH_BEATS == 0:
            for number, engine_slot in enumerate(slots.values(), self._beats // _REFRESH_BEATS):
                with_curves = number % _CURVES_REFRESHES == 0  # in turn, as they may be large
                self.faults.guard("records", self._refresh, engine_slot, with_curves=with_curves)
            self._snapshot_due = True
        self._beats += 1
        if self._snapshot_due:
            self._snapshot_due = False
            self._store.put(snapshot())
        rows = [
            _metrics_row(moment, occupant.record.number, view, slots[view.slot].sample or _NO_SAMPLE)
            for view in views
            if view.attempt and view.state.live and (occupant := self._occupants.get(view.slot)) is not None
        ]
        if rows:
            self._store.put(*rows)

    def _refresh(self, engine_slot: EngineSlot, *, with_curves: bool) -> None:
        """Writes a running job's progress, for `gmg-tui report`."""
        worker = engine_slot.worker
        if worker is None or not worker.state.live or (attempt := worker.attempt) is None:
            return
        occupant = self._occupants.get(worker.slot.name)
        if occupant is not None:
            occupant.record = self._record(occupant)
            self._store.put(occupant.record)
            self._store.put(*self._attempt_rows(worker, attempt, occupant, with_curves=with_curves))

    # From the workers

    def changed(self, worker: Worker, *, is_new_state: bool) -> None:
        """Records a change to a worker."""
        self.faults.guard("records", self._record_change, worker, is_new_state=is_new_state)
        self._changed()

    def _record_change(self, worker: Worker, *, is_new_state: bool) -> None:
        slot = worker.slot.name
        occupant = self._occupants.get(slot)
        if occupant is not None and occupant.lead is worker and occupant.record.state is not worker.state:
            self._update(worker)
        if is_new_state and worker.state in _STATE_EVENTS:
            failed = worker.state is WorkerState.FAILED
            # Of a group, report only the first rank to fail, not those it ended; of a job, its end is reported instead.
            by_group = worker.failure is not None and worker.failure.kind is FailureKind.GROUP
            if not failed or not (by_group or worker.task.job is not None):
                text = f"{slot} {_STATE_EVENTS[worker.state]}{f': {worker.reason}' if worker.reason else ''}"
                self._notify(OccurrenceKind(worker.state.value), worker, text, worker.reason, quiet=not failed)

    def alerted(self, worker: Worker, alert: Alert, action: AlertAction, *, is_restarted: bool) -> None:
        """Records a new alert, before the worker acts on it; `is_restarted` if another attempt follows because of it."""
        _log.info("%s: %s: %s", worker.slot.name, alert.kind, alert.text)
        slot, is_stuck, rank = worker.slot.name, alert.kind == "stuck", worker.rank
        if is_stuck and rank is not None and rank.rank > 0:
            return  # reported once, for the group
        suffixes = {
            AlertAction.STOP: "; stopped by --on",
            AlertAction.RESTART: "; restarted by --on" if is_restarted else "; not restarted",
        }
        text = f"{slot} is stuck: {alert.text}" if is_stuck else f"{slot}: {alert.text}"
        kind = OccurrenceKind.STUCK if is_stuck else OccurrenceKind.ALERT
        quiet = action is AlertAction.SHOW and not is_stuck
        self._notify(kind, worker, f"{text}{suffixes.get(action, '')}", alert.text, alert.kind, quiet=quiet)

    def checkpoint_saved(self, worker: Worker, checkpoint: model.Checkpoint) -> None:
        """Records a worker's newest checkpoint: another engine may have to continue from it."""
        occupant = self._occupants.get(worker.slot.name)
        if occupant is not None and checkpoint.saved != occupant.checkpoint_saved:
            occupant.checkpoint_saved = checkpoint.saved
            self._update(worker)

    def recovered(self, worker: Worker, alert: Alert) -> None:
        """Records that an alert has cleared while the worker's process is alive."""
        text = f"{worker.slot.name}{' is' if alert.kind == 'stuck' else ':'} no longer {alert.kind}"
        self._notify(OccurrenceKind.RECOVERED, worker, text, None, alert.kind, quiet=True)

    def _notify(
        self,
        kind: OccurrenceKind,
        worker: Worker,
        text: str,
        reason: str | None,
        alert: str = "",
        *,
        quiet: bool = False,
    ) -> None:
        slot, job, name = worker.slot.name, worker.task.job, worker.task.name
        add = partial(self.notifications.add, kind, text, slot=slot, job=job, job_name=name)
        self.faults.guard("notifications", add, reason=reason, alert=alert, quiet=quiet)

    def began(self, worker: Worker) -> None:
        """Records that a worker's attempt has started its process."""
        occupant = self._occupants.get(worker.slot.name)
        if occupant is not None and occupant.running_since is None:
            occupant.running_since = time.monotonic()
        self.faults.guard("records", lambda: self._update(worker, worker.attempt))
        text = f"{worker.slot.name} has started{f' attempt {worker.attempt.number}' if worker.attempt else ''}"
        self._notify(OccurrenceKind.STARTED, worker, text, None, quiet=True)
        self._changed()

    def ended(self, worker: Worker) -> None:
        """Records that a worker's attempt has ended."""
        self.faults.guard("records", self._record_end, worker)

    def _record_end(self, worker: Worker) -> None:
        occupant, attempt = self._occupants.get(worker.slot.name), worker.attempt
        if occupant is not None and attempt is not None:
            occupant.energy_j = sum_known((occupant.energy_j, attempt.energy_j))
            self._update(worker, attempt)
            self.tried.add(worker.slot.name, attempt)

    def _update(self, worker: Worker, attempt: model.Attempt | None = None) -> None:
        """Writes the record of a worker's job, and the record of an `attempt` that has begun or ended."""
        occupant = self._occupants.get(worker.slot.name)
        if occupant is None:
            return
        # A sweep's job ends when its scheduler releases it.
        if worker.task.job is None or not worker.state.ended:
            occupant.record = self._record(occupant)
            self.write(occupant.record)
        if attempt is not None:
            self._store.put(*self._attempt_rows(worker, attempt, occupant))

    @staticmethod
    def _attempt_rows(
        worker: Worker, attempt: model.Attempt, occupant: _Occupant, *, with_curves: bool = True
    ) -> tuple[JobAttempt | LateCurves, ...]:
        """Returns the record of an attempt, and its metrics over time if `with_curves`."""
        slot, rank = worker.slot, worker.rank.rank if worker.rank is not None else 0
        uuid = slot.gpu.uuid if slot.gpu is not None else None
        job, newest = occupant.record.number, worker.newest
        record = JobAttempt(job, slot.name, uuid, attempt, worker.task.log, rank)
        if with_curves and newest is not None and (load := newest.curves_loader()):
            return record, LateCurves(job, attempt.number, rank, slot.name, load)
        return (record,)

    @staticmethod
    def _record(occupant: _Occupant) -> JobRecord:
        worker, initial = occupant.lead, occupant.initial
        record = structs.replace(
            initial,
            state=worker.state,
            reason=worker.reason if worker.state.ended else None,
            ended=clock.now() if worker.state.ended else None,
            elapsed_s=occupant.elapsed_s,
        )
        attempts = [attempt for rank in (worker, *occupant.others) if (attempt := rank.attempt) is not None]
        if not attempts:
            return record
        newest = max(attempt.number for attempt in attempts)  # some ranks may not have started it yet
        energies_j = (attempt.energy_j for attempt in attempts if attempt.ended is None)
        return structs.replace(
            record,
            last=combine_ranks([attempt for attempt in attempts if attempt.number == newest]),
            started=occupant.record.started if occupant.record.started is not None else attempts[0].started,
            energy_j=sum_known((initial.energy_j, occupant.energy_j, *energies_j)),
            result=worker.result,
        )


def _metrics_row(moment: float, job: int, view: model.Worker, sample: GpuSample) -> MetricsRow:
    """Returns the current metrics of a worker and of its GPU."""
    return MetricsRow(
        moment,
        view.slot,
        job,
        fps=view.current_fps,
        gpu_util_pct=sample.gpu_util_pct,
        memory_used_mib=sample.memory_used_mib,
        power_w=sample.power_w,
        temperature_c=sample.temperature_c,
        sm_pct=sample.sm_pct,
        state=view.state.value,
    )


def origin_of(record: JobRecord, records: Mapping[int, JobRecord]) -> int:
    """Returns the number of the job that a job is an edited copy of, perhaps of a copy; its own if it is none."""
    while (original := records.get(record.edited_from or 0)) is not None:
        record = original
    return record.number
