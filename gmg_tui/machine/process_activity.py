"""The CPU time and memory of a worker's processes, and their idleness."""

from __future__ import annotations

from collections.abc import Iterable

from gmg_tui.machine.process_tree import Proc

_IDLE_PCT = 1.0
"""Of one core. A polling process uses a little CPU, a compiling one a whole core."""


class Activity:
    """The process tree of one worker, updated every few seconds.

    Attributes:
        cpu_pct: CPU since the last update, per cent of one core; None before the second.
        memory_rss_mib: Resident memory; shared pages count for each process.
        memory_rss_peak_mib: The peak of `memory_rss_mib` at updates.
        pids: The PIDs of the tree.
        stopped: The cause of a process's stop, and how to continue it; None if none is stopped.
    """

    def __init__(self) -> None:
        self.cpu_pct: float | None = None
        self.memory_rss_mib: float | None = None
        self.memory_rss_peak_mib: float | None = None
        self.pids: frozenset[int] = frozenset()
        self.stopped: str | None = None
        self._cpu_s: dict[tuple[int, int], float] = {}
        self._updated_at: float | None = None
        self._output = -1
        self._output_at = 0.0
        self._busy_at = 0.0
        self._silent_cpu_s = 0.0

    def update(self, members: Iterable[Proc], output: int, now: float) -> None:
        """Updates by a scan of the worker's live processes at `now`, monotonic seconds.

        `output` grows with each byte that the worker writes.
        """
        members = list(members)
        cpu_s = {proc.key: proc.cpu_s for proc in members}
        # A process's use between the last update and its end is lost; a new one counts from its start.
        used_s = sum(max(0.0, seconds - self._cpu_s.get(key, 0.0)) for key, seconds in cpu_s.items())
        if self._updated_at is None or now <= self._updated_at:
            self._busy_at = now
        else:
            self.cpu_pct = 100 * used_s / (now - self._updated_at)
            self._silent_cpu_s += used_s
            if self.cpu_pct > _IDLE_PCT:
                self._busy_at = now
        if output != self._output:
            self._output, self._output_at, self._silent_cpu_s = output, now, 0.0
        self.stopped = next((proc.stopped for proc in members if proc.stopped is not None), None)
        self._cpu_s, self._updated_at = cpu_s, now
        self.memory_rss_mib = sum(proc.rss_mib for proc in members) or None
        self.memory_rss_peak_mib = max(self.memory_rss_peak_mib or 0.0, self.memory_rss_mib or 0.0) or None
        self.pids = frozenset(proc.pid for proc in members)

    def idle_for_s(self, now: float) -> float:
        """Returns the seconds without output or noticeable CPU time; `now` is monotonic seconds."""
        return now - max(self._output_at, self._busy_at) if self._updated_at is not None else 0.0

    @property
    def seen_idle_s(self) -> float:
        """Seconds without activity at the last update."""
        return self.idle_for_s(self._updated_at or 0.0)

    def idleness(self, now: float) -> str:
        """Describes the idleness, such as `no output for 74 s, 0.0 s CPU`, or the stop."""
        return self.stopped or f"no output for {now - self._output_at:.0f} s, {self._silent_cpu_s:.1f} s CPU"
