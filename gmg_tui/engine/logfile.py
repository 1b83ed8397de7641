"""A worker's log file: each byte that it wrote, in a file that may refuse them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gmg_tui.files import make_private

_RETRY_S = 5.0
"""After a failed write the next try waits this long: a full disk should not be asked for each chunk."""


class LogFile:
    """Appends to one file; never raises once it is made.

    Attributes:
        trouble: Why bytes are not being written, in one line; None while all is well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        self._file: int | None = None
        self._lost_bytes = 0
        self._why = ""
        self._retry_at = 0.0

    def write(self, data: bytes) -> None:
        """Append `data`; what the disk refuses is counted, and said in the file when it takes bytes again."""
        if self.trouble is not None and time.monotonic() < self._retry_at:
            self._lost_bytes += len(data)
            return
        rest = memoryview(data)
        try:
            if self._file is not None and os.fstat(self._file).st_nlink == 0:
                self.close()  # somebody has removed it: what is written to it would be lost
            if self._file is None:
                self._file = self._open()
            if self._lost_bytes:
                gap = f"\n[gmg-tui] {self._lost_bytes:,} bytes are missing here: {self._why}\n"
                os.write(self._file, gap.encode())
                self._lost_bytes = 0
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._lost_bytes += len(rest)
            self.trouble = self._why = f"log not written: {error.strerror} ({self.path})"
            self._retry_at = time.monotonic() + _RETRY_S
            self.close()
        else:
            self.trouble = None

    def skip(self, size: int, why: str) -> None:
        """Say in the file that `size` bytes are missing, and why."""
        self._lost_bytes += size
        self._why = why
        self.write(b"")

    def _open(self) -> int:
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
