"""The results' files: kept up to date while the jobs run, at a small part of the time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from gmg_tui.files import make_private, write_atomic
from gmg_tui.model import JobRecord
from gmg_tui.results.detailed import attempt_text, job_text
from gmg_tui.results.summary import Columns, cells, columns, line
from gmg_tui.store.records import JobAttempt

DETAILED = "detailed_results.json"
SUMMARY = "summary_results.csv"

_REST = 19.0
"""How many times as long as writing takes is waited before the next: 5 % of the time."""
_RETRY_S = 5.0


class Results:
    """Jobs and their attempts as they come, and the files made of them. For one thread at a time.

    Each job's text is kept, so that writing costs little more than the bytes.

    Args:
        folder: The session's.
        further: Another folder for the same files, made where it is missing.
    """

    def __init__(self, folder: Path, further: Path | None = None) -> None:
        self._folders = (folder,) if further is None else (folder, further)
        self._jobs: dict[int, JobRecord] = {}
        self._attempts: dict[int, dict[int, str]] = {}
        self._changed: set[int] = set()
        """Jobs whose texts are to be made anew."""
        self._texts: dict[int, str] = {}
        self._rows: dict[int, str] = {}
        self._columns: Columns | None = None
        self._ended = False
        """Whether the files lack a job's end."""
        self._stale = False
        self._not_before = 0.0

    def take(self, jobs: Iterable[JobRecord], attempts: Iterable[JobAttempt]) -> None:
        """Take records, each the latest of its job or attempt."""
        for job in jobs:
            before = self._jobs.get(job.number)
            self._ended |= before is None or before.state.ended or job.state.ended
            self._jobs[job.number] = job
            self._changed.add(job.number)
        for one in attempts:
            self._attempts.setdefault(one.job, {})[one.attempt.number] = attempt_text(one)
            self._changed.add(one.job)
        self._stale |= bool(self._changed)

    @property
    def stale(self) -> bool:
        """Whether the files lack anything."""
        return self._stale

    @property
    def due_s(self) -> float | None:
        """Seconds until the files are to be written: soon after a job's end. None when there is no need."""
        return max(self._not_before - time.monotonic(), 0.0) if self._ended else None

    def write(self) -> None:
        """Write both files, atomically, into each folder.

        Raises:
            OSError: A file cannot be written; the others are, and all are due again after a while.
        """
        begun = time.monotonic()
        data = {DETAILED: self.detailed(), SUMMARY: self.summary()}
        failure: OSError | None = None
        for folder in self._folders:
            for name, content in data.items():
                try:
                    self._make(folder)
                    write_atomic(folder / name, content)
                except OSError as error:
                    failure = failure or OSError(error.errno, error.strerror, str(folder / name))
        now = time.monotonic()
        self._not_before = now + (_RETRY_S if failure else _REST * (now - begun))
        self._ended = self._stale = failure is not None
        if failure is not None:
            raise failure

    def _make(self, folder: Path) -> None:
        """See that the folder is there: the session's for this user alone, the other as the user makes folders."""
        if folder == self._folders[0]:
            make_private(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)

    def detailed(self) -> bytes:
        """What `detailed_results.json` holds: a job on each line, in the order of their numbers."""
        self._prepare()
        listed = ",\n".join(self._texts[number] for number in sorted(self._jobs))
        return f'{{"jobs": [\n{listed}\n]}}\n'.encode()

    def summary(self) -> bytes:
        """What `summary_results.csv` holds: a row for each job, in the order of their numbers."""
        self._prepare()
        header = line(self._columns.header) if self._columns else ""
        return (header + "".join(self._rows[number] for number in sorted(self._jobs))).encode(errors="replace")

    def _prepare(self) -> None:
        """Make the texts that are missing or old."""
        wanted = columns(self._jobs[number] for number in sorted(self._jobs))
        changed = self._changed & self._jobs.keys()  # an attempt may come before its job
        for number in changed:
            attempts = self._attempts.get(number, {})
            self._texts[number] = job_text(self._jobs[number], (attempts[key] for key in sorted(attempts)))
        again = changed if wanted == self._columns else self._jobs.keys()
        for number in again:
            self._rows[number] = line(cells(self._jobs[number], wanted))
        self._columns = wanted
        self._changed -= changed
