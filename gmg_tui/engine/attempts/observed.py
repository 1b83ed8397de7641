"""Observations of an attempt's processes other than output, and the facts for its alerts."""

import signal
import time

from gmg_tui.diagnosis.facts import Facts, Limit
from gmg_tui.engine.attempts.process import Process
from gmg_tui.engine.attempts.readings import Readings
from gmg_tui.engine.clock import unix
from gmg_tui.engine.output.logs import Log
from gmg_tui.machine.cgroup import Memory
from gmg_tui.model import Sign, Worker, units
from gmg_tui.model.text import clean
from gmg_tui.scripts.genesis.output.failures import Failure

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


class Observed:
    """The observations of one attempt's log and processes.

    Attributes:
        misplaced: Set while NVML sees it on another GPU.
        written: The files that it recently had open for writing, or reported as saved.
        memory_kept: Set if it was started before the GPU's memory was released.
        left_behind: The leftover processes that were ended after the script.
    """

    def __init__(self, log: Log, process: Process) -> None:
        self._log, self._process = log, process
        self.misplaced: str | None = None
        self.written: set[str] = set()
        self.memory_kept: str | None = None
        self.left_behind: str | None = None
        self._memory: Memory | None = None
        """The memory of its cgroups; None before the start."""
        self._kills_before = 0
        self._oom: str | None = None
        """Describes the kernel's kill of a process for lack of RAM; None without one."""

    def begin(self, memory: Memory) -> None:
        """Sets the memory that its first process may use."""
        memory.read(time.monotonic())
        self._memory, self._kills_before = memory, memory.oom_kills

    def measure(self, now: float) -> None:
        """Reads the limit and use of its RAM at `now` (monotonic seconds)."""
        if self._memory is None:
            return
        self._memory.read(now)
        if self._oom is None and self._memory.oom_kills > self._kills_before:
            room = self._memory.room
            limit = f" ({room.owner}, {units.mib(room.limit_mib)})" if room is not None else ""
            self._oom = f"the kernel killed a process for lack of RAM{limit}"

    def explain(self, failure: Failure, exit_code: int | None) -> Failure:
        """Returns `failure`, with lack of RAM as the reason if the kernel killed it for that."""
        self.measure(time.monotonic())
        if self._oom is None or exit_code not in _KILLED:
            return failure
        return failure._replace(reason=f"SIGKILL: {self._oom}", advice="use less RAM, or fewer workers")

    def facts(self, view: Worker, now: float, readings: Readings) -> Facts:
        """Returns the facts at `now`, monotonic seconds."""
        observed = (
            ("misplaced", self.misplaced, "check CUDA_VISIBLE_DEVICES, and the device that the script chooses"),
            ("memory", (self._oom if self._memory and self._memory.is_limited else None) or self.memory_kept, ""),
            ("disk", self._log.trouble, ""),
            ("leftover", self._process.survivors or self.left_behind, ""),
        )
        timeout_s = readings.launch.task.timeout_s
        return Facts(
            unix(now),
            view,
            signs=(
                *(Sign(kind, text, advice) for kind, text, advice in observed if text is not None),
                *readings.signs(view.state, now),
            ),
            room=self._memory.room if self._memory is not None else None,
            vram_mib=readings.memory.used_mib,
            broken=readings.curves.broken,
            newest_line=clean(readings.newest_line) if readings.reader.metrics else "",
            is_bar=readings.reader.is_bar,
            limit=Limit(unix(readings.started_clock) + timeout_s, "--timeout") if timeout_s is not None else None,
        )
