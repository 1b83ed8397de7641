"""Reads the probe's reports of metrics and saved files (`site/gmg_reports.py`)."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from gmg_tui.machine.files import open_regular
from gmg_tui.model import Checkpoint
from gmg_tui.scripts.probe.site import gmg_reports as ring

MAX_FILES = 64
_MAX_KEPT_FILES = 4
MAX_RECORDS = 10_000
"""Records after which a read stops; the next read continues with the following process."""
_MAX_STEP = 2**62


@contextmanager
def opened(name: str, folder: int, kept: dict[str, int]) -> Iterator[int]:
    """Opens the file `name` in an open folder for reading. Raises `OSError`.

    A few files are `kept` open: a process still writes its own after the folder has been removed, as by systemd at the
    user's last logout. Others are not, as a script may make many.
    """
    descriptor = kept.get(name)
    if descriptor is None:
        descriptor = open_regular(name, folder=folder)
        if len(kept) < _MAX_KEPT_FILES:
            kept[name] = descriptor
    try:
        yield descriptor
    finally:
        if name not in kept:
            os.close(descriptor)


class Metric(NamedTuple):
    """A number that a script has reported."""

    name: str
    value: float
    """NaN and infinity included."""
    step: int | None
    at: float
    """Monotonic seconds."""


class ReportFile:
    """The reports of one process.

    Attributes:
        lost: Records that were overwritten before they were read.
    """

    def __init__(self) -> None:
        self._end = self._count = self.lost = 0

    def read(self, descriptor: int) -> list[Metric | Checkpoint]:
        """Returns the new records of an open file, oldest first; ignores content that the probe cannot have written."""
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
        return [report for report in map(_decode, records) if report is not None]

    def _header(self, descriptor: int) -> tuple[int, ...] | None:
        data = os.pread(descriptor, ring.HEADER.size, 0)
        if len(data) != ring.HEADER.size:
            return None
        header: tuple[int, ...] = ring.HEADER.unpack(data)
        magic, end, oldest, count = header
        is_plausible = self._end <= end and 0 <= oldest <= end <= oldest + ring.CAPACITY and self._count <= count
        return header if magic == ring.MAGIC and is_plausible else None

    def _parse(self, data: bytes) -> list[tuple[int, int, int, float, int, bytes]]:
        records, offset = [], 0
        while offset + ring.RECORD.size <= len(data):
            size, kind, count, first, second, value, at_ns = ring.RECORD.unpack_from(data, offset)
            if size < ring.RECORD.size or offset + size > len(data) or count < self._count:
                break
            name = data[offset + ring.RECORD.size : offset + size].rstrip(b"\0")
            records.append((kind, first, second, value, at_ns, name))
            self.lost += count - self._count
            self._count, offset = count + 1, offset + size
        return records


def _decode(record: tuple[int, int, int, float, int, bytes]) -> Metric | Checkpoint | None:
    kind, first, second, value, at_ns, name = record
    now = time.monotonic()
    at = min(at_ns / 1e9, now)
    max_bytes = ring.MAX_NAME_BYTES if kind == ring.METRIC else ring.MAX_PATH_BYTES
    if not 0 < len(name) <= max_bytes or at < 0:
        return None
    if kind == ring.METRIC:
        return Metric(name.decode("utf-8", "replace"), value, first if abs(first) < _MAX_STEP else None, at)
    if (
        kind in (ring.STATE, ring.EXPORT)
        and second >= 0 <= value < _MAX_STEP
        and name[:1] == b"/"
        and b"\0" not in name
    ):
        size = first if first >= 0 else None
        with suppress(UnicodeDecodeError):  # a message cannot carry a path that is not UTF-8
            saved = round(time.time() - (now - at), 3)
            return Checkpoint(name.decode(), saved, size, int(value), second, is_export=kind == ring.EXPORT)
    return None


class Reports:
    """The reports of all processes of an attempt.

    Attributes:
        lost: Records that were overwritten before they were read.
    """

    def __init__(self) -> None:
        self._files: dict[str, ReportFile] = {}
        self._kept: dict[str, int] = {}
        """Descriptors of files that are kept open."""
        self.lost = 0

    @property
    def has_room(self) -> bool:
        """True if more files can be added."""
        return len(self._files) < MAX_FILES

    def add(self, name: str) -> None:
        """Adds the file `name` if it can be a process's ring."""
        pid, _, suffix = name.partition(".")
        if pid.isdecimal() and f".{suffix}" == ring.SUFFIX and name not in self._files and self.has_room:
            self._files[name] = ReportFile()

    def read(self, folder: int) -> tuple[list[Metric], list[Checkpoint]]:
        """Returns the new metrics, sorted by time, and the newly saved files; stops after about `MAX_RECORDS`."""
        new = list[Metric | Checkpoint]()
        for name in list(self._files):
            self._files[name] = file = self._files.pop(name)  # last in the next read
            # It may not be a regular file, or removed by the script.
            with suppress(OSError), opened(name, folder, self._kept) as descriptor:
                new += file.read(descriptor)
            if len(new) >= MAX_RECORDS:
                break
        self.lost = sum(file.lost for file in self._files.values())
        metrics = sorted((report for report in new if isinstance(report, Metric)), key=lambda report: report.at)
        return metrics, [report for report in new if isinstance(report, Checkpoint)]

    def close(self) -> None:
        """Closes all files."""
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()
