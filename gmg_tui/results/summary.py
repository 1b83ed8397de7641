"""The table of `summary_results.csv`: fixed columns, then the jobs' values and results."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from gmg_tui.model import JobRecord
from gmg_tui.results.detailed import rounded

FIXED = (
    *("job", "name", "state", "gpu", "gpu_uuid", "attempts", "exit_code", "reason"),
    *("elapsed_s", "fps_settled", "fps_last", "fps_mean", "n_envs"),
    *("memory_peak_mib", "gpu_util_mean_pct", "energy_j"),
    *("slots", "ddp_group", "ddp_rank", "ddp_world_size"),
)
MAX_RESULTS = 500
"""The most columns for results; the others are in `detailed_results.json` only."""

MAX_TEXT = 32_767
"""Characters of a text; no spreadsheet's cell holds more."""

Cell = bool | int | float | str | None


class Columns(NamedTuple):
    """The columns after the fixed ones."""

    values: dict[str, str]
    """The name of the value in each column."""
    results: dict[str, str]
    """The name of the result in each column."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return (*FIXED, *self.values, *self.results)


def columns(jobs: Iterable[JobRecord]) -> Columns:
    """The columns for these jobs, in the order of their first appearance.

    A value named like a fixed column gets the prefix `value_`, a result named like any other column `result_`.
    """
    values: dict[str, None] = {}
    results: dict[str, None] = {}
    for job in jobs:
        values.update(dict.fromkeys(job.values))
        if len(results) < MAX_RESULTS:
            results.update((name, None) for name, value in (job.result or {}).items() if scalar(value) is not None)
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
    """`value` if a cell can hold it; None for nested values, null, NaN and texts that are too long."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def cells(job: JobRecord, wanted: Columns) -> tuple[Cell, ...]:
    """The cells of a job, one for each column; None where unknown."""
    fps = job.fps
    return (
        *(job.number, job.name, job.state.value, job.gpu_index, job.gpu_uuid, job.attempts, job.exit_code, job.reason),
        *(rounded(job.elapsed_s), rounded(fps.settled) if fps else None, fps.last if fps else None),
        *(scalar(rounded(fps.mean)) if fps else None, job.n_envs),
        *(rounded(job.memory_peak_mib), rounded(job.gpu_util_mean_pct), rounded(job.energy_j)),
        *(" ".join(job.slots) or job.slot, job.group, job.rank, job.world_size),
        *(scalar(job.values.get(name)) for name in wanted.values.values()),
        *(scalar((job.result or {}).get(name)) for name in wanted.results.values()),
    )


def line(row: Iterable[Cell]) -> str:
    """A row of the file, with its line end; booleans as in JSON, empty for None."""
    text = io.StringIO()
    # csv quotes only the line ends that it writes itself, so it is made to write both.
    csv.writer(text, lineterminator="\r\n").writerow(map(_written, row))
    return text.getvalue()[:-2] + "\n"


def _written(cell: Cell) -> Cell:
    """A cell as the file has it: a text that a spreadsheet would take for a formula gets a `'` before it."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
