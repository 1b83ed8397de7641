"""Observes a session once a second, for snapshots, records and files. Faults here do not affect the workers."""

import asyncio
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.collisions import exclusive_paths, find_collisions, find_same_arguments
from gmg_tui.diagnosis.facts import Limit
from gmg_tui.engine import clock, speed
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.hardware import GpuSamples
from gmg_tui.engine.output.history import STEP_S
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.records.session_files import SessionFiles
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.engine.workers.slot import EngineSlot, update_others
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.gpu.processes import describe
from gmg_tui.machine.processes import Scans, Table, absolute_paths, files_open_for_writing
from gmg_tui.machine.slurm import AllocationWatch
from gmg_tui.model import Details, GpuProcess, GpuSample, Snapshot, Worker, WorkerState
from gmg_tui.model.alert import by_urgency
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tried import below_median

_FILES_INTERVAL_S = 10.0
"""Interval of scans of the files that workers have open."""
_SCAN_INTERVAL_S = 2.0
"""Interval of scans of all processes: a pass over `/proc` costs 10 to 20 microseconds per process."""
_UNWATCHED_SCAN_INTERVAL_S = 5.0
_MAX_SCRIPT_BYTES = 1 << 20
"""Interval of the same scans while no client is connected."""


class Observer:
    """Watches the `work` of a session in several loops.

    `save_phase_times` is called when session files are written.

    Attributes:
        recorder: Writes the session's records.
        clients: Number of clients with control.
        watched: True if any client is connected.
    """

    def __init__(
        self, work: Supervisor, recorder: Recorder, scans: Scans, save_phase_times: Callable[[], None]
    ) -> None:
        self.clients, self.watched = 0, False
        self.recorder, self._work, self._faults, self._scans = recorder, work, work.faults, scans
        self._zombies: frozenset[int] = frozenset()
        self._files_read_at = -math.inf
        """Time of the last scan of files that workers have open, monotonic seconds."""
        self._allocation = AllocationWatch()
        uuids = (slot.gpu.uuid for slot in work.session.slots if slot.gpu is not None)
        self._samples = GpuSamples(uuids, work.session.spec.interval_s, time.monotonic())
        self._nvml_error: str | None = None
        self.session_files = SessionFiles(work.session, save_phase_times, self.snapshot, work.note)

    async def run(self, read: Callable[[], None], send: Callable[[Snapshot | None], None]) -> None:
        """Watches until cancelled. A fault in one loop affects neither the others nor the work.

        Each second begins with `read`, which reads the workers' output and the GPUs' samples, and ends with `send`,
        which sends clients a snapshot (None without clients).
        """
        loops = {
            "the beat": lambda: self._beat(read, send),
            "the session's files": self.session_files.run,
            "the allocation": self._allocation.run,
            **({"the scan of processes": self._scan} if self._work.fleet is None else {}),
            "the arguments": self._check_arguments,
        }
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, loop in loops.items():
                    tasks.create_task(self._faults.keep_running(name, loop), name=name)
        finally:
            self._faults.guard("records", lambda: self.recorder.write(self.snapshot()))

    async def _beat(self, read: Callable[[], None], send: Callable[[Snapshot | None], None]) -> None:
        """Does all of a second's work in one go: waking up costs more than most of it.

        If that takes longer, clients and workers still get a second in between.
        """
        loop, guard = asyncio.get_running_loop(), self._faults.guard
        due = loop.time()
        while True:
            began = loop.time()
            guard("output", read)
            if self._work.fleet is not None:
                guard("nodes", self._work.fleet.report, self.update_samples, self._work.note)
            if guard("samples", self._samples.expire, time.monotonic()):
                guard("samples", self._distribute_samples, time.monotonic())
            for engine_slot in self._work.slots.values():
                if engine_slot.attempt is not None:
                    guard("logs", engine_slot.attempt.poll)
            guard("the checks of groups and jobs", self._work.beat)
            views, now = self._views(), time.monotonic()
            views = guard("alerts", self._diagnose, views, now) or views
            moment = clock.unix(now)
            for engine_slot, view in zip(self._work.slots.values(), views, strict=True):
                guard("histories", engine_slot.add_to_history, moment, view)
            snapshot = partial(self.snapshot, views)
            guard("records", self.recorder.beat, moment, views, self._work.slots, snapshot)
            guard("clients", send, guard("clients", snapshot) if self.watched else None)
            now = loop.time()
            due = max(due + STEP_S, now + min(now - began, STEP_S))
            await asyncio.sleep(due - now)

    async def _scan(self) -> None:
        """Scans all processes at intervals, updates the workers, and finds those on the wrong GPU."""
        while True:
            try:
                table = await self._scans.table()
            except OSError as error:  # too many open files
                trouble = f"/proc cannot be read: {error.strerror}; the workers' CPU and memory are out of date"
                self._work.note("processes", trouble)
            else:
                self._work.note("processes", None)
                self._reap(table)
                now = time.monotonic()
                attempts = [slot.attempt for slot in self._work.slots.values() if slot.attempt is not None]
                for attempt in attempts:
                    self._faults.guard("the scan of processes", attempt.inspect, table, now)
                self._find_misplaced(attempts)
                await update_others(self._work.slots.values(), self._work.session.spec)
                if now - self._files_read_at >= _FILES_INTERVAL_S:
                    self._files_read_at = now
                    for attempt in attempts:
                        saved, pids = tuple(attempt.readings.reader.saved.paths), tuple(attempt.pids)
                        attempt.readings.written = await in_daemon_thread(_find_written, saved, pids)
            await asyncio.sleep(_SCAN_INTERVAL_S if self.watched else _UNWATCHED_SCAN_INTERVAL_S)

    async def _check_arguments(self) -> None:
        """Raises an alert if workers get the same arguments although the script could tell them apart."""
        spec = self._work.session.spec
        if all(option is None for option in (spec.sweep, spec.ddp, spec.agent, spec.nodes)) and not spec.module:
            with suppress(OSError):
                source = await in_daemon_thread(_start_of, Path(spec.script_path))
                args = (*spec.args, *spec.env.values())
                sign = find_same_arguments(source, args, len(self._work.session.slots))
                self._work.note("arguments", f"{sign.text}; {sign.advice}" if sign is not None else None)

    def _reap(self, table: Table) -> None:
        """Reaps adopted orphans.

        Asyncio reaps the processes it started within milliseconds once that is possible; a child that could be reaped
        at two scans in a row is an adopted one.
        """
        children = table.children(os.getpid())
        zombies = frozenset(proc.pid for proc in children if not proc.is_alive and _is_reapable(proc.pid))
        for pid in zombies & self._zombies:
            with suppress(ChildProcessError):  # asyncio was quicker
                os.waitpid(pid, os.WNOHANG)
        self._zombies = zombies - self._zombies

    def _find_misplaced(self, attempts: Iterable[LocalAttempt]) -> None:
        """Marks attempts whose processes NVML lists on other GPUs, but not on their slot's."""
        uuids_by_pid = defaultdict[int | None, set[str]](set)
        for uuid, sample in self._samples.newest.items():
            for process in sample.processes or ():
                uuids_by_pid[process.own_pid].add(uuid)
        for attempt in attempts:
            slot = attempt.slot
            uuids = set[str]().union(*(uuids_by_pid[pid] for pid in attempt.pids & uuids_by_pid.keys()))
            misplaced = None
            if uuids and slot.gpu is not None and not slot.is_mig and slot.gpu.uuid not in uuids:
                others = [other.name for other in self._work.session.slots if other.gpu and other.gpu.uuid in uuids]
                misplaced = f"runs on {', '.join(others)} instead of {slot.name}" if others else None
            attempt.readings.misplaced = misplaced

    def _views(self) -> tuple[Worker, ...]:
        slots, guard = self._work.slots.values(), self._faults.guard
        return tuple(guard("views", slot.view) or slot.bare_view() for slot in slots)

    def _diagnose(self, views: tuple[Worker, ...], now: float) -> tuple[Worker, ...]:
        """Raises the alerts of all slots, and acts on new ones. Returns the views with the alerts."""
        pairs = tuple(zip(self._work.slots.values(), views, strict=True))
        # Ranks run at the rate of the slowest, rank 0 may report for all, and queued jobs differ: none can be compared.
        below_pct = below_median(
            (slot.slot, view.newest)
            for slot, view in pairs
            if view.state is WorkerState.RUNNING and view.group is None and view.job is None and view.lost_since is None
        )
        live = [(slot, view) for slot, view in pairs if view.state.live]
        # Of workers on other nodes, their agents find the collisions.
        own = live if self._work.fleet is None else ()
        files = {view.slot: _paths_written(slot, view) for slot, view in own}
        groups = {view.slot: view.group.id for _, view in live if view.group is not None}
        signs = find_collisions({slot: exclusive_paths(paths) for slot, paths in files.items()}, groups)
        ends = self._allocation.newest.ends if self._allocation.newest is not None else None
        for slot, view in pairs:
            slot.collision = signs.get(view.slot)
            slot.below_median_pct = below_pct.get(view.slot)
            slot.limit = Limit(ends, "Slurm's limit") if ends is not None else None
            worker = slot.worker if view.attempt else None
            cleared = self._faults.guard("alerts", slot.diagnose, view, now, worker)
            if worker is not None:
                if view.newest.checkpoint is not None:
                    self._faults.guard("records", self.recorder.checkpoint_saved, worker, view.newest.checkpoint)
                for alert in cleared or ():
                    self.recorder.recovered(worker, alert)
        return tuple(
            view if alerts == view.alerts else structs.replace(view, alerts=alerts)
            for slot, view in pairs
            for alerts in (slot.alerts_of(slot.worker if view.attempt else None),)
        )

    def update_samples(self, now: float, samples: tuple[GpuSample, ...], error: str | None) -> None:
        """Applies the sampler's samples at `now`, monotonic seconds."""
        self._samples.update(samples, now)
        self._nvml_error = error
        self._faults.guard("samples", self._distribute_samples, now)

    def _distribute_samples(self, now: float) -> None:
        """Passes the newest samples to the slots and the scheduler."""
        live = Counter(worker.slot.gpu.uuid for worker in self._work.workers if worker.slot.gpu and worker.state.live)
        for slot in self._work.slots.values():
            uuid = slot.gpu_uuid
            sharers, sample = (live[uuid], self._samples.newest.get(uuid)) if uuid is not None else (1, None)
            self._faults.guard("samples", slot.measure, sample, now, sharers)
        if self._work.queue is not None:
            self._work.queue.check_gpus(self._nvml_error)

    # For clients

    def snapshot(self, views: tuple[Worker, ...] | None = None) -> Snapshot:
        """Returns a snapshot; `views` are the slots' current views (None: make them)."""
        now, guard, jobs = time.monotonic(), self._faults.guard, self._work.queue
        return Snapshot(
            time=clock.unix(now),
            elapsed_s=self._work.elapsed_s(now),
            workers=tuple(map(_with_newest_checkpoint, self._views() if views is None else views)),
            samples=guard("samples", self._current_samples, now) or (),
            nvml_error=self._nvml_error,
            clients=self.clients,
            saved=self._work.saved.is_set(),
            queue=guard("the queue", jobs.queue) if jobs is not None else None,
            tuning=guard("the tuning", jobs.source.tuning) if jobs is not None and jobs.source is not None else None,
            groups=guard("groups", self._work.groups) or (),
            nodes=(guard("nodes", self._work.fleet.views, now) if self._work.fleet is not None else None) or (),
            allocation=self._allocation.newest,
            occurred=(notifications := self.recorder.notifications).newest,
            events=notifications.events[-1].number if notifications.events else 0,
            alerts=by_urgency(self._work.notes.values()),
        )

    def _current_samples(self, now: float) -> tuple[GpuSample, ...]:
        samples = tuple(self._samples.current(now))
        if self._work.fleet is not None:  # PIDs belong to the agents' machines
            return samples
        owners = self._owners()
        return tuple(
            structs.replace(sample, processes=_with_owners(sample.processes, owners)) if sample.processes else sample
            for sample in samples
        )

    def tried(self) -> tuple[model.ArgumentResults, ...]:
        """Returns all arguments tried in this session."""
        newest = ((worker.slot.name, worker.attempt) for worker in self._work.workers)
        live = [(slot, attempt) for slot, attempt in newest if attempt is not None and not attempt.state.ended]
        return self.recorder.tried.results(live, clock.now())

    def _owners(self) -> dict[int, str]:
        """Returns the name of each worker process's slot, by PID."""
        attempts = [slot.attempt for slot in self._work.slots.values() if slot.attempt is not None]
        return {pid: attempt.slot.name for attempt in attempts for pid in attempt.pids}

    async def curves(self, slot: str, name: str, count: int) -> dict[str, model.Curve]:
        """Returns the curves of a slot's newest attempt, by the metric's name. Raises `GmgError`."""
        engine_slot = self._work.engine_slot(slot)
        worker = (engine_slot.lead or engine_slot).worker
        return await worker.newest.curves(name, count) if worker is not None and worker.newest is not None else {}

    async def details(self, slot: str) -> Details:
        """Returns the details of a slot: of its worker, if any, and its GPU's processes. Raises `GmgError`."""
        engine_slot = self._work.engine_slot(slot)
        worker_slot = engine_slot.lead or engine_slot
        details = Details(slot, (), self._work.session.spec.cwd, {}, (), "unknown before the first attempt", ())
        if worker_slot.worker is not None:
            details = await worker_slot.worker.details()
        sample = worker_slot.sample
        if sample is None or sample.processes is None or self._work.fleet is not None:
            return details
        described = await in_daemon_thread(describe, sample.processes)
        return structs.replace(details, processes=_with_owners(described, self._owners()))

    async def speed(self, slot: str) -> model.SpeedFacts:
        """Returns the facts about the speed of the worker on a slot. Raises `GmgError`."""
        group = map(self._work.engine_slot, self._work.group_slots(slot))
        return await speed.facts_of(self._worker_slot(slot), group, self._owners(), self._work.session.spec)

    async def hot_spot(self, slot: str) -> model.HotSpot | None:
        """Returns the hot spot of the script on a slot, from its stacks; None without one. Raises `GmgError`."""
        return await speed.hot_spot_of(self._worker_slot(slot))

    def _worker_slot(self, slot: str) -> EngineSlot:
        """Returns the slot whose worker uses this one. Raises `GmgError` if there is none."""
        engine_slot = self._work.engine_slot(slot)
        worker_slot = engine_slot.lead or engine_slot
        if worker_slot.worker is None:
            raise GmgError(f"no job has run on {slot} yet", 1)
        return worker_slot

    async def stacks(self, slot: str) -> tuple[model.Stacks, ...]:
        """Returns the Python stacks of the worker on a slot, or of all ranks of its group, requested at once.

        Raises `GmgError` if there is no such slot, no job has run there, or a node does not answer.
        """
        group = self._work.group_slots(slot)
        workers = [worker for name in group if (worker := self._work.engine_slot(name).worker) is not None]
        if not workers:
            raise GmgError(f"no job has run on {slot} yet", 1)
        return tuple(await asyncio.gather(*(worker.stacks() for worker in workers)))


def _with_newest_checkpoint(view: Worker) -> Worker:
    """Returns a view without the earlier checkpoints, which no client needs."""
    if len(view.newest.checkpoints) < 2:
        return view
    return structs.replace(view, newest=structs.replace(view.newest, checkpoints=view.newest.checkpoints[-1:]))


def _is_reapable(pid: int) -> bool:
    """True if a child can be reaped; False while a debugger holds it, and once it has been reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _find_written(saved: Sequence[str], pids: Sequence[int]) -> set[str]:
    return files_open_for_writing(pids) | absolute_paths(saved, pids)


def _start_of(script: Path) -> str:
    with open_for_reading(script) as file:
        return file.read(_MAX_SCRIPT_BYTES).decode("utf-8", "replace")


def _paths_written(slot: EngineSlot, view: Worker) -> set[str]:
    """Returns the files that a slot's attempt writes; earlier attempts may have saved elsewhere, as on an untrusted node."""
    earlier = slot.worker.task.checkpoints if slot.worker is not None else ()
    newest = view.newest
    saved = {each.path for each in newest.checkpoints if each not in earlier and each.saved >= newest.started}
    return saved if slot.attempt is None else slot.attempt.readings.written | saved


def _with_owners(processes: tuple[GpuProcess, ...], owners: Mapping[int, str]) -> tuple[GpuProcess, ...]:
    """Returns the processes, each with its worker's slot, looked up by PID in `owners`."""
    return tuple(structs.replace(process, slot=owners.get(process.own_pid or 0)) for process in processes)
