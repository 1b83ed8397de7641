"""A session's jobs as a table, which `summary_results.csv` is: fixed columns, then the jobs' values and results."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from gmg_tui.model import JobRecord
from gmg_tui.results.detailed import rounded

FIXED = (
    "job",
    "name",
    "state",
    "gpu",
    "gpu_uuid",
    "attempts",
    "exit_code",
    "reason",
    "elapsed_s",
    "fps_last",
    "fps_mean",
    "n_envs",
    "memory_peak_mib",
    "gpu_util_mean_pct",
    "energy_j",
)
MAX_RESULTS = 500
"""Columns for results; what further names scripts report is in `detailed_results.json` only."""

Cell = bool | int | float | str | None


class Columns(NamedTuple):
    """The columns after the fixed ones: what each shows, by the column's name."""

    values: dict[str, str]
    """The name of a value, by column."""
    results: dict[str, str]
    """The name of a result, by column."""

    @property
    def header(self) -> tuple[str, ...]:
        """All columns' names, in their order."""
        return (*FIXED, *self.values, *self.results)


def columns(jobs: Iterable[JobRecord]) -> Columns:
    """The columns that these jobs need, each in the order in which a job first has it.

    A value named like a fixed column has `value_` before its name, a result named like any other column `result_`.
    """
    values: dict[str, None] = {}
    results: dict[str, None] = {}
    for job in jobs:
        values.update(dict.fromkeys(job.values))
        if len(results) < MAX_RESULTS:
            results.update((name, None) for name, value in job.result.items() if scalar(value) is not None)
    by_value = _named(values, "value_", FIXED)
    return Columns(by_value, _named(list(results)[:MAX_RESULTS], "result_", (*FIXED, *by_value)))


def _named(names: Iterable[str], prefix: str, taken: Collection[str]) -> dict[str, str]:
    names = list(names)
    found: dict[str, str] = {}
    for name in names:
        column = name
        while column in taken or column in found or (column != name and column in names):
            column = prefix + column
        found[column] = name
    return found


def scalar(value: Any) -> Cell:
    """`value`, when a cell can hold it; None for what is nested, null or no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def cells(job: JobRecord, wanted: Columns) -> tuple[Cell, ...]:
    """The cells of a job, one for each column; None for what is not known."""
    fps = job.fps
    return (
        job.number,
        job.name,
        job.state.value,
        job.gpu_index,
        job.gpu_uuid,
        job.attempts,
        job.exit_code,
        job.reason,
        rounded(job.elapsed_s),
        fps.last if fps else None,
        rounded(fps.mean) if fps else None,
        job.n_envs,
        rounded(job.memory_peak_mib),
        rounded(job.gpu_util_mean_pct),
        rounded(job.energy_j),
        *(scalar(job.values.get(name)) for name in wanted.values.values()),
        *(scalar(job.result.get(name)) for name in wanted.results.values()),
    )


def line(row: Iterable[Cell]) -> str:
    """A row of the file, with its end; true and false as JSON has them, nothing for None."""
    text = io.StringIO()
    # The writer puts only those line ends in quotes that it would write itself, so it is let write both.
    csv.writer(text, lineterminator="\r\n").writerow([str(c).lower() if isinstance(c, bool) else c for c in row])
    return text.getvalue()[:-2] + "\n"
