"""The results' files, kept up to date while the jobs run, in a small share of the time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui.files import make_private, write_atomic
from gmg_tui.model import JobRecord
from gmg_tui.results import combinations
from gmg_tui.results.detailed import attempt_text, job_text, with_result
from gmg_tui.results.long_texts import LongTexts
from gmg_tui.results.summary import Columns, cells, columns, line, scalar
from gmg_tui.store.records import JobAttempt
from gmg_tui.store.rows import encode

DETAILED = "detailed_results.json"
SUMMARY = "summary_results.csv"
COMBINED = "combined_results.csv"

_REST = 19.0
"""The pause after a write, in multiples of its duration: writing takes at most 5 % of the time."""
_RETRY_S = 5.0
_NOTHING = "{}"


class Results:
    """Collects jobs and attempts, and writes the files. For one thread at a time.

    Each job's text is cached, so that writing costs little more than the I/O; what it has reported is kept on the disk
    where it is long, and in memory as far as the table shows it. `further` is another folder for the same
    files beside the session's, created where it is missing.
    """

    def __init__(self, folder: Path, further: Path | None = None) -> None:
        self._folders = (folder,) if further is None else (folder, further)
        self._jobs: dict[int, JobRecord] = {}
        """Their results as far as the table shows them."""
        self._results = LongTexts(folder)
        self._attempts: dict[int, dict[tuple[int, int], str]] = {}
        """By job, then by attempt and rank."""
        self._changed: set[int] = set()
        """Jobs whose texts are out of date."""
        self._texts: dict[int, str] = {}
        self._rows: dict[int, str] = {}
        self._columns: Columns | None = None
        self._ended = False
        """Whether a job has ended since the last write."""
        self.stale = False
        """Whether the files are out of date."""
        self._not_before = 0.0

    def take(self, jobs: Iterable[JobRecord], attempts: Iterable[JobAttempt]) -> None:
        """Take records, each the latest of its job or attempt."""
        for job in jobs:
            before = self._jobs.get(job.number)
            self._ended |= before is None or before.state.ended or job.state.ended
            if job.result is not None:
                self._results.put(job.number, encode(job.result))
                shown = {name: value for name, value in job.result.items() if scalar(value) is not None}
            else:
                shown = (before.result or {}) if before is not None else {}
            self._jobs[job.number] = structs.replace(job, result=shown)
            self._changed.add(job.number)
        for one in attempts:
            self._attempts.setdefault(one.job, {})[one.attempt.number, one.rank] = attempt_text(one)
            self._changed.add(one.job)
        self.stale |= bool(self._changed)

    @property
    def due_s(self) -> float | None:
        """Seconds until the files are due: soon after a job's end. None when they are not."""
        return max(self._not_before - time.monotonic(), 0.0) if self._ended else None

    def result_of(self, job: int) -> dict[str, Any]:
        """What a job has reported; empty where that is not known. Raises `OSError`."""
        found: dict[str, Any] = json.loads(self._results.get(job, _NOTHING)) or {}
        return found

    def write(self) -> None:
        """Write the files, atomically, into each folder.

        Raises:
            OSError: A file cannot be written; the others are, and all are due again after a pause.
        """
        begun = time.monotonic()
        data = {DETAILED: self.detailed, SUMMARY: self.summary}
        if any(job.combination for job in self._jobs.values()):
            data[COMBINED] = self.combined
        failure: OSError | None = None
        for folder in self._folders:
            for name, content in data.items():
                try:
                    if folder == self._folders[0]:
                        make_private(folder)
                    else:
                        folder.mkdir(parents=True, exist_ok=True)  # with default permissions, as the user named it
                    write_atomic(folder / name, content())
                except OSError as error:
                    failure = failure or OSError(error.errno, error.strerror, str(folder / name))
        now = time.monotonic()
        self._not_before = now + (_RETRY_S if failure else _REST * (now - begun))
        self._ended = self.stale = failure is not None
        if failure is not None:
            raise failure

    def detailed(self, **more: object) -> Iterator[bytes]:
        """The content of `detailed_results.json`: a job on each line, ordered by number, then `more`. Raises `OSError`."""
        self._prepare()
        between = b'{"jobs": [\n'
        for number in sorted(self._jobs):
            yield between
            yield with_result(self._texts[number], self._results.get(number, _NOTHING)).encode()
            between = b",\n"
        if not self._jobs:
            yield between
        yield b"\n]"
        for key, value in more.items():
            yield f',\n"{key}": {encode(value)}'.encode()
        yield b"}\n"

    def summary(self) -> Iterator[bytes]:
        """The content of `summary_results.csv`: a row for each job, ordered by number."""
        self._prepare()
        yield (line(self._columns.header) if self._columns else "").encode(errors="replace")
        for number in sorted(self._jobs):
            yield self._rows[number].encode(errors="replace")

    def combined(self) -> Iterator[bytes]:
        """The content of `combined_results.csv`: a row for each combination that is run several times."""
        jobs = [self._jobs[number] for number in sorted(self._jobs)]
        for row in combinations.file_rows(combinations.combinations(jobs)):
            yield line(row).encode(errors="replace")

    def _prepare(self) -> None:
        """Make the texts that are missing or out of date."""
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
