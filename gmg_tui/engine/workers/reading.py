"""Whether a worker still reads files, as an interpreter does while it imports."""

from __future__ import annotations

import re
from collections.abc import Iterable

_READS_PER_S = 5.0
"""Of CPU time: an import makes hundreds of read calls in each second, a simulation that steps none."""
_CALLS = re.compile(rb"^syscr: (\d+)$", re.MULTILINE)


class Reading:
    """The read calls of a worker's processes (`syscr` in `/proc/PID/io`, proc(5)), updated every few seconds."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._cpu_s: float | None = None
        self._read_at_s: float | None = None

    def update(self, pids: Iterable[int], cpu_s: float) -> None:
        """Look at the processes, which have used `cpu_s` seconds of CPU time so far."""
        calls = {pid: count for pid in pids if (count := _read_calls(pid)) is not None}
        made = sum(max(0, count - self._calls.get(pid, 0)) for pid, count in calls.items())
        if not calls:
            self._read_at_s = None
        elif self._cpu_s is None or made > _READS_PER_S * (cpu_s - self._cpu_s):
            self._read_at_s = cpu_s
        self._calls, self._cpu_s = calls, cpu_s

    @property
    def known(self) -> bool:
        """Whether the kernel tells of read calls."""
        return self._read_at_s is not None

    @property
    def worked_since_s(self) -> float:
        """CPU seconds since files were read last: on a loaded machine time alone tells nothing. 0 if it is not known."""
        return self._cpu_s - self._read_at_s if self._cpu_s is not None and self._read_at_s is not None else 0.0


def _read_calls(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123 - as in `process_tree.read`
            found = _CALLS.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found is not None else None
