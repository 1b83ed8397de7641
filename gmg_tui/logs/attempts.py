"""The line by which a log parts an attempt from what was printed before it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

_SIGN: Final = "──── gmg-tui: ".encode()
_NUMBER: Final = re.compile(r"(?:.* · )?attempt (\d+) · \d{4}-\d\d-\d\d \d\d:\d\d:\d\d · ")
_BLOCK_BYTES: Final = 1 << 20
_LINE_BYTES: Final = 1 << 20
"""More than a command may be long."""


def first_line(number: int, args: Sequence[str], *, job: str = "") -> bytes:
    """The line before the output of an attempt that starts now; `job` names its job, if it is one's."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    owner = f"{job} · " if job else ""
    return _SIGN + f"{owner}attempt {number} · {moment} · {' '.join(args)}\n".encode()


def find(log: BinaryIO, number: int) -> int | None:
    """The offset in `log` at which the output of an attempt begins; None where its line is missing.

    The first attempt has no line: it begins with the log. Raises `OSError`.
    """
    if number == 1:
        return 0
    begins = None
    for offset in _signs(log):
        log.seek(offset)
        line = log.readline(_LINE_BYTES)
        match = _NUMBER.match(line[len(_SIGN) :].decode(errors="replace"))
        if match is not None and int(match[1]) == number:
            begins = offset + len(line)
    return begins


def _signs(log: BinaryIO) -> Iterator[int]:
    """The offsets of lines that begin as that of an attempt does."""
    start, before, wanted = 0, b"\n", b"\n" + _SIGN
    while True:
        log.seek(start)
        block = log.read(_BLOCK_BYTES)
        if not block:
            return
        data, at = before + block, -1
        while (at := data.find(wanted, at + 1)) >= 0:
            yield start - len(before) + at + 1
        start += len(block)
        before = data[-len(wanted) + 1 :]
