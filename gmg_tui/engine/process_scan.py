"""The regular scan of all processes: updates the workers, reaps orphans, finds workers on the wrong GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.scans import Scans
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import GpuSample, Slot, SlotKind

INTERVAL_S = 2.0
"""Between two scans: a pass over `/proc` costs 10 to 20 microseconds per process."""
UNWATCHED_S = 5.0
"""The same while there is no client."""


class ProcessScan:
    """Looks at the processes of a session on `slots`."""

    def __init__(self, slots: Sequence[Slot], scans: Scans) -> None:
        self._slots = slots
        self._scans = scans
        self._zombies: frozenset[int] = frozenset()

    async def scan(
        self, workers: Sequence[Worker], samples: Iterable[GpuSample], note: Callable[[str, str | None], None]
    ) -> None:
        """Scan once. `note` takes a subject and a note for the user, or None to remove it."""
        try:
            table = await self._scans.table()
        except OSError as error:  # too many open files: scanned again later
            note("processes", f"/proc cannot be read: {error.strerror}; the workers' CPU and memory are out of date")
            return
        note("processes", None)
        now = time.monotonic()
        for worker in workers:
            worker.inspect(table, now)
        self._reap(table)
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

    def _find_misplaced(self, workers: Sequence[Worker], samples: Iterable[GpuSample]) -> None:
        """Warn of workers whose processes NVML sees on another GPU than their slot's."""
        seen_on: dict[int, set[str]] = {}
        for sample in samples:
            for process in sample.processes or ():
                if process.own_pid is not None:
                    seen_on.setdefault(process.own_pid, set()).add(sample.uuid)
        for worker in workers:
            own = worker.slot.gpu
            if own is None or worker.slot.kind is not SlotKind.GPU:
                continue
            on = {uuid for pid in worker.pids for uuid in seen_on.get(pid, ())}
            found = [
                slot.name
                for slot in (self._slots if on and own.uuid not in on else ())
                if slot.gpu is not None and slot.gpu.uuid in on
            ]
            worker.misplaced = f"runs on {', '.join(found)} instead of {worker.slot.name}" if found else None
