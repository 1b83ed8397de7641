"""`logs`: print the log of a worker, or of a sweep's job."""

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gmg_tui import session as sessions
from gmg_tui.machine import files
from gmg_tui.model import WorkerState
from gmg_tui.model.errors import GmgError, join_words, suggest
from gmg_tui.model.text import clean
from gmg_tui.session.store.reader import open_store

_BLOCK_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20
"""Longer lines are printed in pieces of this size."""
_POLL_S = 0.2
"""Interval for polling a followed file and its session: the standard library cannot wait for a file to grow."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""Line ends, including progress bars' carriage returns, except one that ends a block: it may be half of a CRLF."""


class _Log(NamedTuple):
    """A worker's log, or a job's."""

    label: str
    names: tuple[str, ...]
    """Words that select the log: a slot, or a job's number, name and slot."""
    state: str
    path: Path
    age: tuple[bool, float] = (False, 0.0)
    """Sort key among the jobs of a slot, smallest for the newest."""
    job: int | None = None
    is_rank: bool = False
    """True for the log of a rank other than a job's rank 0."""


def logs(words: tuple[str, ...], *, follow: bool, max_lines: int | None = None) -> int:
    """Prints the log named by `words`: `NAME`, `NAME SLOT`, or the newest session's `SLOT`; returns the exit status.

    In a sweep, a slot selects its newest job; a job's number or name may be given instead. A session's name alone
    selects its only worker or job, or the only failed one. Output is cleaned on a terminal, and unchanged in a pipe.
    Skips all but the last `max_lines`; with `follow`, continues until the session or job has ended. Raises `GmgError`.
    """
    if len(words) > 2:
        raise GmgError("give the session's name and the slot or job: gmg-tui logs [NAME] SLOT|JOB")
    name, word = sessions.split_words(words)
    entry = sessions.find(name, running=False)
    log = _choose(entry, word)
    try:
        while follow and not os.path.exists(log.path) and not _has_ended(entry, log):
            time.sleep(_POLL_S)
        with _open(entry, log) as file:
            if max_lines is not None:
                file.seek(files.start_of_last_lines(file.fileno(), max_lines))
            blocks = _read_blocks(file, entry, log, follow=follow)
            for block in _clean_lines(blocks) if sys.stdout.isatty() else blocks:
                sys.stdout.buffer.write(block)
                sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        return 130
    return 0


def _open(entry: sessions.SessionEntry, log: _Log) -> BinaryIO:
    """Opens a log. Raises `GmgError`."""
    try:
        return files.open_for_reading(log.path)
    except FileNotFoundError:
        raise GmgError(f"{log.label} of session {entry.name} has not written a log yet ({log.path})", 1) from None
    except OSError as error:
        raise GmgError(f"the log {log.path} cannot be read: {error.strerror}", 1) from None


def _choose(entry: sessions.SessionEntry, word: str | None) -> _Log:
    """Returns the log named by `word`, by default the only one or the only failed one. Raises `GmgError`."""
    all_logs = list(_find_logs(entry))
    logs = [log for log in all_logs if not log.is_rank]
    if word is None:
        failed = [log for log in logs if log.state == WorkerState.FAILED]
        candidates = logs if len(logs) == 1 else failed
        if len(candidates) != 1:
            choices = join_words(f"{log.label} {log.state}" for log in failed or logs) or "no worker yet"
            example = f"gmg-tui logs {entry.name} {next((log.names[0] for log in failed or logs), 'SLOT')}"
            raise GmgError(f"{entry.name} has {choices}; choose one, as in: {example}")
        return candidates[0]
    matches = [log for log in all_logs if word in log.names]
    if not matches:
        choices = f"; {entry.name} has {join_words(log.label for log in logs)}"
        hint = suggest(word, [folder.name for folder in sessions.folders()])
        raise GmgError(f"there is no session, slot or job {word}{hint or choices}")
    return min(matches, key=lambda log: (log.names.index(word), log.age))


def _find_logs(entry: sessions.SessionEntry) -> Iterator[_Log]:
    """Yields the logs of a session: one for each worker, or for each job of a sweep and each rank, `JOB.rankN`."""
    if entry.record.session.spec.sweep is None:
        states = {worker.slot: worker.state for worker in entry.record.workers}
        for slot in entry.record.session.slots:
            path = entry.folder / sessions.LOGS / f"{slot.name}.log"
            yield _Log(slot.name, (slot.name,), states.get(slot.name, ""), path)
        return
    with open_store(entry.folder / sessions.STORE) as stored:
        jobs, attempts = stored.jobs, stored.attempts
    for job in jobs:
        names, age = (str(job.number), job.name, job.slot or ""), (job.state.ended, -(job.ended or 0.0))
        path = entry.folder / sessions.job_log(job)
        yield (log := _Log(f"job {job.number} ({job.name})", names, job.state.value, path, age, job.number))
        for attempt in attempts.get(job.number, ()):
            if attempt.rank and attempt.log is not None:
                name = f"{job.number}.rank{attempt.rank}"
                names, path = (name, "", attempt.slot), entry.folder / attempt.log
                yield log._replace(label=f"job {name}", names=names, path=path, is_rank=True)


def _has_ended(entry: sessions.SessionEntry, log: _Log) -> bool:
    """True if nothing more will be written to the log."""
    current = sessions.inspect(entry.folder)
    if current is None or current.state != "running":
        return True
    if log.job is None:
        return False
    with open_store(entry.folder / sessions.STORE) as stored:
        return stored.job(log.job).state.ended


def _read_blocks(file: BinaryIO, entry: sessions.SessionEntry, log: _Log, *, follow: bool) -> Iterator[bytes]:
    """Yields the content of the file and, with `follow`, everything added until the session or job has ended."""
    while True:
        # Check before reading, to miss nothing written in between.
        ended = not follow or _has_ended(entry, log)
        replacement = _open_replacement(file, log.path) if follow else None
        while block := file.read(_BLOCK_BYTES):
            yield block
        if replacement is not None:
            read_to = file.tell()  # `find_cut` moves it
            offset, cut = files.find_cut(file).in_stream(read_to), files.find_cut(replacement)
            replacement.seek(cut.in_file(offset) if cut.missing else 0)
            file.close()
            file = replacement
        elif ended:
            return
        else:
            time.sleep(_POLL_S)


def _open_replacement(file: BinaryIO, path: Path) -> BinaryIO | None:
    """Opens the file that has replaced an open one after a cut or removal; returns None if there is none."""
    try:
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return None
        return files.open_for_reading(path)
    except OSError:
        return None  # removed, and not written again yet


def _clean_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the lines of `blocks`, safe for a terminal."""
    pending, encoding = b"", sys.stdout.encoding
    for block in blocks:
        *lines, pending = _LINE_END.split(pending + block)
        if len(pending) > _MAX_LINE_BYTES:
            lines.append(pending)
            pending = b""
        yield b"".join(f"{clean(line)}\n".encode(encoding, "replace") for line in lines)
    if pending:
        yield f"{clean(pending)}\n".encode(encoding, "replace")
