"""Whether a worker still reads files, as an interpreter does while it imports."""

from __future__ import annotations

import re
from collections.abc import Iterable

_READS_PER_S = 5.0
"""An import makes hundreds of read calls a second, a simulation that steps none."""
_CALLS = re.compile(rb"^syscr: (\d+)$", re.MULTILINE)


class Reading:
    """The read calls of a worker's processes (`syscr` in `/proc/PID/io`, proc(5)), updated every few seconds."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._updated_at: float | None = None
        self._read_at: float | None = None

    def update(self, pids: Iterable[int], now: float) -> None:
        """Look at the processes; `now` is monotonic seconds."""
        calls = {pid: count for pid in pids if (count := _read_calls(pid)) is not None}
        made = sum(max(0, count - self._calls.get(pid, 0)) for pid, count in calls.items())
        if not calls:
            self._read_at = None
        elif self._updated_at is None or made >= _READS_PER_S * (now - self._updated_at):
            self._read_at = now
        self._calls, self._updated_at = calls, now

    def rests_for_s(self, now: float) -> float | None:
        """How long no files have been read; None where the kernel does not say."""
        return now - self._read_at if self._read_at is not None else None


def _read_calls(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123 - as in `process_tree.read`
            found = _CALLS.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found is not None else None
