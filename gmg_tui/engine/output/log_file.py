"""A worker's log file, on a disk that may refuse to write."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from gmg_tui.files import make_private
from gmg_tui.logs import cut as log_cut

_RETRY_S = 5.0
"""How long to wait after a failed write: a full disk should not be tried for each chunk."""


class LogFile:
    """Appends to one file, as a `Sink`; never raises. Beyond `most_bytes` the file's middle is cut out."""

    def __init__(self, path: Path, most_bytes: int | None = None) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._size = 0
        """Of the open file; 0 for what is no regular one."""
        self._uncut: str | None = None
        """Why the middle could not be cut out."""
        self._cut_at = 0.0
        """When to try that again, monotonic seconds."""
        self.trouble: str | None = None
        self._file: int | None = None
        self._lost_bytes = 0
        self._why = ""
        self._retry_at = 0.0

    def write(self, data: bytes) -> None:
        """Append `data`; what the disk refuses is counted, and noted in the file once it accepts bytes again."""
        if self.trouble is not None and time.monotonic() < self._retry_at:
            self._lost_bytes += len(data)
            return
        rest = memoryview(data)
        try:
            if self._file is not None and os.fstat(self._file).st_nlink == 0:
                self.close()  # it was removed: what is written to it would be lost
            if self._file is None:
                self._file = self._open()
            if self._lost_bytes:
                gap = f"\n[gmg-tui] {self._lost_bytes:,} bytes are missing here: {self._why}\n"
                os.write(self._file, gap.encode())
                self._lost_bytes = 0
            while rest:
                written = os.write(self._file, rest)
                rest = rest[written:]
                self._size += written
        except OSError as error:
            self._lost_bytes += len(rest)
            self.trouble = self._why = f"log not written: {error.strerror} ({self.path})"
            self._retry_at = time.monotonic() + _RETRY_S
            self.close()
        else:
            self._cut()
            self.trouble = self._uncut

    def _cut(self) -> None:
        """Cut out the middle if the file is too large."""
        if self._most_bytes is None or self._size <= self._most_bytes or self._file is None:
            return
        about = os.fstat(self._file)
        self._size = about.st_size if stat.S_ISREG(about.st_mode) else 0
        if self._size <= self._most_bytes or time.monotonic() < self._cut_at:
            return
        try:
            log_cut.cut(self.path, self._most_bytes)
        except OSError as error:
            self._uncut = f"log larger than --log-max: {error.strerror} ({self.path})"
            self._cut_at = time.monotonic() + _RETRY_S
        else:
            self._uncut = None
            self.close()

    def skip(self, size: int, why: str) -> None:
        """Note in the file that `size` bytes are missing, and why."""
        self._lost_bytes += size
        self._why = why
        self.write(b"")

    def _open(self) -> int:
        file = self._open_file()
        self._size = os.fstat(file).st_size
        return file

    def _open_file(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            make_private(self.path.parent)
            return os.open(self.path, flags, 0o600)

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
