"""`logs`: the log file of a worker, or of a sweep's job, on standard output."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gmg_tui import files
from gmg_tui import session as sessions
from gmg_tui.errors import GmgError, listed, nearest
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.session import SessionEntry
from gmg_tui.text import clean

_BLOCK_BYTES = 1 << 16
_LINE_BYTES = 1 << 20
"""A line without an end is printed in pieces of this size."""
_POLL_S = 0.2
"""How often a followed file is polled: the standard library cannot wait for a file to grow."""
_JOB_POLL_S = 1.0
"""How often the store is asked whether a followed job has ended."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""A carriage return ends a line too (progress bars); at the end of a block it may be half of a pair."""


class _Log(NamedTuple):
    """A log file."""

    entry: SessionEntry
    label: str
    """The slot, or the job."""
    path: Path
    job: int | None = None
    """The job's number."""


def logs(words: tuple[str, ...], *, follow: bool) -> int:
    """Print the log that `words` name: `NAME`, `NAME SLOT`, or the `SLOT` of the newest session; the exit status.

    In a sweep a job's number or name may replace the slot; a slot means the job that runs on it, or last ran there. A
    session's name alone means its only worker or job, or the only one that has failed.

    The bytes are the worker's; only on a terminal they are cleaned, as a worker must not control it. `follow` keeps
    printing until the session, or the job, has ended.

    Raises:
        GmgError: There is no such session, slot, job or log.
    """
    if len(words) > 2:
        raise GmgError("give the session's name and the slot or job: gmg-tui logs [NAME] SLOT|JOB")
    named = len(words) == 2 or any(folder.name == words[0] for folder in sessions.folders()) if words else False
    entry = sessions.find(words[0] if named else None, running=False)
    of = _of_worker if entry.record.session.spec.sweep is None else _of_job
    log = of(entry, words[-1] if words[named:] else None)
    try:
        while follow and not log.path.exists() and not _has_ended(log):
            time.sleep(_POLL_S)
        with log.path.open("rb") as file:
            _print(_blocks(file, log, follow=follow))
    except FileNotFoundError:
        raise GmgError(f"{log.label} of session {entry.name} has not written a log yet ({log.path})", 1) from None
    except KeyboardInterrupt:
        return 130
    return 0


def _of_worker(entry: SessionEntry, slot: str | None) -> _Log:
    """The log of the worker on a slot, by default the only or the failed one. Raises `GmgError`."""
    if slot is None:
        states = {worker.slot: worker.state for worker in entry.record.workers}
        slot = _only(entry, states, {name: f"{name} ({state})" for name, state in states.items()})
    if entry.record.session.slot(slot) is None:
        slots = ", ".join(slot.name for slot in entry.record.session.slots)
        hint = nearest(slot, [folder.name for folder in sessions.folders()])
        raise GmgError(f"there is no session or slot {slot}{hint or f'; the slots of {entry.name}: {slots}'}")
    return _Log(entry, slot, entry.folder / sessions.LOGS / f"{slot}.log")


def _of_job(entry: SessionEntry, word: str | None) -> _Log:
    """The log of the job with that number, name or slot, by default the only or the failed one. Raises `GmgError`."""
    jobs = _jobs(entry)
    if word is None:
        labels = {str(job.number): f"{job.number} {job.name} ({job.state.value})" for job in jobs}
        word = _only(entry, {str(job.number): job.state.value for job in jobs}, labels)
    if entry.record.session.slot(word) is not None:
        on_slot = [job for job in jobs if job.slot == word]
        if not on_slot:
            raise GmgError(f"no job has run on {word} of session {entry.name} yet", 1)
        job = max(on_slot, key=lambda job: (not job.state.ended, job.ended or 0.0))
    else:
        named = [job for job in jobs if word in {str(job.number), job.name}]
        if not named:
            slots = ", ".join(slot.name for slot in entry.record.session.slots)
            there = f"in {entry.name}: numbers from 1 to {len(jobs)}, names, and {slots}"
            raise GmgError(f"there is no session or job {word}; {there}")
        job = min(named, key=lambda job: str(job.number) != word)
    return _Log(entry, f"job {job.number} ({job.name})", entry.folder / sessions.job_log(job), job.number)


def _jobs(entry: SessionEntry) -> list[JobRecord]:
    from gmg_tui.store.reader import load_jobs  # only for sweeps

    return load_jobs(entry.folder / sessions.STORE)


def _only(entry: SessionEntry, states: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """The only worker or job, or the only one that has failed. Raises `GmgError`, which lists those that have, or all."""
    failed = [name for name, state in states.items() if state == WorkerState.FAILED]
    for names in (list(states), failed):
        if len(names) == 1:
            return names[0]
    choices = failed or list(states)
    example = f"gmg-tui logs {entry.name} {next(iter(choices), 'SLOT')}"
    there = listed(labels[name] for name in choices) or "no worker yet"
    raise GmgError(f"{entry.name} has {there}; choose one, as in: {example}")


def _has_ended(log: _Log) -> bool:
    """Whether nothing more will be written to it."""
    now = sessions.inspect(log.entry.folder)
    if now is None or now.state != "running":
        return True
    return log.job is not None and any(job.number == log.job and job.state.ended for job in _jobs(log.entry))


def _blocks(file: BinaryIO, log: _Log, *, follow: bool) -> Iterator[bytes]:
    """The content of the file; with `follow` until the log has ended."""
    while True:
        # Checked before reading, so that nothing written in between is missed.
        over = not follow or _has_ended(log)
        replacement = _replacement(file, log.path) if follow else None
        while block := file.read(_BLOCK_BYTES):
            yield block
        if replacement is not None:
            read_to = file.tell()  # `find` reads, too
            offset, cut = files.find_cut(file).in_stream(read_to), files.find_cut(replacement)
            replacement.seek(cut.in_file(offset) if cut.missing else 0)
            file.close()
            file = replacement
        elif over:
            return
        else:
            time.sleep(_POLL_S if log.job is None else _JOB_POLL_S)


def _replacement(file: BinaryIO, path: Path) -> BinaryIO | None:
    """The file that replaced an open one after its middle was cut out or it was removed; None if none did."""
    try:
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return None
        return path.open("rb")
    except OSError:
        return None  # removed, and not written again yet


def _print(blocks: Iterator[bytes]) -> None:
    output = sys.stdout.buffer
    for block in _cleaned(blocks) if sys.stdout.isatty() else blocks:
        output.write(block)
        output.flush()


def _cleaned(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of `blocks`, safe for a terminal."""
    pending, encoding = b"", sys.stdout.encoding
    for block in blocks:
        *lines, pending = _LINE_END.split(pending + block)
        if len(pending) > _LINE_BYTES:
            lines.append(pending)
            pending = b""
        yield b"".join(f"{clean(line)}\n".encode(encoding, "replace") for line in lines)
    if pending:
        yield f"{clean(pending)}\n".encode(encoding, "replace")
