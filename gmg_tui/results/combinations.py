"""Jobs that were run several times: what each combination of values came to, with mean and spread over its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean, stdev
from typing import NamedTuple

from gmg_tui.model import JobRecord, Value, WorkerState
from gmg_tui.results.detailed import rounded
from gmg_tui.results.summary import Cell, cells, columns, scalar

_MEASURED = ("elapsed_s", "fps_settled", "fps_last", "memory_peak_mib", "gpu_util_mean_pct", "energy_j")
"""The fixed columns of the summary that have means."""


class Measure(NamedTuple):
    """A column over the runs of a combination."""

    mean: float
    spread: float | None
    """The standard deviation of the runs; None with a single one."""


class Combination(NamedTuple):
    """What was run several times with the same values."""

    name: str
    values: dict[str, Value]
    runs: tuple[JobRecord, ...]
    measures: dict[str, Measure]
    """By the summary's column, over the runs that finished and have a number there."""

    @property
    def finished(self) -> int:
        """How many runs went well."""
        return sum(run.state is WorkerState.FINISHED for run in self.runs)

    @property
    def slots(self) -> tuple[str, ...]:
        """Where it ran, in the order of its runs."""
        return tuple(dict.fromkeys(run.slot for run in self.runs if run.slot is not None))


def combinations(jobs: Iterable[JobRecord]) -> list[Combination]:
    """The combinations that are run several times, in the order of their first jobs; empty where none is."""
    listed = [job for job in jobs if job.combination]
    if not listed:
        return []
    wanted = columns(listed)
    measured = [place for place, title in enumerate(wanted.header) if title in _MEASURED or title in wanted.results]
    runs: dict[tuple[int, str], list[JobRecord]] = {}
    for job in listed:
        runs.setdefault((job.batch, job.combination), []).append(job)
    found = []
    for (_, name), each in runs.items():
        rows = [cells(job, wanted) for job in each if job.state is WorkerState.FINISHED]
        measures = {}
        for place in measured:
            numbers = [number for row in rows if (number := _number(row[place])) is not None]
            if numbers:
                spread = stdev(numbers) if len(numbers) > 1 else None
                measures[wanted.header[place]] = Measure(fmean(numbers), spread)
        found.append(Combination(name, each[0].values, tuple(each), measures))
    return found


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None


def file_rows(found: list[Combination]) -> Iterator[tuple[Cell, ...]]:
    """The rows of the file of combinations, the first with the names of the columns."""
    values = dict.fromkeys(name for one in found for name in one.values)
    measures = dict.fromkeys(name for one in found for name in one.measures)
    fixed = ("combination", "runs", "finished", "slots")
    named = (f"value_{name}" if name in fixed else name for name in values)
    yield (*fixed, *named, *(f"{name}_{what}" for name in measures for what in ("mean", "spread")))
    for one in found:
        measured = (one.measures.get(name) for name in measures)
        yield (
            *(one.name, len(one.runs), one.finished, " ".join(one.slots)),
            *(scalar(one.values.get(name)) for name in values),
            *(
                part
                for each in measured
                for part in ((rounded(each.mean), rounded(each.spread)) if each else (None,) * 2)
            ),
        )
