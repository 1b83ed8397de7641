"""What a sweep or a tuning goes on with: the jobs and the trials that its store has."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, RunSpec, SweepSpec, Trial, TuneSpec, WorkerState
from gmg_tui.results.tried import TriedArguments
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import covered_s
from gmg_tui.store.writer import StoreWriter
from gmg_tui.tune.record import TuneSlot
from gmg_tui.tune.search import Search

_KILLED = "interrupted: the engine was killed"


def search_of(spec: RunSpec, tune: TuneSpec, hardware: Hardware) -> tuple[Search, list[Trial]]:
    """The search of a tuning, and the trials that have ended, which the session's store has. Raises `GmgError`."""
    slots = [
        TuneSlot(slot.name, slot.gpu.name if slot.gpu else "CPU", slot.gpu.memory_total_mib if slot.gpu else None)
        for slot in hardware.slots
        if slot.name in hardware.allowed[0]
    ]
    with open_store(Path(spec.folder) / sessions.STORE) as stored:
        snapshot = stored.last_snapshot
    before = snapshot.tuning if snapshot is not None else None
    if before is not None and before.spec.variable != tune.variable:
        raise GmgError(f"{spec.name} has tuned {before.spec.variable}, not {tune.variable}", 1)
    trials = before.trials if before is not None else ()
    ended = [trial for trial in trials if trial.state.ended and trial.value >= tune.low]
    return Search(tune, slots, ended), ended


def queue_of(
    path: Path, sweep: SweepSpec, hardware: Hardware, store: StoreWriter, tried: TriedArguments
) -> tuple[JobQueue, float]:
    """The queue of a sweep, from its store, and how many seconds it has worked. Raises `StoreError`.

    Jobs that a killed engine left running wait again, and failed ones where that is asked for; `tried` is given all
    attempts.
    """
    with open_store(path) as stored:
        before, attempts = stored.jobs, [ran for those in stored.attempts.values() for ran in those]
    for ran in attempts:
        attempt = ran.attempt
        if attempt.ended is None and not attempt.state.ended:
            attempt = structs.replace(attempt, state=WorkerState.STOPPED, reason=_KILLED)
            store.put(structs.replace(ran, attempt=attempt))
        tried.add(ran.slot, attempt)
    records = [_waiting_again(record, retry_failed=sweep.retry_failed) for record in before]
    for was, record in zip(before, records, strict=True):
        if record is not was:
            store.put(record)
    spans = [(ran.attempt.started, ran.attempt.ended or ran.attempt.started) for ran in attempts]
    queue = JobQueue([_without_slot(record, hardware, store) for record in records], sweep.batches)
    return queue, covered_s(spans)


def _waiting_again(record: JobRecord, *, retry_failed: bool) -> JobRecord:
    if retry_failed and record.state is WorkerState.FAILED:
        return structs.replace(record, state=WorkerState.WAITING, reason=None, ended=None)
    if record.state.ended or record.state is WorkerState.WAITING:
        return record
    return structs.replace(record, state=WorkerState.WAITING, reason=_KILLED)


def _without_slot(record: JobRecord, hardware: Hardware, store: StoreWriter) -> JobRecord:
    """The record of a job; a failed one where the job needs slots that its batch has not, and would wait for ever."""
    slots = hardware.allowed[record.batch]
    if record.state.ended or (record.only in (None, *slots) and record.gpus <= len(slots)):
        return record
    reason = f"needs {units.count(record.gpus, 'slot')} at once, and its batch has {len(slots)}"
    if record.only not in (None, *slots):
        reason = f"must run on {record.only}, which is not among its slots: {', '.join(sorted(slots))}"
    failed = structs.replace(record, state=WorkerState.FAILED, reason=reason)
    store.put(failed)
    return failed
