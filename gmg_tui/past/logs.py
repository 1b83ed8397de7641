"""The end of a log file, as lines that are safe to show."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui.files import open_regular
from gmg_tui.text import clean

_BYTES: Final = 4 << 20
"""How much of the file's end is read; the pager shows all of it."""
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BLOCK_BYTES: Final = 1 << 20


class LogEnd(NamedTuple):
    """The last lines of a log."""

    first: int
    """How many precede them in the file."""
    lines: tuple[str, ...]


def read(path: Path, most: int) -> LogEnd:
    """The last lines, at most `most`. Raises `OSError`."""
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
        start = max(0, file.seek(0, os.SEEK_END) - _BYTES)
        file.seek(0)
        before = sum(file.read(min(_BLOCK_BYTES, start - at)).count(b"\n") for at in range(0, start, _BLOCK_BYTES))
        data = file.read(_BYTES)
    lines = _LINE_END.split(data)
    if not lines[-1]:
        lines.pop()
    if start and len(lines) > 1:  # of a single one the end is better than nothing
        lines = lines[1:]  # the first of them began before
        before += 1
    left_out = max(0, len(lines) - most)
    return LogEnd(before + left_out, tuple(clean(line) for line in lines[left_out:]))
