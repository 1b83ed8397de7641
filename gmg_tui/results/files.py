"""Generates a session's files from its store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from gmg_tui.columns import as_csv, cell
from gmg_tui.files import make_private, write_atomic
from gmg_tui.model import JobRecord, Session, Snapshot
from gmg_tui.results import DETAILED, TABLE, TUNE
from gmg_tui.results.jobs import columns, job_json
from gmg_tui.results.summary import summary, tune
from gmg_tui.session import STORE, SUMMARY
from gmg_tui.store.database import encode
from gmg_tui.store.reader import Stored, open_store


def export(folder: Path) -> None:
    """Generate all files of the session in `folder`, and that of `--summary`.

    Each is replaced at once.

    Raises:
        StoreError: The store cannot be read.
        OSError: A file cannot be written; the others are.
    """
    failures: list[OSError] = []
    with open_store(folder / STORE) as stored:
        session, snapshot = stored.session, stored.last_snapshot
        if session is None:
            return
        make_private(folder)
        if snapshot is not None:
            _write_summaries(folder, session, snapshot, failures)
        if session.spec.sweep is not None:
            _write(folder / DETAILED, detailed(stored.each_job(), stored), failures)
            _write(folder / TABLE, table(stored.each_job()), failures)
    if failures:
        raise failures[0]


def _write_summaries(folder: Path, session: Session, snapshot: Snapshot, failures: list[OSError]) -> None:
    data = _json(summary(session, snapshot))
    _write(folder / SUMMARY, [data], failures)
    if snapshot.tuning is not None:
        data = _json(tune(session, snapshot.tuning))
        _write(folder / TUNE, [data], failures)
    if session.spec.summary is not None and snapshot.ended:
        try:
            write_atomic(Path(session.spec.summary), data)
        except OSError as error:
            failures.append(error)


def _write(path: Path, parts: Iterable[bytes], failures: list[OSError]) -> None:
    try:
        write_atomic(path, parts)
    except OSError as error:
        failures.append(OSError(error.errno, error.strerror, str(path)))


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def detailed(jobs: Iterable[JobRecord], stored: Stored, **more: object) -> Iterator[bytes]:
    """The content of `detailed_results.json`: a job of the store on each line, in the order of `jobs`, then `more`."""
    between = b'{"jobs": [\n'
    for job in jobs:
        yield between + encode(job_json(job, stored.attempts_of(job.number))).encode()
        between = b",\n"
    yield (between if between.startswith(b"{") else b"") + b"\n]"
    for key, value in more.items():
        yield f',\n"{key}": {encode(value)}'.encode()
    yield b"}\n"


def table(jobs: Iterable[JobRecord]) -> Iterator[bytes]:
    """The content of `summary_results.csv`: a row for each of `jobs`."""
    rows = list(map(_short, jobs))
    yield from as_csv(columns(rows), rows)


def _short(job: JobRecord) -> JobRecord:
    """The job with what a table shows of its results, which may be long."""
    return structs.replace(
        job, result={name: value for name, value in (job.result or {}).items() if cell(value) is not None}
    )
