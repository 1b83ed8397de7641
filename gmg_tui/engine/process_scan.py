"""The regular scan of all processes: updates the workers, reaps orphans, finds workers on the wrong GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from gmg_tui import units
from gmg_tui.engine.faults import Faults
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process_tree import Scans
from gmg_tui.engine.workers.local_worker import LocalWorker
from gmg_tui.model import GpuSample, Slot, SlotKind, WorkerState

INTERVAL_S = 2.0
"""Between two scans: a pass over `/proc` costs 10 to 20 microseconds per process."""
UNWATCHED_S = 5.0
"""The same while there is no client."""


def inspect(worker: LocalWorker, table: process_tree.Table, now: float) -> None:
    """Update a worker's CPU, memory and stuck warning from its processes; `now` is monotonic seconds."""
    attempt = worker.running
    if attempt is None or not worker.state.live or not attempt.process.started or attempt.ended_clock is not None:
        return
    members = attempt.process.members(table)
    attempt.activity.update(members, attempt.output_bytes + attempt.counts.steps, now)
    spec = worker.context.spec
    idle = attempt.activity.idle_for_s(now) >= spec.stuck_after_s and worker.state is not WorkerState.STOPPING
    if idle:
        worker.context.gate.ended(worker.slot.name)
    if worker.rank is not None:
        return  # an idle rank may wait for the others; its group is judged as a whole
    util = worker.sample.gpu_util_pct if worker.sample is not None else None
    gpu = f", GPU {units.whole(util)} %" if util is not None else ""
    worker.stick(f"{attempt.activity.idleness(now)}{gpu}" if idle else None, replace=spec.restart_stuck)


class ProcessScan:
    """Scans the processes of a session on `slots`."""

    def __init__(self, slots: Sequence[Slot], scans: Scans, faults: Faults) -> None:
        self._slots = slots
        self._faults = faults
        self._scans = scans
        self._zombies: frozenset[int] = frozenset()

    async def scan(
        self, workers: Sequence[LocalWorker], samples: Iterable[GpuSample], note: Callable[[str, str | None], None]
    ) -> None:
        """Scan once. `note` takes a subject and a note for the user, or None to remove it."""
        try:
            table = await self._scans.table()
        except OSError as error:  # too many open files: scanned again later
            note("processes", f"/proc cannot be read: {error.strerror}; the workers' CPU and memory are out of date")
            return
        note("processes", None)
        self._reap(table)
        now = time.monotonic()
        for worker in workers:
            self._faults.guard("the scan of processes", inspect, worker, table, now)
        self._find_misplaced(workers, samples)

    def _reap(self, table: process_tree.Table) -> None:
        """Reap adopted orphans.

        Asyncio waits for the processes that it started, within milliseconds of their end; a child that is a zombie in
        two scans in a row has nobody else to wait for it.
        """
        dead = frozenset(proc.pid for proc in table.children(os.getpid()) if proc.state == "Z")
        for pid in dead & self._zombies:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # asyncio was quicker after all
        self._zombies = dead - self._zombies

    def _find_misplaced(self, workers: Sequence[LocalWorker], samples: Iterable[GpuSample]) -> None:
        """Warn of workers whose processes NVML sees on other GPUs than their slot's."""
        pids = {sample.uuid: {process.own_pid for process in sample.processes or ()} for sample in samples}
        for worker in workers:
            slots = [
                slot for slot in self._slots if slot.gpu is not None and worker.pids & pids.get(slot.gpu.uuid, set())
            ]
            others = ", ".join(slot.name for slot in slots) if worker.slot not in slots else ""
            is_whole = worker.slot.kind is SlotKind.GPU
            worker.misplaced = f"runs on {others} instead of {worker.slot.name}" if others and is_whole else None
