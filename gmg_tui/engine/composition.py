"""The composition root: puts a session's parts together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

import gmg_tui
from gmg_tui import machine, units
from gmg_tui import session as sessions
from gmg_tui.ddp import torchrun
from gmg_tui.engine.allocation import AllocationWatch
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.attempts.launch import Launcher
from gmg_tui.engine.children import Children
from gmg_tui.engine.gpus.indices import GpuIndices
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.output.log_writer import LogWriter
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.process_scan import ProcessScan
from gmg_tui.engine.processes.scans import Scans
from gmg_tui.engine.records.moments import Moments
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.scheduling.queue_scheduler import QueueParts, QueueScheduler
from gmg_tui.engine.scheduling.replicated_scheduler import ReplicatedScheduler
from gmg_tui.engine.scheduling.scheduler import Scheduler
from gmg_tui.engine.scheduling.tune_scheduler import TuneScheduler
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.engine.telling.occurrences import Occurrences
from gmg_tui.engine.watchdog.client import WatchdogClient
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.workplace import OwnMachine, Workplace
from gmg_tui.errors import GmgError
from gmg_tui.genesis import caches
from gmg_tui.genesis.interpreter import genesis_versions, versions
from gmg_tui.genesis.phase_times import PhaseTimes, key_of
from gmg_tui.genesis.quiet_signs import QuietSigns
from gmg_tui.genesis.script_imports import may_use_genesis
from gmg_tui.gpu.egl import EglProbe
from gmg_tui.model import JobRecord, RunSpec, Session, SlotKind, StartMode, SweepSpec, Trial, TuneSpec, WorkerState
from gmg_tui.results import Results, tuning
from gmg_tui.results.tried import TriedArguments
from gmg_tui.store.reader import open_store
from gmg_tui.store.spans import covered_s
from gmg_tui.store.writer import StoreWriter
from gmg_tui.tune.searches import Searches
from gmg_tui.tune.slots import TuneSlot

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.fleet import Fleet

PHASE_TIMES = "phase_times.json"
"""Beside the sessions' folder: what is remembered of each script's starts."""
_KILLED = "interrupted: the engine was killed"
_ID_BYTES = 8


def assemble(
    spec: RunSpec,
    hardware: Hardware,
    pump: Pump,
    logs: LogWriter,
    children: Children,
    watchdog: WatchdogClient,
    egl: EglProbe,
    changed: Callable[[], None],
    trouble: Callable[[str | None], None],
    occurrences: Occurrences,
    fleet: Fleet | None = None,
) -> tuple[Supervisor, StoreWriter]:
    """A session's supervisor, and the store that it writes to.

    `changed` is called when something that is displayed has changed; `trouble` from the store's thread, as
    `StoreWriter` says.

    Raises:
        StoreError: The store of a sweep cannot be read.
    """
    session = Session(
        spec,
        hardware.slots,
        os.getpid(),
        time.time(),
        gmg_tui.__version__,
        id=fleet.session_id if fleet is not None else os.urandom(_ID_BYTES).hex(),
        boot_id=machine.boot_id(),
        pid_namespace=machine.pid_namespace(),
        idle=hardware.idle,
        versions=versions(spec.python),
    )
    slot_states = {slot.name: SlotState(slot, index, len(hardware.slots)) for index, slot in enumerate(hardware.slots)}
    times = _Times(hardware.slots[0].kind, spec)
    mesh_cache = caches.mesh_cache({**os.environ, **spec.env})
    known = times.of(spec.script, spec.args, module=spec.module)
    gate = Gate(spec.start or _way(spec, known), QuietSigns(mesh_cache))
    indices, at_once = GpuIndices(hardware.nvml, egl.renew), _at_once(hardware)
    launcher = Launcher(session, at_once, pump, logs, indices, egl, gate, watchdog, children, Scans())
    workplace: Workplace = OwnMachine(launcher, times.of)
    if fleet is not None:
        workplace = fleet.workplace(session)
    path = Path(spec.folder) / sessions.STORE
    scheduler: Scheduler
    tried = TriedArguments()
    agents_scheduler = None
    if spec.agent is not None:
        store = StoreWriter(path, trouble)
        recorder = Recorder(store, changed, tried, occurrences, None)
        from gmg_tui.engine.nodes.agent_scheduler import AgentScheduler  # other engines start the sooner

        scheduler = agents_scheduler = AgentScheduler(slot_states, workplace, recorder, changed)
    elif spec.sweep is None:
        store = StoreWriter(path, trouble)
        recorder = Recorder(store, changed, tried, occurrences, Moments(store, len(hardware.slots)))
        scheduler = ReplicatedScheduler(slot_states, workplace, recorder)
    else:
        records, before_s, store = _resume(path, spec.sweep, trouble, tried)
        records = [_without_slot(record, hardware, store) for record in records]
        recorder = Recorder(store, changed, tried, occurrences, Moments(store, len(hardware.slots)))
        queue = JobQueue(records, spec.sweep.batches)
        parts = QueueParts(slot_states, hardware.allowed, queue, workplace, recorder, changed, before_s)
        if spec.tune is not None:
            scheduler = TuneScheduler(parts, spec, *_search(spec, spec.tune, hardware))
        else:
            scheduler = QueueScheduler(parts)
    store.session(session)
    process_scan = ProcessScan(hardware.slots, launcher.scans)
    supervisor = Supervisor(
        session,
        slot_states,
        scheduler,
        recorder,
        process_scan,
        times.save,
        tried,
        AllocationWatch(children),
    )
    supervisor.fleet = fleet
    if agents_scheduler is not None:
        from gmg_tui.engine.nodes.agent import Agent

        supervisor.agent = Agent(
            spec, session.id, hardware.allowed, agents_scheduler, gate, lambda reason: supervisor.end(reason=reason)
        )
    if torchrun.starts(spec.script, module=spec.module) and spec.sweep is None:
        supervisor.note("torchrun", torchrun.instead(spec.script))
    return supervisor, store


def _search(spec: RunSpec, tune: TuneSpec, hardware: Hardware) -> tuple[Searches, list[Trial]]:
    """The search of a tuning, and the trials that have ended, which the session's folder has. Raises `GmgError`."""
    slots = [
        TuneSlot(slot.name, slot.gpu.name if slot.gpu else "CPU", slot.gpu.memory_total_mib if slot.gpu else None)
        for slot in hardware.slots
        if slot.name in hardware.allowed[0]
    ]
    recorded = tuning.read(Path(spec.folder))
    if recorded is not None and recorded.tuning.spec.variable != tune.variable:
        raise GmgError(f"{Path(spec.folder, tuning.TUNE)} is of another tuning, not one of {tune.variable}", 1)
    trials = recorded.tuning.trials if recorded is not None else ()
    ended = [trial for trial in trials if trial.state.ended and trial.value >= tune.low]
    return Searches(tune, slots, ended), ended


def _resume(
    path: Path, sweep: SweepSpec, trouble: Callable[[str | None], None], tried: TriedArguments
) -> tuple[list[JobRecord], float, StoreWriter]:
    """The jobs of a sweep's store, how many seconds it has worked, and the store's writer.

    Jobs that a killed engine left running wait again, and failed ones where that is asked for; `tried` is given all
    attempts.
    """
    with open_store(path) as stored:
        before, attempts = stored.jobs, [one for those in stored.attempts.values() for one in those]
    results = Results(path.parent, Path(sweep.results) if sweep.results is not None else None)
    results.take(before, attempts)
    store = StoreWriter(path, trouble, results=results)
    for one in attempts:
        if one.attempt.ended is None and not one.attempt.state.ended:
            broken_off = structs.replace(one.attempt, state=WorkerState.STOPPED, reason=_KILLED)
            one = structs.replace(one, attempt=broken_off)
            store.attempt(one)
        tried.add(one.slot, one.attempt)
    records = [_waiting_again(record, retry_failed=sweep.retry_failed) for record in before]
    for was, record in zip(before, records, strict=True):
        if record is not was:
            store.job(record)
    spans = [(one.attempt.started, one.attempt.ended or one.attempt.started) for one in attempts]
    return records, covered_s(spans), store


def _waiting_again(record: JobRecord, *, retry_failed: bool) -> JobRecord:
    if retry_failed and record.state is WorkerState.FAILED:
        return structs.replace(record, state=WorkerState.WAITING, reason=None, exit_code=None, ended=None)
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
    store.job(failed)
    return failed


def _at_once(hardware: Hardware) -> int:
    """How many workers run at once at most."""
    return max((len(names) for names in hardware.allowed), default=len(hardware.slots))


def _way(spec: RunSpec, known: PhaseTimes) -> StartMode:
    """How to start by default: gated if the mesh caches may be cold.

    They are warm for a script that has simulated before, and do not matter to one that does not use Genesis. Ranks of
    one group wait for each other as they start.
    """
    ranks = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
    uses_genesis = spec.module or may_use_genesis(Path(spec.cwd, spec.script))
    return StartMode.TOGETHER if known.meshes_written or ranks or not uses_genesis else StartMode.GATED


class _Times:
    """What is remembered of a session's scripts."""

    def __init__(self, kind: SlotKind, spec: RunSpec) -> None:
        self._kind = kind
        self._cwd = spec.cwd
        self._versions = genesis_versions(spec.python)
        self._caches_exist = caches.exist({**os.environ, **spec.env})
        self._known: dict[str, PhaseTimes] = {}

    def of(self, script: str, args: Sequence[str], *, module: bool) -> PhaseTimes:
        """What is remembered of a script with arguments, before placeholders are filled in."""
        key = key_of(script if module else str(Path(self._cwd, script).resolve()), args, self._kind)
        if key not in self._known:
            path = sessions.sessions_folder().parent / PHASE_TIMES
            self._known[key] = PhaseTimes(path, key, self._versions, caches_exist=self._caches_exist)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        for times in list(self._known.values()):
            times.save()
