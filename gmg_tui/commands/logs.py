"""`logs`: the log file of a worker, or of a sweep's job, on standard output."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.session import Found
from gmg_tui.text import clean

_BLOCK_BYTES = 1 << 16
_LINE_BYTES = 1 << 20
"""A line without an end is shown in pieces of this size."""
_POLL_S = 0.2
"""How often a followed file is looked at: the standard library has no way to wait for a file to grow."""
_LOOK_S, _LOOK_SHARE = 1.0, 20.0
"""How often it is looked whether a job has ended: at most every second, and for a twentieth of the time."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""A carriage return ends a line too (progress bars); one at a block's end may be half of a pair."""


def logs(words: tuple[str, ...], *, follow: bool, lines: int | None) -> int:
    """Print the log that `words` name: `NAME SLOT`, or the `SLOT` of the newest session; the exit status.

    In a sweep a job's number or name stands in the place of the slot; a slot there stands for the job that runs on it,
    or ran there last.

    Bytes go out as the worker wrote them; on a terminal they are cleaned, for a worker must not control it.

    Args:
        words: One or two words of the command line.
        follow: Go on until the session, or the job, has ended.
        lines: Only the last so many lines to begin with; None for all.

    Raises:
        GmgError: There is no such session, slot, job or log.
    """
    if not 1 <= len(words) <= 2:
        raise GmgError("give the slot, or the session's name and the slot or job: gmg-tui logs [NAME] SLOT|JOB")
    if lines is not None and lines < 0:
        raise GmgError(f"-n {lines}: at least 0")
    found = sessions.find(words[0] if len(words) == 2 else None, running=False)
    log = _log(found, words[-1])
    try:
        while follow and not log.path.exists() and not log.ended():
            time.sleep(_POLL_S)
        with log.path.open("rb") as file:
            if lines is not None:
                file.seek(_start_of_last(file, lines))
            _print(_blocks(file, log, follow=follow))
    except FileNotFoundError:
        raise GmgError(f"{log.whose} of session {found.name} has written no log yet ({log.path})", 1) from None
    except KeyboardInterrupt:
        return 130
    return 0


class _Log(NamedTuple):
    """A log file."""

    whose: str
    path: Path
    ended: Callable[[], bool]
    """Whether nothing will be written to it any more."""


def _log(found: Found, word: str) -> _Log:
    """The log of a slot, or of a sweep's job."""
    session = found.record.session
    if session.spec.sweep is not None:
        return _log_of_job(found, word)
    if session.slot(word) is None:
        raise GmgError(f"no slot {word} in session {found.name}; there are: {', '.join(s.name for s in session.slots)}")
    return _Log(word, found.folder / sessions.LOGS / f"{word}.log", lambda: _ended(found))


def _log_of_job(found: Found, word: str) -> _Log:
    from gmg_tui.store.reader import load_jobs

    jobs = load_jobs(found.folder / sessions.STORE)
    if found.record.session.slot(word) is not None:
        there = [job for job in jobs if job.slot == word]
        if not there:
            raise GmgError(f"no job has run on {word} of session {found.name} yet", 1)
        job = max(there, key=lambda job: (not job.state.ended, job.ended or 0.0))
    else:
        named = [job for job in jobs if word in {str(job.number), job.name}]
        if not named:
            slots = ", ".join(slot.name for slot in found.record.session.slots)
            raise GmgError(
                f"no job {word} in session {found.name}; there are 1 to {len(jobs)}, also by name, and the slots {slots}"
            )
        job = min(named, key=lambda job: str(job.number) != word)
    path = job.log or f"{sessions.LOGS}/{job.number:04}-{job.name}.log"
    return _Log(f"job {job.number} ({job.name})", found.folder / path, _JobEnd(found, job.number).seen)


class _JobEnd:
    """Looks from time to time whether a job has ended, and spends little on it however many jobs there are.

    Args:
        found: The job's session.
        number: The job's number.
    """

    def __init__(self, found: Found, number: int) -> None:
        self._found = found
        self._number = number
        self._next = 0.0

    def seen(self) -> bool:
        """Whether the job, or its session, is known to have ended."""
        from gmg_tui.store.reader import load_jobs

        if _ended(self._found):
            return True
        begun = time.monotonic()
        if begun < self._next:
            return False
        jobs = load_jobs(self._found.folder / sessions.STORE)
        spent_s = time.monotonic() - begun
        self._next = begun + max(_LOOK_S, _LOOK_SHARE * spent_s)
        return any(job.number == self._number and job.state.ended for job in jobs)


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


def _blocks(file: BinaryIO, log: _Log, *, follow: bool) -> Iterator[bytes]:
    while True:
        # Asked before reading, so that what is written between the two is read too.
        over = not follow or log.ended()
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
