"""Turns what happens to workers into records in the session's store."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from gmg_tui.engine.records.health_events import HealthEvents
from gmg_tui.engine.records.moments import Moments
from gmg_tui.engine.telling.occurrences import Occurrences
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.genesis.output.failures import FailureKind
from gmg_tui.model import (
    AttemptReport,
    Fps,
    GpuSample,
    JobRecord,
    OccurrenceKind,
    Slot,
    Snapshot,
    WorkerState,
    added_up,
)
from gmg_tui.results.tried import TriedArguments
from gmg_tui.store.records import Event, JobAttempt, MetricsRow
from gmg_tui.store.writer import StoreWriter

_REFRESH_S = 10.0
_NO_SAMPLE = GpuSample(uuid="")


class _Occupant:
    """A job that occupies slots; `logs` has the paths of its workers' logs, by slot."""

    def __init__(self, record: JobRecord, logs: Mapping[str, str]) -> None:
        self.before = record
        """Its record when it got its slots."""
        self.record = record
        self.logs = logs
        self.workers: dict[str, SlotWorker] = {}
        """Those of its workers that have told of themselves, by slot."""
        self.since = time.monotonic()
        self.energy_j: float | None = None
        """Of its attempts on these slots that have ended."""

    @property
    def lead(self) -> SlotWorker | None:
        """The worker that speaks for the job: that of its first slot, which is rank 0 of a group."""
        return self.workers.get(self.before.slot or "")


class Recorder:
    """Keeps the records of the jobs that occupy slots, and writes every change to the store. It is the workers' watcher.

    `changed` is called when something that is displayed has changed; `tried` is given the attempts that have ended, and
    `occurrences` what a person may want to be told. `moments` keeps how the session is; a node's agent has none.
    """

    def __init__(
        self,
        store: StoreWriter,
        changed: Callable[[], None],
        tried: TriedArguments,
        occurrences: Occurrences,
        moments: Moments | None,
    ) -> None:
        self.occurrences = occurrences
        self._store = store
        self._tried = tried
        self._changed = changed
        self._moments = moments
        self._health_events = HealthEvents()
        self._occupants: dict[str, _Occupant] = {}
        """By slot."""
        self._stuck: set[str] = set()
        """Slots whose worker was stuck at the last scan."""
        self._failed: set[str] = set()
        """Slots of a plain run whose worker has failed."""
        self._refresh_at = 0.0
        """When what runs is written next, Unix seconds."""

    # From the scheduler

    def occupy(self, record: JobRecord, logs: Mapping[Slot, str]) -> JobRecord:
        """A job gets slots, each with its worker's log, a path in the session's folder. Returns its record."""
        first, *_ = logs
        gpu_index, gpu_uuid = (first.gpu.index, first.gpu.uuid) if first.gpu else (None, None)
        names = tuple(slot.name for slot in logs)
        record = structs.replace(
            record,
            slot=first.name,
            slots=names if len(names) > 1 else (),
            gpu_index=gpu_index,
            gpu_uuid=gpu_uuid,
            log=logs[first],
            reason=None,
        )
        occupant = _Occupant(record, {slot.name: log for slot, log in logs.items()})
        self._occupants |= dict.fromkeys(names, occupant)
        self.keep(record)
        return record

    def release(self, worker: SlotWorker, found: Mapping[str, Any] | None = None, **changes: Any) -> JobRecord:
        """The job whose first slot has this worker, which has ended, leaves its slots. Returns its record.

        `found` are the results from the script's file, over which printed ones take precedence; `changes` is what the
        record says differently from the worker.
        """
        occupant = self._occupants[worker.slot.name]
        occupant.workers[worker.slot.name] = worker
        record = self._record(occupant, worker)
        # Where no attempt has begun, the results are those of an earlier one.
        result = {**(found or {}), **record.result} if record.result is not None else None
        record = structs.replace(record, result=result, **changes)
        return self._released(worker.slot.name, record)

    def fail(self, slot: str, record: JobRecord, reason: str) -> JobRecord:
        """The job on a slot failed because of an internal error. Returns its record."""
        occupant = self._occupants.get(slot)
        record = occupant.record if occupant is not None else record
        return self._released(slot, structs.replace(record, state=WorkerState.FAILED, reason=reason, ended=time.time()))

    def _released(self, slot: str, record: JobRecord) -> JobRecord:
        for name in {slot, *record.slots}:
            self._occupants.pop(name, None)
            self._stuck.discard(name)
        record = structs.replace(record, updated=None)
        self.keep(record)
        said = f"{record.state.value}: {record.reason}" if record.reason else record.state.value
        self.event("job", f"job {record.number} ({record.name}) {said}", slot=slot, job=record.number)
        if record.state is WorkerState.FAILED:
            text = f"job {record.number} ({record.name}) has {said}"
            self.occurrences.add(
                OccurrenceKind.JOB_FAILED,
                text,
                slot=slot,
                job=record.number,
                job_name=record.name,
                reason=record.reason,
            )
        return record

    def occupant(self, slot: str) -> tuple[JobRecord, float] | None:
        """The record of the job that occupies a slot, and for how many seconds it has."""
        occupant = self._occupants.get(slot)
        return None if occupant is None else (occupant.record, time.monotonic() - occupant.since)

    def keep(self, record: JobRecord) -> None:
        """Write a record as it is."""
        self._store.job(record)

    def event(self, kind: str, text: str, *, slot: str | None = None, job: int | None = None) -> None:
        """Record an event."""
        self._store.event(Event(time.time(), kind, text, slot, job))

    def beat(self, moment: float, slot_states: Collection[SlotState], snapshot: Callable[[], Snapshot]) -> None:
        """Record the metrics of this second, and now and then how far each job and the session are.

        `moment` is Unix time; `snapshot` gives the session as clients see it.
        """
        if moment >= self._refresh_at:
            self._refresh_at = moment + _REFRESH_S
            self._refresh(slot_states)
        rows = [
            MetricsRow(
                moment,
                worker.slot.name,
                occupant.record.number,
                *_figures(worker),
            )
            for slot_state in slot_states
            if (worker := slot_state.worker) is not None and worker.state.live
            if (occupant := self._occupants.get(worker.slot.name)) is not None
        ]
        if rows:
            self._store.metrics(rows)
        if self._moments is not None:
            self._moments.beat(moment, snapshot, live=bool(rows))

    def health(self, samples: Mapping[str, GpuSample], slot_states: Collection[SlotState]) -> None:
        """Record what has happened to the health of the GPUs; `samples` are their newest ones, by UUID."""
        for kind, text, slot in self._health_events.take(samples, slot_states):
            self.event(kind, text, slot=slot or None)

    def conclude(self, snapshot: Snapshot) -> None:
        """Record how the session has ended."""
        if self._moments is not None:
            self._moments.conclude(snapshot)

    def _refresh(self, slot_states: Iterable[SlotState]) -> None:
        """Write the figures of what runs, which `report` tells of a running session."""
        for slot_state in slot_states:
            worker = slot_state.worker
            if worker is None or not worker.state.live or (attempt := worker.reported()) is None:
                continue
            occupant = self._occupants.get(worker.slot.name)
            if occupant is not None and occupant.lead is not None:
                occupant.record = self._record(occupant, occupant.lead)
                self._store.refresh(occupant.record, self._attempt(worker, attempt, occupant))

    # From the workers

    def changed(self, worker: SlotWorker) -> None:
        """Something of a worker has changed."""
        slot = worker.slot.name
        occupant = self._occupants.get(slot)
        if occupant is not None:
            occupant.workers[slot] = worker
            if occupant.lead is worker and occupant.record.state is not worker.state:
                self._update(worker)
        if self._moments is not None:
            self._moments.changed(worker)
        if worker.stuck is None:
            self._stuck.discard(slot)
        elif slot not in self._stuck:
            self._stuck.add(slot)
            self.event("stuck", worker.stuck, slot=slot, job=worker.task.job)
            self._tell(OccurrenceKind.STUCK, worker, f"{slot} is stuck: {worker.stuck}", worker.stuck)
        self._tell_failure(worker)
        self._changed()

    def _tell_failure(self, worker: SlotWorker) -> None:
        """A worker of a plain run may have failed; of a group, the rank that did is told, not those that it ended."""
        slot = worker.slot.name
        if worker.state is not WorkerState.FAILED or worker.task.job is not None:
            self._failed.discard(slot)
        elif slot not in self._failed:
            self._failed.add(slot)
            if worker.failure is None or worker.failure.kind is not FailureKind.GROUP:
                text = f"{slot} has failed: {worker.reason}" if worker.reason else f"{slot} has failed"
                self._tell(OccurrenceKind.FAILED, worker, text, worker.reason)

    def _tell(self, kind: OccurrenceKind, worker: SlotWorker, text: str, reason: str | None) -> None:
        task = worker.task
        self.occurrences.add(
            kind,
            text,
            slot=worker.slot.name,
            job=task.job,
            job_name=task.name if task.job is not None else "",
            reason=reason,
        )

    def began(self, worker: SlotWorker) -> None:
        """A worker's attempt has started its process."""
        self._update(worker, worker.reported())

    def ended(self, worker: SlotWorker) -> None:
        """A worker's attempt has ended."""
        occupant, attempt = self._occupants.get(worker.slot.name), worker.reported()
        if occupant is not None and attempt is not None:
            occupant.energy_j = _sum(occupant.energy_j, attempt.energy_j)
            self._update(worker, attempt)
            self._tried.add(worker.slot.name, attempt.record)

    def _update(self, worker: SlotWorker, attempt: AttemptReport | None = None) -> None:
        """Write the record of a worker's job, and its attempt, if that has begun or ended."""
        occupant = self._occupants.get(worker.slot.name)
        if occupant is None:
            return
        lead = occupant.lead
        # A sweep's job ends when its scheduler releases it, after its result file has been read.
        if lead is not None and (worker.task.job is None or not worker.state.ended):
            occupant.record = self._record(occupant, lead)
            self.keep(occupant.record)
        if attempt is not None:
            self._store.attempt(self._attempt(worker, attempt, occupant))

    @staticmethod
    def _attempt(worker: SlotWorker, attempt: AttemptReport, occupant: _Occupant) -> JobAttempt:
        slot, rank = worker.slot, worker.rank.rank if worker.rank is not None else 0
        place = slot.name, attempt.gpu_index, slot.gpu.uuid if slot.gpu is not None else None
        return JobAttempt(occupant.record.number, *place, attempt.record, occupant.logs.get(slot.name), rank)

    @staticmethod
    def _record(occupant: _Occupant, worker: SlotWorker) -> JobRecord:
        """A job's record at this moment; `worker` is the one that speaks for it."""
        before, attempt = occupant.before, worker.reported()
        record = structs.replace(
            before,
            state=worker.state,
            reason=worker.reason if worker.state.ended else None,
            ended=time.time() if worker.state.ended else None,
            out_dir=worker.out_dir or before.out_dir,
            elapsed_s=round((before.elapsed_s or 0.0) + time.monotonic() - occupant.since, 3),
            updated=None if worker.state.ended else time.time(),
        )
        if attempt is None:
            return record
        attempts = [one for worker in occupant.workers.values() if (one := worker.reported()) is not None]
        running_j = [one.energy_j for one in attempts if one.record.ended is None]
        return structs.replace(
            record,
            attempts=attempt.record.number,
            started=worker.first_started if before.started is None else before.started,
            exit_code=attempt.record.exit_code,
            gpu_index=attempt.gpu_index,
            fps=_rate(attempt, attempts),
            n_envs=attempt.n_envs,
            memory_peak_mib=max(_known(one.memory_peak_mib for one in attempts), default=None),
            gpu_util_mean_pct=_mean(one.gpu_util_mean_pct for one in attempts),
            power_mean_w=_sum(*(one.power_mean_w for one in attempts)),
            energy_j=_sum(before.energy_j, occupant.energy_j, *running_j),
            result=attempt.result,
        )


def _figures(worker: SlotWorker) -> tuple[float | None, ...]:
    """A worker's metrics at this moment, as a row has them."""
    point, sample = worker.point, worker.sample or _NO_SAMPLE
    fps = worker.fps
    printed, settled = (fps.last, fps.settled) if fps is not None else (None, None)
    figures = point.gpu_util_pct, point.memory_used_mib, point.power_w, sample.temperature_c, point.sm_pct
    return printed, settled, *figures


def _rate(lead: AttemptReport, attempts: Sequence[AttemptReport]) -> Fps | None:
    """The rate of a job: that of its first worker, which may report for all ranks, or else of all ranks together."""
    if lead.fps_of_group or len(attempts) < 2:
        return lead.fps
    rates = [one.fps for one in attempts]
    return added_up([rate for rate in rates if rate is not None]) if None not in rates else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _sum(*values: float | None) -> float | None:
    known = _known(values)
    return sum(known) if known else None
