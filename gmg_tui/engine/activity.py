"""What a worker's processes do: CPU, memory, and whether they do anything at all."""

from __future__ import annotations

from collections.abc import Iterable

from gmg_tui.engine.proctree import Proc

_IDLE_PCT = 1.0
"""Of one core. A process that waits with time-outs uses a little CPU; one that compiles uses a whole core."""


class Activity:
    """The whole process tree of one worker, looked at every few seconds.

    Attributes:
        cpu_pct: CPU of the tree since the last look, per cent of one core; None before the second look.
        memory_rss_mib: Resident memory of the tree; pages that its processes share count for each.
        pids: The PIDs of the tree.
    """

    def __init__(self) -> None:
        self.cpu_pct: float | None = None
        self.memory_rss_mib: float | None = None
        self.pids: frozenset[int] = frozenset()
        self._cpu_s: dict[tuple[int, int], float] = {}
        self._looked_at: float | None = None
        self._output = -1
        self._output_at = 0.0
        self._busy_at = 0.0
        self._idle_cpu_s = 0.0

    def look(self, members: Iterable[Proc], output: int, now: float, *, held: bool = False) -> None:
        """Take a look.

        Args:
            members: The worker's live processes.
            output: Grows with each byte that the worker writes.
            now: Monotonic seconds.
            held: Whether it does nothing because it is not let.
        """
        members = list(members)
        cpu_s = {(proc.pid, proc.started_ticks): proc.cpu_s for proc in members}
        # A process that ended since the last look takes its last moments with it; one that began counts from its start.
        used_s = sum(max(0.0, seconds - self._cpu_s.get(key, 0.0)) for key, seconds in cpu_s.items())
        if self._looked_at is None or now <= self._looked_at:
            self._busy_at = now
        else:
            self.cpu_pct = 100 * used_s / (now - self._looked_at)
            self._idle_cpu_s += used_s
            if held or self.cpu_pct > _IDLE_PCT:
                self._busy_at, self._idle_cpu_s = now, 0.0
        if output != self._output:
            self._output, self._output_at = output, now
        self._cpu_s, self._looked_at = cpu_s, now
        self.memory_rss_mib = sum(proc.rss_mib for proc in members)
        self.pids = frozenset(proc.pid for proc in members)

    def idle_for_s(self, now: float) -> float:
        """For how long there has been neither output nor CPU time worth the name; `now` is monotonic seconds."""
        return now - max(self._output_at, self._busy_at) if self._looked_at is not None else 0.0

    def idleness(self, now: float) -> str:
        """What was seen while it did nothing: `no output for 74 s, 0.0 s CPU`."""
        return f"no output for {now - self._output_at:.0f} s, {self._idle_cpu_s:.1f} s CPU"
