"""The end of a log file, or what was its end at a moment, as lines that are safe to show."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

from gmg_tui.files import open_regular
from gmg_tui.logs import attempts, cut
from gmg_tui.model import Worker
from gmg_tui.text import clean

_BYTES: Final = 4 << 20
"""How much of it is read before its end; the pager shows all of it."""
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BLOCK_BYTES: Final = 1 << 20


class LogEnd(NamedTuple):
    """The last lines of a log."""

    first: int
    """How many precede them in the file."""
    lines: tuple[str, ...]


class Written(NamedTuple):
    """How far a log had come."""

    attempt: int
    """The number of its last attempt, from 1."""
    output_bytes: int
    """What that had printed."""

    @classmethod
    def of(cls, worker: Worker) -> Self | None:
        """How far a worker's had come; None where that was not kept."""
        return cls(worker.attempt, worker.output_bytes) if worker.output_bytes is not None else None


def read(path: Path, most: int, written: Written | None = None) -> LogEnd:
    """The last lines, at most `most`: of all, or of what was `written`, where the log still tells how far that is.

    Raises:
        OSError: It cannot be read.
    """
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
        size = file.seek(0, os.SEEK_END)
        then = _end_of(file, written) if written is not None else None
        end = size if then is None else min(then, size)
        start = max(0, end - _BYTES)
        file.seek(0)
        before = sum(file.read(min(_BLOCK_BYTES, start - at)).count(b"\n") for at in range(0, start, _BLOCK_BYTES))
        data = file.read(end - start)
    lines = _LINE_END.split(data)
    if not lines[-1]:
        lines.pop()
    if start and len(lines) > 1:  # of a single one the end is better than nothing
        lines = lines[1:]  # the first of them began before
        before += 1
    left_out = max(0, len(lines) - most)
    return LogEnd(before + left_out, tuple(clean(line) for line in lines[left_out:]))


def _end_of(log: BinaryIO, written: Written) -> int | None:
    """The offset in the file of the end of what was written; None where that cannot be told."""
    begins = attempts.find(log, written.attempt)
    if begins is None:
        return None
    there = cut.find(log)
    return there.in_file(there.in_stream(begins) + written.output_bytes)
