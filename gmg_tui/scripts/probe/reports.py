"""Reads the probe's reports of metrics and saved files (`site/gmg_reports.py`)."""

import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from gmg_tui.machine.files import open_regular
from gmg_tui.machine.procfs import is_alive
from gmg_tui.model import Checkpoint
from gmg_tui.scripts.probe.site import gmg_reports as ring

MAX_FILES = 64
_MAX_KEPT_FILES = 4
MAX_RECORDS = 10_000
"""Records after which a read stops; the next read continues with the following process."""
MAX_LINES_BYTES = 256 << 10
"""Bytes of `SAVED` to read at once: more than a thousand lines."""
_MIN_DURATION_S = 10.0
"""Seconds of reports that prove work."""
_MAX_STEP = 2**62
_NUMBER = rb" (\d{1,19})"
_RING = re.compile(rf"[1-9]\d{{0,9}}{re.escape(ring.SUFFIX)}", re.ASCII)
_SAVED_LINE = re.compile(rb"(state|export) (-1|\d{1,19})" + 4 * _NUMBER + rb" ((?:[0-9a-f]{2}){1,4096})")


@contextmanager
def opened(name: str, folder: int, kept: dict[str, int] | None = None) -> Iterator[int]:
    """Opens the file `name` in an open folder for reading. Raises `OSError`.

    If `kept` is given, a few files stay open in it: a process still writes its own after the folder has been removed, as
    by systemd at the user's last logout. Others do not, as a script may make many.
    """
    if kept is not None and name in kept:
        yield kept[name]
        return
    with os.fdopen(open_regular(name, folder=folder), "rb", buffering=0) as file:
        if kept is not None and len(kept) < _MAX_KEPT_FILES:
            kept[name] = os.dup(file.fileno())
        yield file.fileno()


class Metric(NamedTuple):
    """A number that a script has reported."""

    name: str
    value: float
    """NaN and infinity included."""
    step: int | None
    at: float
    """Monotonic seconds."""


class ReportFile:
    """The metrics of one process.

    Attributes:
        count: Records so far.
        lost: Records that were overwritten before they were read.
    """

    def __init__(self) -> None:
        self._end = self.count = self.lost = 0

    def read(self, descriptor: int) -> list[Metric]:
        """Returns the new metrics of an open file, oldest first; ignores content that the probe cannot have written."""
        header = self._header(descriptor)
        if header is None or header[1] == self._end:
            return []
        data = os.pread(descriptor, ring.CAPACITY, ring.HEADER.size)
        later_header = self._header(descriptor)
        if len(data) != ring.CAPACITY or later_header is None:
            return []
        end, start = header[1], max(self._end, later_header[2])
        offset = start % ring.CAPACITY
        records = self._parse((data[offset:] + data[:offset])[: end - start])
        self._end = end
        return [metric for metric in (_metric(*record) for record in records) if metric is not None]

    def _header(self, descriptor: int) -> tuple[int, ...] | None:
        data = os.pread(descriptor, ring.HEADER.size, 0)
        if len(data) != ring.HEADER.size:
            return None
        header: tuple[int, ...] = ring.HEADER.unpack(data)
        magic, end, oldest, count = header
        is_plausible = self._end <= end and 0 <= oldest <= end <= oldest + ring.CAPACITY and self.count <= count
        return header if magic == ring.MAGIC and is_plausible else None

    def _parse(self, data: bytes) -> list[tuple[bytes, float, int, int]]:
        records, offset = [], 0
        while offset + ring.RECORD.size <= len(data):
            size, count, step, value, at_ns = ring.RECORD.unpack_from(data, offset)
            if size < ring.RECORD.size or offset + size > len(data) or count < self.count:
                break
            name = data[offset + ring.RECORD.size : offset + size].rstrip(b"\0")
            records.append((name, value, step, at_ns))
            self.lost += count - self.count
            self.count, offset = count + 1, offset + size
        return records


def _metric(name: bytes, value: float, step: int, at_ns: int) -> Metric | None:
    if not 0 < len(name) <= ring.MAX_NAME_BYTES or at_ns < 0:
        return None
    at = min(at_ns / 1e9, time.monotonic())
    return Metric(name.decode("utf-8", "replace"), value, step if abs(step) < _MAX_STEP else None, at)


class SavedFiles:
    """The files that an attempt's processes have saved.

    Attributes:
        ends: Reports of how processes ended.
    """

    def __init__(self) -> None:
        self._inode = self._offset = 0
        self.ends = set[bytes]()

    def read(self, descriptor: int) -> list[Checkpoint]:
        """Returns the next reports of an open file, up to `MAX_LINES_BYTES`; ignores lines that are incomplete or invalid."""
        status = os.fstat(descriptor)
        if status.st_ino != self._inode or status.st_size < self._offset:  # a process has started it again
            self._inode, self._offset = status.st_ino, 0
        data = os.pread(descriptor, MAX_LINES_BYTES, self._offset)
        end = data.rfind(b"\n") + 1 or len(data) // MAX_LINES_BYTES * MAX_LINES_BYTES
        self._offset += end
        lines = data[:end].split(b"\n")
        self.ends |= {ring.CLEAN.encode(), ring.RAISED.encode()}.intersection(lines)
        matches = map(_SAVED_LINE.fullmatch, lines)
        return [saved for match in matches if match is not None and (saved := self._checkpoint(match)) is not None]

    def _checkpoint(self, match: re.Match[bytes]) -> Checkpoint | None:
        size_bytes, env_steps, inode, mtime_ns, at_ns = map(int, match.groups()[1:6])
        path = bytes.fromhex(match[7].decode())
        if (
            path[:1] != b"/"
            or not path.strip(b"/")
            or b"\0" in path
            or max(env_steps, inode, mtime_ns, size_bytes) >= _MAX_STEP
        ):
            return None
        now = time.monotonic()
        saved = round(time.time() - (now - min(at_ns / 1e9, now)), 3)
        with suppress(UnicodeDecodeError):  # a message cannot carry a path that is not UTF-8
            size = size_bytes if size_bytes != ring.UNKNOWN else None
            return Checkpoint(path.decode(), saved, size, inode, mtime_ns, env_steps, is_export=match[1] == b"export")
        return None


class Reports:
    """The reports of all processes of an attempt.

    Attributes:
        lost: Metrics that were overwritten before they were read.
        has_lasted: True once there were metrics or saved files for a while: scripts may save their settings at their start.
    """

    def __init__(self) -> None:
        self.has_lasted = False
        self._began_at = math.inf
        self._files: dict[str, ReportFile] = {}
        self._kept: dict[str, int] = {}
        """Descriptors of files that are kept open."""
        self._saved = defaultdict[int, SavedFiles](SavedFiles)
        """The files of each folder."""
        self.lost = self._past_lost = 0

    @property
    def has_ended_cleanly(self) -> bool:
        """True if the first Python has ended without an uncaught exception, and no other with one."""
        ends = set[bytes]().union(*(saved.ends for saved in self._saved.values()))
        return ends == {ring.CLEAN.encode()}

    @property
    def has_room(self) -> bool:
        """True if more files can be added."""
        return len(self._files) < MAX_FILES

    def add(self, name: str) -> None:
        """Adds the file `name` if it can be a process's ring."""
        if _RING.fullmatch(name) and name not in self._files and self.has_room:
            self._files[name] = ReportFile()

    def read(self, *folders: int) -> tuple[list[Metric], list[Checkpoint]]:
        """Returns the new metrics of the first of the open folders, sorted by time, and the newly saved files of all.

        Stops after about `MAX_RECORDS` metrics.
        """
        metrics, saved, records = list[Metric](), list[Checkpoint](), 0
        # Files may not be regular, or removed by the script.
        for index, folder in enumerate(folders):
            with suppress(OSError), opened(ring.SAVED, folder) as descriptor:
                saved += self._saved[index].read(descriptor)
        for name in list(self._files) if folders else ():
            self._files[name] = file = self._files.pop(name)  # last in the next read
            before = file.count
            with suppress(OSError), opened(name, folders[0], self._kept) as descriptor:
                metrics += file.read(descriptor)
            records += file.count - before
            if records >= MAX_RECORDS:
                break
            if file.count == before and not self.has_room and not is_alive(int(name.partition(".")[0])):
                self._forget(name, folders[0])
        self.lost = self._past_lost + sum(file.lost for file in self._files.values())
        if metrics or saved:
            self._began_at = min(self._began_at, now := time.monotonic())
            self.has_lasted |= now - self._began_at >= _MIN_DURATION_S
        return sorted(metrics, key=lambda metric: metric.at), saved

    def _forget(self, name: str, folder: int) -> None:
        """Makes room: removes the file of an ended process, which has been read."""
        self._past_lost += self._files.pop(name).lost
        if (descriptor := self._kept.pop(name, None)) is not None:
            os.close(descriptor)
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)

    def close(self) -> None:
        """Closes all files."""
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()
