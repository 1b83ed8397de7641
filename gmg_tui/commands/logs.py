"""`logs`: the log file of a worker, or of a sweep's job, on standard output."""

from __future__ import annotations

import mmap
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.logs import cut as log_cut
from gmg_tui.session import Found
from gmg_tui.text import clean

_BLOCK_BYTES = 1 << 16
_LINE_BYTES = 1 << 20
"""A line without an end is shown in pieces of this size."""
_POLL_S = 0.2
"""How often a followed file is polled: the standard library cannot wait for a file to grow."""
_LOOK_S, _LOOK_SHARE = 1.0, 20.0
"""How often to check whether a job has ended: at most every second, and at most a twentieth of the time."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""A carriage return ends a line too (progress bars); at the end of a block it may be half of a pair."""


def logs(words: tuple[str, ...], *, follow: bool, lines: int | None) -> int:
    """Print the log that `words` name: `NAME SLOT`, or the `SLOT` of the newest session; the exit status.

    In a sweep a job's number or name may replace the slot; a slot means the job that runs on it, or last ran there.

    The bytes are the worker's; only on a terminal they are cleaned, as a worker must not control it. `lines` says with
    how many of the last to start; `follow` keeps printing until the session, or the job, has ended.

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
        with _from_node(found, log) as bring:
            bring()
            while follow and not log.path.exists() and not log.ended():
                time.sleep(_POLL_S)
                bring()
            with log.path.open("rb") as file:
                if lines is not None:
                    file.seek(_start_of_last(file, lines))
                _print(_blocks(file, log, bring if follow else None))
    except FileNotFoundError:
        raise GmgError(f"{log.whose} of session {found.name} has not written a log yet ({log.path})", 1) from None
    except KeyboardInterrupt:
        return 130
    return 0


@contextmanager
def _from_node(found: Found, log: _Log) -> Iterator[Callable[[], None]]:
    """What brings more of the log, where a node may keep it; else it does nothing, and nothing is loaded for it."""
    session = found.record.session
    if session.spec.nodes is None or found.state != "running":
        yield lambda: None
        return
    from gmg_tui.commands.node_log import NodeLog

    with NodeLog(session, str(log.path.relative_to(found.folder))) as node_log:
        yield node_log.bring


class _Log(NamedTuple):
    """A log file."""

    whose: str
    path: Path
    ended: Callable[[], bool]
    """Whether nothing more will be written to it."""


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

    jobs = load_jobs(found.folder / sessions.STORE, away=found.away)
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
                f"no job {word} in session {found.name}; give a number from 1 to {len(jobs)}, a job's name, or a slot: {slots}"
            )
        job = min(named, key=lambda job: str(job.number) != word)
    path = job.log or f"{sessions.LOGS}/{job.number:04}-{job.name}.log"
    return _Log(f"job {job.number} ({job.name})", found.folder / path, _job_ended(found, job.number))


def _job_ended(found: Found, number: int) -> Callable[[], bool]:
    """Tells whether a job, or its session, is known to have ended, at little cost however many jobs there are."""
    from gmg_tui.store.reader import load_jobs

    look_at = 0.0

    def ended() -> bool:
        nonlocal look_at
        if _ended(found):
            return True
        begun = time.monotonic()
        if begun < look_at:
            return False
        jobs = load_jobs(found.folder / sessions.STORE, away=found.away)
        look_at = begun + max(_LOOK_S, _LOOK_SHARE * (time.monotonic() - begun))
        return any(job.number == number and job.state.ended for job in jobs)

    return ended


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """The offset of the last `lines` lines; the last of them may lack its line end."""
    end = file.seek(0, os.SEEK_END)
    if lines == 0 or end == 0:
        return end
    with mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ) as data:
        start = end - 1 if data[end - 1 :] == b"\n" else end
        for _ in range(lines):
            start = data.rfind(b"\n", 0, start)
            if start < 0:
                return 0
    return start + 1


def _blocks(file: BinaryIO, log: _Log, bring: Callable[[], None] | None) -> Iterator[bytes]:
    """What is in the file; with `bring`, which is called now and then, until the log has ended."""
    while True:
        # Checked before reading, so that nothing written in between is missed.
        over = bring is None or log.ended()
        if bring is not None:
            bring()
        replacement = _replacement(file, log.path) if bring is not None else None
        while block := file.read(_BLOCK_BYTES):
            yield block
        if replacement is not None:
            _go_on(file, replacement)
            file = replacement
        elif over:
            return
        else:
            time.sleep(_POLL_S)


def _replacement(file: BinaryIO, path: Path) -> BinaryIO | None:
    """The file that stands in the place of an open one, whose middle was cut out or which was removed, if any does."""
    try:
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return None
        return path.open("rb")
    except OSError:
        return None  # removed, and not there again yet


def _go_on(file: BinaryIO, replacement: BinaryIO) -> None:
    """Set a replacement to where a file was read to."""
    at, cut = file.tell(), log_cut.find(replacement)
    offset = log_cut.find(file).in_stream(at)
    replacement.seek(cut.in_file(offset) if cut.missing else 0)
    file.close()


def _ended(found: Found) -> bool:
    now = sessions.inspect(found.folder)
    return now is None or now.state != "running"


def _print(blocks: Iterator[bytes]) -> None:
    output = sys.stdout.buffer
    for block in _cleaned(blocks) if sys.stdout.isatty() else blocks:
        output.write(block)
        output.flush()


def _cleaned(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of `blocks`, safe for a terminal."""
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
