"""One session's state: its workers and its cards, and what can be done to them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.engine import proctree
from gmg_tui.engine.aside import aside
from gmg_tui.engine.history import STEP_S
from gmg_tui.engine.keeper import Keeper
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.logfile import LogFile
from gmg_tui.engine.ring import Ring
from gmg_tui.engine.view import details, worker_view
from gmg_tui.engine.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.gpu.processes import describe
from gmg_tui.model import Details, GpuProcess, GpuReading, RunSpec, Series, Session, Slot, SlotKind, Snapshot
from gmg_tui.protocol import Action

_log = logging.getLogger(__name__)

PHASE_TIMES = "phase_times.json"
"""Beside the sessions' folder: how long the phases of each script took the last time."""

_SCAN_S = 2.0
"""How often the workers' processes are looked at: a pass over `/proc` costs 10 to 20 microseconds a process."""
_RING_BYTES = 8 << 20
"""For the kept lines of all workers together."""
_RING_LINES = 4000
_RING_LEAST_BYTES = 128 << 10


class Supervisor:
    """The engine's state.

    Args:
        spec: What to run.
        slots: Where.
        launcher: Makes the attempts.
        phase_times: How long the phases of this script take.
        changed: Called when a state has changed and clients should hear of it soon.
    """

    def __init__(
        self,
        spec: RunSpec,
        slots: tuple[Slot, ...],
        launcher: Launcher,
        phase_times: PhaseTimes,
        changed: Callable[[], None],
    ) -> None:
        folder = Path(spec.folder)
        self.session = Session(spec, slots, os.getpid(), time.time(), gmg_tui.__version__)
        self.all_ended = asyncio.Event()
        self.clients = 0
        self._launcher = launcher
        self._changed = changed
        self._started = time.monotonic()
        self._stopped_at: float | None = None
        room = max(_RING_LEAST_BYTES, _RING_BYTES // len(slots))
        self.workers = {
            slot.name: Worker(
                slot,
                index,
                launcher,
                LogFile(folder / sessions.LOGS / f"{slot.name}.log"),
                Ring(_RING_LINES, room),
                phase_times,
                self._worker_changed,
            )
            for index, slot in enumerate(slots)
        }
        self.keeper = Keeper(self.session, phase_times, self.snapshot, self.note)
        self._readings: dict[str, GpuReading] = {}
        self._nvml_error: str | None = None
        self._notes: dict[str, str] = {}
        self._ending = False
        self._zombies: frozenset[int] = frozenset()

    # Its life

    async def run(self) -> None:
        """Run all workers until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            for worker in self.workers.values():
                tasks.create_task(worker.run(), name=worker.slot.name)
            tasks.create_task(self._beat(), name="beat")
            tasks.create_task(self.keeper.run(), name="keeper")

    async def _beat(self) -> None:
        """What is done each second: histories, logs, processes."""
        loop = asyncio.get_running_loop()
        due = scan_due = loop.time()
        while True:
            now = loop.time()
            if now >= scan_due:
                scan_due = now + _SCAN_S
                self._scan()
            moment = time.time()
            for worker in self.workers.values():
                if worker.attempt is not None and worker.state.live:
                    worker.attempt.settle()
                worker.remember(moment)
            due = max(due + STEP_S, now)
            await asyncio.sleep(due - loop.time())

    def _scan(self) -> None:
        try:
            table = proctree.scan()
        except OSError as error:  # too many open files: looked at again at the next beat
            self.note("processes", f"/proc cannot be read: {error.strerror}; the workers' CPU and memory are old")
            return
        self.note("processes", None)
        now = time.monotonic()
        for worker in self.workers.values():
            worker.look(table, now)
        self._reap(table)
        self._find_misplaced()

    def _reap(self, table: proctree.Table) -> None:
        """Reap adopted orphans.

        Asyncio waits for the processes that it started itself, within milliseconds of their end; one of our children
        that is dead in two passes in a row has nobody else to wait for it.
        """
        dead = frozenset(proc.pid for proc in table.children(os.getpid()) if proc.state == "Z")
        for pid in dead & self._zombies:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # asyncio was quicker after all
        self._zombies = dead - self._zombies

    def _find_misplaced(self) -> None:
        """Tell workers whose process NVML sees on another card than their slot's."""
        for worker in self.workers.values():
            if worker.slot.kind is not SlotKind.GPU:
                continue
            own = worker.slot.gpu
            assert own is not None
            found = [
                slot.name
                for slot in self.session.slots
                if slot.gpu is not None and slot.gpu.uuid != own.uuid and self._holds(slot.gpu.uuid, worker.pids)
            ]
            here = self._holds(own.uuid, worker.pids)
            worker.misplaced = (
                f"runs on {', '.join(found)} instead of {worker.slot.name}" if found and not here else None
            )

    def _holds(self, uuid: str, pids: frozenset[int]) -> bool:
        reading = self._readings.get(uuid)
        return reading is not None and any(process.pid in pids for process in reading.processes or ())

    def _worker_changed(self) -> None:
        ended = all(worker.state.ended for worker in self.workers.values())
        if ended and not self.all_ended.is_set():
            self._stopped_at = time.monotonic()
            self.all_ended.set()
        elif not ended and self.all_ended.is_set():
            self._stopped_at = None
            self.all_ended.clear()
        self._changed()

    def take_readings(self, readings: tuple[GpuReading, ...], error: str | None) -> None:
        """Take what the sampler has read."""
        now = time.monotonic()
        self._readings = {reading.uuid: reading for reading in readings}
        self._nvml_error = error
        for worker in self.workers.values():
            worker.measure(self._reading_of(worker), now)

    def _reading_of(self, worker: Worker) -> GpuReading | None:
        return self._readings.get(worker.slot.gpu.uuid) if worker.slot.gpu is not None else None

    # What it shows

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        now = time.monotonic()
        return Snapshot(
            time=time.time(),
            elapsed_s=(self._stopped_at or now) - self._started,
            workers=tuple(worker_view(worker, now) for worker in self.workers.values()),
            readings=tuple(self._with_slots(reading) for reading in self._readings.values()),
            nvml_error=self._nvml_error,
            notes=tuple(self._notes.values()),
            clients=self.clients,
        )

    def _with_slots(self, reading: GpuReading) -> GpuReading:
        if not reading.processes:
            return reading
        return structs.replace(reading, processes=self._owned(reading.processes))

    def _owned(self, processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
        owners = {pid: worker.slot.name for worker in self.workers.values() for pid in worker.pids}
        return tuple(structs.replace(process, slot=owners.get(process.pid)) for process in processes)

    def recent(self) -> tuple[Series, ...]:
        """The last minutes of each worker."""
        return tuple(worker.history.recent(name) for name, worker in self.workers.items())

    def series(self, slot: str) -> Series:
        """A worker's figures over its whole life. Raises `GmgError` when there is no such slot."""
        return self._worker(slot).history.whole(slot)

    async def details(self, slot: str) -> Details:
        """What a details screen shows. Raises `GmgError` when there is no such slot."""
        worker = self._worker(slot)
        found = details(worker, self.session.spec.cwd, self._launcher.egl_notes.get(slot, "not asked yet"))
        reading = self._reading_of(worker)
        if reading is None or reading.processes is None:
            return found
        described = await aside(describe, reading.processes)
        return structs.replace(found, processes=self._owned(described))

    # What it is told

    def act(self, action: Action, slots: tuple[str, ...]) -> None:
        """Do something to workers. Raises `GmgError` when there is no such slot or the session is ending."""
        workers = [self._worker(slot) for slot in slots]
        if action is Action.RESTART:
            self._check_open()
        for worker in workers:
            match action:
                case Action.RESTART:
                    worker.restart()
                case Action.STOP:
                    worker.stop()
                case Action.KILL:
                    worker.stop(kill=True)

    def edit(self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart workers with other arguments. Raises `GmgError` as `act` does."""
        self._check_open()
        for worker in [self._worker(slot) for slot in slots]:
            worker.edit(args, env)

    async def end_process(self, slot: str, pid: int, *, kill: bool = False) -> None:
        """End a process on the slot's card that is not this session's.

        Raises:
            GmgError: It is not there, is another user's, or belongs to a worker.
        """
        processes = (await self.details(slot)).processes or ()
        found = next((process for process in processes if process.pid == pid), None)
        if found is None:
            raise GmgError(f"process {pid} is not on {slot}'s card any more", 1)
        if found.slot is not None:
            raise GmgError(f"process {pid} is {found.slot}'s worker; x stops it", 1)
        if found.command is None and found.user is None:
            raise GmgError(f"process {pid} is in another container, or has ended", 1)
        try:
            if proctree.owner(pid) != os.getuid():
                raise GmgError(f"process {pid} belongs to {found.user}", 1)
            os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise GmgError(f"process {pid} has ended", 1) from error
        _log.info("sent %s to process %d (%s)", "SIGKILL" if kill else "SIGTERM", pid, found.command or found.name)

    def end(self, *, kill: bool = False) -> None:
        """Stop all workers, for good."""
        self._ending = True
        for worker in self.workers.values():
            worker.stop(kill=kill)

    def _check_open(self) -> None:
        if self._ending:
            raise GmgError("the session is being stopped; start another one", 1)

    def _worker(self, slot: str) -> Worker:
        worker = self.workers.get(slot)
        if worker is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self.workers)}", 1)
        return worker

    def note(self, subject: str, text: str | None) -> None:
        """Say something of the session itself on all screens, or (None) say it no more."""
        if text is None:
            self._notes.pop(subject, None)
        elif self._notes.get(subject) != text:
            self._notes[subject] = text
            _log.warning("%s", text)
