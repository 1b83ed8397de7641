"""One session's state: its workers and its cards, and what can be done to them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Mapping

from msgspec import structs

from gmg_tui.engine import proctree
from gmg_tui.engine.aside import aside
from gmg_tui.engine.crew import Crew
from gmg_tui.engine.history import STEP_S
from gmg_tui.engine.keeper import Keeper, Saved
from gmg_tui.engine.place import Place
from gmg_tui.engine.recorder import Recorder
from gmg_tui.engine.view import details, place_view
from gmg_tui.engine.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.gpu.processes import describe
from gmg_tui.model import (
    Details,
    GpuProcess,
    GpuReading,
    QueueAction,
    QueueView,
    Series,
    Session,
    SlotKind,
    Snapshot,
)
from gmg_tui.protocol import Action

_log = logging.getLogger(__name__)

_SCAN_S = 2.0
"""How often the workers' processes are looked at: a pass over `/proc` costs 10 to 20 microseconds a process."""


class Supervisor:
    """The engine's state.

    Args:
        session: The session.
        places: Its slots, by name.
        crew: Who works on them.
        recorder: What the store is told by.
        phase_times: How long the phases of its scripts take; saved along.
        egl_notes: How each slot's EGL index was found, or why it is unset.

    Attributes:
        all_ended: Set while no work is left.
        clients: How many clients there are.
        rings: The newest lines of each slot.
    """

    def __init__(
        self,
        session: Session,
        places: Mapping[str, Place],
        crew: Crew,
        recorder: Recorder,
        phase_times: Saved,
        egl_notes: Mapping[str, str],
    ) -> None:
        self.session = session
        self.all_ended = asyncio.Event()
        self.clients = 0
        self.rings = {name: place.ring for name, place in places.items()}
        self._places = places
        self._crew = crew
        self._recorder = recorder
        self._egl_notes = egl_notes
        self._since: float | None = time.monotonic()
        """Since when there is work, monotonic seconds; None while there is none."""
        self._worked_s = 0.0
        """How long there was work before."""
        self.keeper = Keeper(self.session, phase_times, self.snapshot, self._states, self.note)
        self._readings: dict[str, GpuReading] = {}
        self._nvml_error: str | None = None
        self._notes: dict[str, str] = {}
        self._ending = False
        self._zombies: frozenset[int] = frozenset()

    @property
    def _workers(self) -> list[Worker]:
        """The present or last worker of each slot that has had one."""
        return [place.worker for place in self._places.values() if place.worker is not None]

    # Its life

    async def run(self) -> None:
        """Have all work done until cancelled; whatever runs then is killed."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._crew.run(), name="crew")
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
            for worker in self._workers:
                if worker.attempt is not None and worker.state.live:
                    worker.attempt.settle()
                worker.remember(moment)
            self._recorder.figures(moment, self._places.values())
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
        for worker in self._workers:
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
        cards: dict[int, set[str]] = {}
        for reading in self._readings.values():
            for process in reading.processes or ():
                cards.setdefault(process.pid, set()).add(reading.uuid)
        for worker in self._workers:
            if worker.slot.kind is not SlotKind.GPU:
                continue
            own = worker.slot.gpu
            assert own is not None
            on = {uuid for pid in worker.pids for uuid in cards.get(pid, ())}
            found = [
                slot.name
                for slot in (self.session.slots if on and own.uuid not in on else ())
                if slot.gpu is not None and slot.gpu.uuid in on
            ]
            worker.misplaced = f"runs on {', '.join(found)} instead of {worker.slot.name}" if found else None

    def changed(self) -> None:
        """Something of the work has changed: see whether any is left."""
        ended = self._crew.ended
        if ended and not self.all_ended.is_set():
            self._worked_s, self._since = self._elapsed_s(time.monotonic()), None
            self.all_ended.set()
        elif not ended and self.all_ended.is_set():
            self._since = time.monotonic()
            self.all_ended.clear()

    def _elapsed_s(self, now: float) -> float:
        return self._worked_s + (now - self._since if self._since is not None else 0.0)

    def _states(self) -> list[object]:
        """What of the workers is worth writing the session's record for."""
        return [
            (worker.task.job, worker.state, worker.stuck is None, worker.reason, worker.attempt_started)
            for worker in self._workers
        ]

    def take_readings(self, readings: tuple[GpuReading, ...], error: str | None) -> None:
        """Take what the sampler has read."""
        now = time.monotonic()
        self._readings = {reading.uuid: reading for reading in readings}
        self._nvml_error = error
        for worker in self._workers:
            worker.measure(self._reading_of(worker), now)
        self._crew.take_readings(self._readings, error)

    def _reading_of(self, worker: Worker) -> GpuReading | None:
        return self._readings.get(worker.slot.gpu.uuid) if worker.slot.gpu is not None else None

    # What it shows

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        now = time.monotonic()
        owners = self._owners()
        return Snapshot(
            time=time.time(),
            elapsed_s=self._elapsed_s(now),
            workers=tuple(place_view(place, now) for place in self._places.values() if place.shown),
            readings=tuple(_with_slots(reading, owners) for reading in self._readings.values()),
            nvml_error=self._nvml_error,
            notes=tuple(self._notes.values()),
            clients=self.clients,
            queue=self._crew.queue(),
        )

    def _owners(self) -> dict[int, str]:
        """The slots of the workers' processes, by PID."""
        return {pid: worker.slot.name for worker in self._workers for pid in worker.pids}

    def recent(self) -> tuple[Series, ...]:
        """The last minutes of each worker."""
        return tuple(place.history.recent(name) for name, place in self._places.items())

    def series(self, slot: str) -> Series:
        """A worker's figures over its whole life. Raises `GmgError` when there is no such slot."""
        return self._place(slot).history.whole(slot)

    async def details(self, slot: str) -> Details:
        """What a details screen shows. Raises `GmgError` when there is no such slot, or no job has run there."""
        worker = self._place(slot).worker
        if worker is None:
            raise GmgError(f"no job has run on {slot} yet", 1)
        found = details(worker, self.session.spec.cwd, self._egl_notes.get(slot, "not asked yet"))
        reading = self._reading_of(worker)
        if reading is None or reading.processes is None:
            return found
        described = await aside(describe, reading.processes)
        return structs.replace(found, processes=_owned(described, self._owners()))

    # What it is told

    def act(self, action: Action, slots: tuple[str, ...]) -> None:
        """Do something to workers. Raises `GmgError` when there is no such slot or the session is ending."""
        for slot in slots:
            self._place(slot)
        if action is Action.RESTART:
            self._check_open()
        for slot in slots:
            if action is Action.RESTART:
                self._crew.restart(slot)
            else:
                self._crew.stop(slot, kill=action is Action.KILL)

    def edit(self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart workers with other arguments. Raises `GmgError` as `act` does, and for a job that has ended."""
        self._check_open()
        workers = [(slot, self._place(slot).worker) for slot in slots]
        for slot, worker in workers:
            if worker is None or (worker.task.job is not None and worker.state.ended):
                raise GmgError(f"no job runs on {slot}", 1)
        for _, worker in workers:
            if worker is not None:
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
        self._crew.end(kill=kill)

    def queue_view(self, first: int, count: int) -> QueueView:
        """A part of the queue. Raises `GmgError` in a plain run."""
        return self._crew.view(first, count)

    def act_on_jobs(self, action: QueueAction, numbers: tuple[int, ...]) -> None:
        """Do something to jobs of the queue. Raises `GmgError` when there is none, or no such job."""
        self._crew.act(action, numbers)

    def use_slot(self, slot: str, *, used: bool) -> None:
        """Let jobs start on a slot, or not any more. Raises `GmgError` in a plain run."""
        self._crew.use(slot, used=used)

    def _check_open(self) -> None:
        if self._ending:
            raise GmgError("the session is being stopped; start another one", 1)

    def _place(self, slot: str) -> Place:
        place = self._places.get(slot)
        if place is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self._places)}", 1)
        return place

    def note(self, subject: str, text: str | None) -> None:
        """Say something of the session itself on all screens, or (None) say it no more."""
        if text is None:
            self._notes.pop(subject, None)
        elif self._notes.get(subject) != text:
            self._notes[subject] = text
            _log.warning("%s", text)


def _with_slots(reading: GpuReading, owners: Mapping[int, str]) -> GpuReading:
    if not reading.processes:
        return reading
    return structs.replace(reading, processes=_owned(reading.processes, owners))


def _owned(processes: tuple[GpuProcess, ...], owners: Mapping[int, str]) -> tuple[GpuProcess, ...]:
    return tuple(structs.replace(process, slot=owners.get(process.pid)) for process in processes)
