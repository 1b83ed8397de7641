"""`logs`: a worker's log file on standard output."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.session import Found
from gmg_tui.text import clean

_BLOCK_BYTES = 1 << 16
_LINE_BYTES = 1 << 20
"""A line without an end is shown in pieces of this size."""
_POLL_S = 0.2
"""How often a followed file is looked at: the standard library has no way to wait for a file to grow."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""A carriage return ends a line too (progress bars); one at a block's end may be half of a pair."""


def logs(words: tuple[str, ...], *, follow: bool, lines: int | None) -> int:
    """Print the log that `words` name: `NAME SLOT`, or the `SLOT` of the newest session; the exit status.

    Bytes go out as the worker wrote them; on a terminal they are cleaned, for a worker must not control it.

    Args:
        words: One or two words of the command line.
        follow: Go on until the session has ended.
        lines: Only the last so many lines to begin with; None for all.

    Raises:
        GmgError: There is no such session, slot or log.
    """
    if not 1 <= len(words) <= 2:
        raise GmgError("give the slot, or the session's name and the slot: gmg-tui logs [NAME] SLOT")
    if lines is not None and lines < 0:
        raise GmgError(f"-n {lines}: at least 0")
    found = sessions.find(words[0] if len(words) == 2 else None, running=False)
    path = _path(found, words[-1])
    try:
        while follow and not path.exists() and not _ended(found):
            time.sleep(_POLL_S)
        with path.open("rb") as file:
            if lines is not None:
                file.seek(_start_of_last(file, lines))
            _print(_blocks(file, found, follow=follow))
    except FileNotFoundError:
        raise GmgError(f"{words[-1]} of session {found.name} has written no log yet ({path})", 1) from None
    except KeyboardInterrupt:
        return 130
    return 0


def _path(found: Found, slot: str) -> Path:
    session = found.record.session
    if session.slot(slot) is None:
        raise GmgError(f"no slot {slot} in session {found.name}; there are: {', '.join(s.name for s in session.slots)}")
    return found.folder / sessions.LOGS / f"{slot}.log"


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """Where the last `lines` lines begin, read from the end backwards; a last line needs no end."""
    end = file.seek(0, os.SEEK_END)
    if lines == 0 or end == 0:
        return end
    file.seek(end - 1)
    missing = lines + 1 if file.read(1) == b"\n" else lines
    position = end
    while position > 0:
        size = min(_BLOCK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        ends = block.count(b"\n")
        if ends >= missing:
            at = len(block)
            for _ in range(missing):
                at = block.rindex(b"\n", 0, at)
            return position + at + 1
        missing -= ends
    return 0


def _blocks(file: BinaryIO, found: Found, *, follow: bool) -> Iterator[bytes]:
    while True:
        # Asked before reading, so that what is written between the two is read too.
        over = not follow or _ended(found)
        while block := file.read(_BLOCK_BYTES):
            yield block
        if over:
            return
        time.sleep(_POLL_S)


def _ended(found: Found) -> bool:
    now = sessions.look(found.folder)
    return now is None or now.state != "running"


def _print(blocks: Iterator[bytes]) -> None:
    output = sys.stdout.buffer
    for block in _cleaned(blocks) if sys.stdout.isatty() else blocks:
        output.write(block)
        output.flush()


def _cleaned(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of `blocks` as they can be shown on a terminal."""
    pending = b""
    for block in blocks:
        *lines, pending = _LINE_END.split(pending + block)
        if len(pending) > _LINE_BYTES:
            lines.append(pending)
            pending = b""
        if lines:
            yield _shown(lines)
    if pending:
        yield _shown([pending])


def _shown(lines: list[bytes]) -> bytes:
    encoding = sys.stdout.encoding
    return b"".join(f"{clean(line)}\n".encode(encoding, "replace") for line in lines)
