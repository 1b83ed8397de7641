"""The parts of a session put together: its slots, who works on them, and who keeps the books."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import structs

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.engine.aside import aside
from gmg_tui.engine.crew import Crew
from gmg_tui.engine.dispatcher import Dispatcher
from gmg_tui.engine.everywhere import Everywhere
from gmg_tui.engine.gate import Gate
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.logs import Logs
from gmg_tui.engine.place import Place
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.queue import JobQueue
from gmg_tui.engine.recorder import Recorder
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.engine.warden_line import WardenLine
from gmg_tui.genesis import caches
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.genesis.uses import may_use_genesis
from gmg_tui.gpu.egl import EglMap
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.model import Gpu, JobRecord, Phase, RunSpec, Session, SlotKind, StartWay, SweepSpec, WorkerState
from gmg_tui.results import Results
from gmg_tui.store.reader import Stored
from gmg_tui.store.spans import covered_s
from gmg_tui.store.writer import StoreWriter

PHASE_TIMES = "phase_times.json"
"""Beside the sessions' folder: how long the phases of each script took the last time."""
_KILLED = "interrupted: the engine was killed"


def assemble(
    spec: RunSpec,
    hardware: Hardware,
    pump: Pump,
    logs: Logs,
    warden: WardenLine,
    egl: Awaitable[EglMap],
    changed: Callable[[], None],
    trouble: Callable[[str | None], None],
) -> tuple[Supervisor, StoreWriter]:
    """A session's supervisor, and the store that it writes to.

    Args:
        spec: What to run.
        hardware: Where.
        pump: Reads the workers' pipes.
        logs: Write what they said.
        warden: Hears of every process.
        egl: The mapping from cards to EGL devices, once it is known.
        changed: Called when something that is shown has changed.
        trouble: Called from the store's thread, as `StoreWriter` says.

    Raises:
        StoreError: The store of a sweep cannot be read.
    """
    session = Session(spec, hardware.slots, os.getpid(), time.time(), gmg_tui.__version__)
    places = {slot.name: Place(slot, index, len(hardware.slots)) for index, slot in enumerate(hardware.slots)}
    times = _Times(hardware.slots[0].kind, spec.cwd)
    of_run = times.of(spec.script, module=spec.module)
    gate = Gate(spec.start or _way(spec, of_run))
    launcher = Launcher(spec, _at_once(hardware), pump, logs, _index_of(hardware.nvml), egl, gate, warden)
    path = Path(spec.folder) / sessions.STORE
    crew: Crew
    if spec.sweep is None:
        store = StoreWriter(path, trouble)
        recorder = Recorder(store, changed)
        crew = Everywhere(places, launcher, of_run, recorder)
    else:
        records, before_s, store = _go_on(path, spec.sweep, trouble)
        recorder = Recorder(store, changed)
        crew = Dispatcher(
            places,
            hardware.allowed,
            JobQueue(records, spec.sweep.groups),
            launcher,
            lambda group: times.of(group.script, module=group.module),
            recorder,
            changed,
            before_s,
        )
    store.session(session)
    return Supervisor(session, places, crew, recorder, times, launcher.egl_notes), store


def _go_on(
    path: Path, sweep: SweepSpec, trouble: Callable[[str | None], None]
) -> tuple[list[JobRecord], float, StoreWriter]:
    """The jobs of a sweep's store, for how many seconds it was at work, and the store's writer.

    What an engine that was killed left running waits again.
    """
    with Stored(path) as stored:
        before, attempts = stored.jobs, [one for those in stored.attempts.values() for one in those]
    results = Results(path.parent, Path(sweep.results) if sweep.results is not None else None)
    results.take(before, attempts)
    store = StoreWriter(path, trouble, results=results)
    for one in attempts:
        if one.attempt.ended is None and not one.attempt.state.ended:
            broken_off = structs.replace(one.attempt, state=WorkerState.STOPPED, reason=_KILLED)
            store.attempt(structs.replace(one, attempt=broken_off))
    records = [_waiting_again(record) for record in before]
    for was, record in zip(before, records, strict=True):
        if record is not was:
            store.job(record)
    spans = [(one.attempt.started, one.attempt.ended or one.attempt.started) for one in attempts]
    return records, covered_s(spans), store


def _waiting_again(record: JobRecord) -> JobRecord:
    if record.state.ended or record.state is WorkerState.WAITING:
        return record
    return structs.replace(record, state=WorkerState.WAITING, reason=_KILLED)


def _at_once(hardware: Hardware) -> int:
    """How many workers run at once at most, of those that were asked for."""
    return max((len(names) for names in hardware.allowed), default=len(hardware.slots))


def _index_of(nvml: Nvml | None) -> Callable[[Gpu], Awaitable[int]]:
    async def index_of(gpu: Gpu) -> int:
        return await aside(nvml.index_of, gpu.parent_uuid or gpu.uuid) if nvml is not None else gpu.index

    return index_of


def _way(spec: RunSpec, phase_times: PhaseTimes) -> StartWay:
    """How to start where nobody has said: gated, where the caches may be cold.

    They are warm for a script that has compiled before, and of no account for one that does not use Genesis.
    """
    warm = phase_times.usual(Phase.COMPILING) is not None and caches.exist(os.environ)
    if warm or (not spec.module and not may_use_genesis(Path(spec.cwd, spec.script))):
        return StartWay.TOGETHER
    return StartWay.GATED


class _Times:
    """The phases' times of a session's scripts."""

    def __init__(self, kind: SlotKind, cwd: str) -> None:
        self._kind = kind
        self._cwd = cwd
        self._known: dict[str, PhaseTimes] = {}

    def of(self, script: str, *, module: bool) -> PhaseTimes:
        """Those of a script, which takes other times on a card than on the CPU."""
        key = f"{script if module else Path(self._cwd, script).resolve()} on {self._kind}"
        if key not in self._known:
            self._known[key] = PhaseTimes.load(sessions.sessions_folder().parent / PHASE_TIMES, key)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        for times in self._known.values():
            times.save()
