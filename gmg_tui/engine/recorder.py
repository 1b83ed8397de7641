"""From what happens to workers to what the session's store keeps of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import structs

from gmg_tui.engine.place import Place
from gmg_tui.engine.worker import Worker
from gmg_tui.model import JobRecord, Slot, WorkerState
from gmg_tui.store.records import Event, FiguresRow, JobAttempt
from gmg_tui.store.writer import StoreWriter


class _Held:
    """A job that holds a slot."""

    def __init__(self, record: JobRecord) -> None:
        self.before = record
        """What was known when it got the slot."""
        self.record = record
        self.since = time.monotonic()
        self.energy_j: float | None = None
        """Of the attempts on this slot that have ended."""


class Recorder:
    """Keeps the records of the jobs that hold slots and hands every change to the store. It is the workers' watcher.

    Args:
        store: Writes them.
        changed: Called when something that is shown has changed.
    """

    def __init__(self, store: StoreWriter, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed
        self._held: dict[str, _Held] = {}
        """By slot."""
        self._stuck: dict[str, str] = {}
        """Slots whose worker was stuck when it was last looked at, with what was seen."""

    # What the crew tells

    def hold(self, record: JobRecord, slot: Slot, *, log: str) -> JobRecord:
        """A job gets a slot, and `log` for its log, a path in the session's folder. Returns its record."""
        gpu = slot.gpu
        record = structs.replace(
            record,
            slot=slot.name,
            gpu_index=gpu.index if gpu else None,
            gpu_uuid=gpu.uuid if gpu else None,
            log=log,
            reason=None,
        )
        self._held[slot.name] = _Held(record)
        self.keep(record)
        return record

    def give_back(self, worker: Worker, found: Mapping[str, Any] | None = None, **changes: Any) -> JobRecord:
        """A worker's job gives its slot back.

        Args:
            worker: The worker, which has ended.
            found: What the script has reported in a file; what it has printed goes before it.
            changes: What its record says otherwise than the worker does.

        Returns:
            The job's record.
        """
        record = self._record(worker)
        record = structs.replace(record, result={**(found or {}), **record.result}, **changes)
        return self._given_back(worker.slot.name, record)

    def drop(self, slot: str, record: JobRecord, reason: str) -> JobRecord:
        """The job on a slot has come to grief by a fault of ours. Returns its record."""
        held = self._held.get(slot)
        record = held.record if held is not None else record
        return self._given_back(
            slot, structs.replace(record, state=WorkerState.FAILED, reason=reason, ended=time.time())
        )

    def _given_back(self, slot: str, record: JobRecord) -> JobRecord:
        self._held.pop(slot, None)
        self._stuck.pop(slot, None)
        self.keep(record)
        said = f": {record.reason}" if record.reason else ""
        self.event(
            "job", f"job {record.number} ({record.name}) {record.state.value}{said}", slot=slot, job=record.number
        )
        return record

    def held(self, slot: str) -> tuple[JobRecord, float] | None:
        """The record of the job that holds a slot, and for how many seconds it has."""
        held = self._held.get(slot)
        return None if held is None else (held.record, time.monotonic() - held.since)

    def keep(self, record: JobRecord) -> None:
        """Keep a record as it is."""
        self._store.job(record)

    def event(self, kind: str, text: str, *, slot: str | None = None, job: int | None = None) -> None:
        """Keep that something has happened."""
        self._store.event(Event(time.time(), kind, text, slot, job))

    def figures(self, moment: float, places: Iterable[Place]) -> None:
        """Keep the figures of this second; `moment` is Unix time."""
        rows = [
            row for place in places if (row := _figures(moment, place, self._held.get(place.slot.name))) is not None
        ]
        if rows:
            self._store.figures(rows)

    # What the workers tell

    def changed(self, worker: Worker) -> None:
        """Something of a worker has changed."""
        slot = worker.slot.name
        held = self._held.get(slot)
        if held is not None and held.record.state is not worker.state:
            self._update(worker)
        if worker.stuck is not None and slot not in self._stuck:
            self.event("stuck", worker.stuck, slot=slot, job=worker.task.job)
        if worker.stuck is None:
            self._stuck.pop(slot, None)
        else:
            self._stuck[slot] = worker.stuck
        self._changed()

    def began(self, worker: Worker) -> None:
        """A worker's attempt is a process."""
        self._update(worker)
        self._attempt(worker)

    def ended(self, worker: Worker) -> None:
        """A worker's attempt has ended."""
        held, attempt = self._held.get(worker.slot.name), worker.attempt
        if held is None or attempt is None:
            return
        if attempt.meter.energy_j is not None:
            held.energy_j = (held.energy_j or 0.0) + attempt.meter.energy_j
        self._attempt(worker)
        self._update(worker)

    def _update(self, worker: Worker) -> None:
        held = self._held.get(worker.slot.name)
        if held is None:
            return
        held.record = self._record(worker)
        # A sweep's job has ended when its crew says so: what it has reported in a file is read before.
        if worker.task.job is None or not worker.state.ended:
            self.keep(held.record)

    def _attempt(self, worker: Worker) -> None:
        held, attempt = self._held.get(worker.slot.name), worker.attempt
        if held is None or attempt is None:
            return
        gpu = worker.slot.gpu
        self._store.attempt(
            JobAttempt(
                job=held.record.number,
                slot=worker.slot.name,
                gpu_index=attempt.gpu_index,
                gpu_uuid=gpu.uuid if gpu is not None else None,
                attempt=attempt.record(),
                log=held.record.log,
            )
        )

    def _record(self, worker: Worker) -> JobRecord:
        """What a worker's record is at this moment."""
        held, attempt = self._held[worker.slot.name], worker.attempt
        before = held.before
        record = structs.replace(
            before,
            state=worker.state,
            reason=worker.reason if worker.state.ended else None,
            ended=time.time() if worker.state.ended else None,
            out_dir=worker.out_dir or before.out_dir,
            elapsed_s=round((before.elapsed_s or 0.0) + time.monotonic() - held.since, 3),
        )
        if attempt is None:
            return record
        meter = attempt.meter
        running_j = meter.energy_j if attempt.ended is None else None
        return structs.replace(
            record,
            attempts=attempt.number,
            started=before.started
            if before.started is not None
            else (worker.past[0] if worker.past else attempt).started,
            exit_code=attempt.process.exit_code,
            gpu_index=attempt.gpu_index,
            fps=attempt.reader.fps,
            n_envs=attempt.reader.n_envs,
            memory_peak_mib=meter.memory_peak_mib,
            gpu_util_mean_pct=meter.gpu_util_mean_pct,
            power_mean_w=meter.power_mean_w,
            energy_j=_sum(before.energy_j, held.energy_j, running_j),
            result=dict(attempt.reported),
        )


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _figures(moment: float, place: Place, held: _Held | None) -> FiguresRow | None:
    worker = place.worker
    if worker is None or not worker.state.live or held is None:
        return None
    reading, attempt = worker.reading, worker.attempt
    running = attempt is not None and worker.state is WorkerState.RUNNING
    fps = attempt.reader.fps if attempt is not None and running else None
    return FiguresRow(
        moment,
        place.slot.name,
        held.record.number,
        fps.last if fps is not None else None,
        reading.gpu_util_pct if reading is not None else None,
        reading.memory_used_mib if reading is not None else None,
        reading.power_w if reading is not None else None,
        reading.temperature_c if reading is not None else None,
    )
