"""A comparison of sessions: different settings, rates, figures and metrics."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from gmg_tui.model import JobRecord, NodesSpec, Versions, WorkerState, units
from gmg_tui.model.errors import GmgError, join_words
from gmg_tui.model.secrets import mask
from gmg_tui.model.text import one_line
from gmg_tui.model.tried import SETTLE_S, comparable_rate
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column, as_cell
from gmg_tui.results.metric_curves import MAX_ROWS, Summary
from gmg_tui.results.rate_change import BLOCK_S, MeasuredRate, RateChange, compare_rates
from gmg_tui.results.report import ReportData, collect
from gmg_tui.session import STORE, SessionEntry
from gmg_tui.session.options import COMPARED, RUN
from gmg_tui.session.store.reader import open_store

_OPTION = re.compile(r"--?[A-Za-z]")
_NO_DIFFERENCES = "no differences in settings"
_STEP_SETTINGS = ("performance_mode", "deterministic")
"""Settings of the simulator that change how a step is computed."""
_FIGURES: dict[str, tuple[str, Callable[[list[float]], float], Callable[[float | None], str]]] = {
    "start_s": ("start", fmean, units.duration),
    "memory_peak_mib": ("VRAM", max, units.mib),
    "memory_rss_peak_mib": ("RAM", max, units.mib),
}
"""Figures of attempts to compare besides the rate, by field: title, aggregation and formatter."""
_METRIC_FIGURES: tuple[tuple[str, str, Callable[[Summary], Any]], ...] = (
    ("last", "last", lambda metric: metric.mean),
    ("band", "lowest to highest", lambda metric: metric.band),
    ("best", "best", lambda metric: metric.best.value),
    ("best_step", "at step", lambda metric: metric.best.step),
)
"""Columns for each session's metrics: name, title and getter."""
_FLAG_TEXT = "yes"
"""The value to show for an option without one."""


Blocks = Mapping[tuple[str, int | None], Sequence[float]]
"""The rates of a session over time by slot and job, from `Stored.rate_blocks`."""


class Row(NamedTuple):
    """A setting, figure or metric in each session, or the rate of a slot, a sweep's job or a tuning's value."""

    name: str
    values: tuple[Any, ...]
    """A value for each session; None if unknown."""

    def change_pct(self, index: int) -> float | None:
        """Returns the change from the first session's value to that of session `index`; None if one is unknown."""
        before, after = self.values[0], self.values[index]
        return 100 * (after - before) / before if before and after is not None else None


class Comparison:
    """Sessions compared with the first one.

    Attributes:
        sessions: The sessions.
        differences: The settings that differ.
        rows: The rates of each slot, job or value.
        totals: The sum of each plain run's rates; None for a sweep or a tuning run, or without rates.
        unit: The kind of `rows`: `slot`, `job` or `value`.
        figures: The start-up time and memory of each session, named by their fields in `Attempt`.
        metrics: The metrics of each session.
        doubts: Sentences that say why the rates cannot be compared.
        changes: The rate change of each later session; None if unknown.
        remarks: The `doubts`, or else sentences on the `changes`, then sentences on jobs whose rates do not count.
    """

    def __init__(self, sessions: Sequence[ReportData], blocks: Sequence[Blocks] = ()) -> None:
        """Compares `sessions`; `blocks` has the rates of each over time, if known."""
        self.sessions = sessions
        queued = any(data.queued for data in sessions)
        self.unit = "value" if all(data.tuning for data in sessions) else "job" if queued else "slot"
        self.differences = [row for row in _rows(map(_settings, sessions)) if len(set(row.values)) > 1]
        measured = list(map(_measured_rates, sessions, blocks or [{}] * len(sessions)))
        rates = [{name: run.rate for name, run in runs.items()} for runs in measured]
        self.rows = _rows(rates)
        pairs = zip(sessions, rates, strict=True)
        self.totals = [sum(known.values()) if known and not data.queued else None for data, known in pairs]
        self.figures = [row for row in _rows(map(_figures, sessions)) if any(row.values)]
        self.metrics = _rows({metric.name: metric for metric in data.metrics} for data in sessions)
        self.doubts = list(self._find_doubts())
        self.changes = [None if self.doubts else compare_rates(measured[0], later) for later in measured[1:]]
        verdicts = map(self._verdict, sessions[1:], self.changes)
        exclusions = (remark for data in sessions for remark in _exclusions(data))
        self.remarks = [*self.doubts, *filter(None, verdicts), *exclusions]

    def _find_doubts(self) -> Iterator[str]:
        simulated = [data.name for data in self.sessions if data.simulated]
        if len({Path(data.session.spec.script).name for data in self.sessions}) > 1:
            yield "not comparable: different scripts do different work in a step"
        if simulated and len(simulated) < len(self.sessions):
            yield f"not comparable: only {', '.join(simulated)} ran on simulated GPUs"
        for row in self.differences:
            if row.name in _STEP_SETTINGS and None not in row.values:
                yield f"not comparable: {row.name} changes the computation of a step"

    def _verdict(self, data: ReportData, change: RateChange | None) -> str:
        """Returns a sentence with a session's rate change from the first session; empty if unknown."""
        if change is None:
            return ""
        pairs, first = units.count(change.pairs, self.unit), self.sessions[0].name
        if change.interval_pct is None:
            noise = "the noise between runs is unknown"
            return f"{data.name}: {units.change(change.pct)} against {first} over {pairs}; {noise}"
        low, high = change.interval_pct
        significance = "" if high < 0 or low > 0 else ", no difference beyond the noise"
        interval = f"95 %: {units.change(low)} to {units.change(high)}"
        return f"{data.name}: {units.change(change.pct)} against {first} ({interval}) over {pairs}{significance}"

    def find_slower(self, than_pct: float) -> list[str]:
        """Returns the names of the sessions that are slower than the first by more than `than_pct`, beyond the noise.

        Raises `GmgError` if the sessions cannot be compared, or if one has no rate in common with the first.
        """
        if self.doubts:
            raise GmgError(self.doubts[0], 1)
        later = list(zip(self.sessions[1:], self.changes, strict=True))
        if unmatched := [data.name for data, change in later if change is None]:
            raise GmgError(f"{join_words(unmatched)}: no rate to compare with {self.sessions[0].name}", 1)
        return [data.name for data, change in later if change is not None and change.is_slower(than_pct)]

    @property
    def tables(self) -> list[tuple[list[Column[Row]], list[Row]]]:
        """The columns and rows of four tables: settings, rates, figures and metrics."""
        setting = Column[Row]("name", lambda row: row.name, "setting", priority=100, align_left=True)
        rate = replace(setting, name="key", title=self.unit)
        figure = replace(setting, value=lambda row: _FIGURES[row.name][0], title="")
        metrics, rates = [replace(setting, title="metric")], self._rows_with_total()
        for index, data in enumerate(self.sessions):
            for position, (name, title, get) in enumerate(_METRIC_FIGURES):
                value = partial(
                    lambda row, index, get: row.values[index] and get(row.values[index]), index=index, get=get
                )
                heading = title if position else f"{data.name}: {title}"
                metrics.append(Column(f"{name}_{index}", value, heading, priority=90 - index))
        return [
            # A text for unknown settings keeps the column of a session without any.
            (self._columns(setting, lambda row, index: row.values[index] or units.NOT_KNOWN, str), self.differences),
            (self._columns(rate, lambda row, index: row.values[index], units.fps, changes=True), rates),
            (
                self._columns(figure, lambda row, index: _FIGURES[row.name][2](row.values[index]), str, changes=True),
                self.figures,
            ),
            (metrics, self.metrics),
        ]

    def _columns(
        self, first: Column[Row], value: Callable[..., Any], write: Callable[[Any], str], *, changes: bool = False
    ) -> list[Column[Row]]:
        """Returns the column `first`, then one with each session's values and, with `changes`, one with their changes."""
        columns = [first]
        for index, data in enumerate(self.sessions):
            priority, values = 90 - index, partial(value, index=index)
            name, title = f"{data.name}_fps", data.name
            columns.append(Column(name, values, title, "", write, priority, align_left=not changes, max_width=32))
            if changes and index:
                change_pct = partial(Row.change_pct, index=index)
                columns.append(Column(f"{data.name}_change_pct", change_pct, "change", "", units.change, priority))
        return columns

    def _rows_with_total(self) -> list[Row]:
        """Returns the `rows`, then the total of the rows that all sessions have, if all have totals."""
        common = [row.values for row in self.rows if None not in row.values]
        if not common or None in self.totals:
            return self.rows
        name = "total" if len(common) == len(self.rows) else f"total of {units.count(len(common), self.unit)}"
        return [*self.rows, Row(name, tuple(map(sum, zip(*common, strict=True))))]

    def render(self, width: int | None, colour: bool) -> str:
        """Returns the text for a terminal, without a final line end; `width` and `colour` are those of `render_lines`."""
        settings, rates, *others = self.tables
        lines = [*(one_line(data.heading) for data in self.sessions), ""]
        lines += tables.render_lines(*settings, width=width, colour=colour) or [_NO_DIFFERENCES]
        lines += ["", *tables.render_lines(*rates, width=width, colour=colour, keep_empty=True)]
        for columns, rows in others:
            shown = rows[: None if width is None else MAX_ROWS]
            lines += ["", *tables.render_lines(columns, shown, width=width)] if shown else []
        return "\n".join([*lines, *([""] if self.remarks else []), *map(one_line, self.remarks)])

    def as_json(self) -> dict[str, Any]:
        """Returns the comparison as plain data; unknown values are None."""
        rows = [
            {
                self.unit: row.name,
                "fps_mean": [as_cell(fps) for fps in row.values],
                "change_pct": [as_cell(row.change_pct(index)) for index in range(len(row.values))],
            }
            for row in self.rows
        ]
        sessions = [
            {
                "session": data.name,
                "state": data.state,
                "simulated": data.simulated,
                "total_fps": as_cell(total),
                "failed": data.failed,
            }
            for data, total in zip(self.sessions, self.totals, strict=True)
        ]
        later = zip(self.sessions[1:], self.changes, strict=True)
        return {
            "sessions": sessions,
            "differences": [row._asdict() for row in self.differences],
            f"{self.unit}s": rows,
            "figures": [row._asdict() for row in self.figures],
            "metrics": [
                {"metric": row.name, "sessions": [metric and metric.as_json() for metric in row.values]}
                for row in self.metrics
            ],
            "changes": [
                {
                    "session": data.name,
                    "change_pct": change and change.pct,
                    "interval_pct": change and change.interval_pct,
                    "pairs": change.pairs if change else 0,
                }
                for data, change in later
            ],
            "remarks": self.remarks,
        }


def load(entry: SessionEntry) -> tuple[ReportData, Blocks]:
    """Returns a session's data and its rates over time. Raises `StoreError`."""
    with open_store(entry.folder / STORE, copied=True) as stored:
        return collect(entry, stored), stored.rate_blocks(BLOCK_S)


def _figures(data: ReportData) -> dict[str, float]:
    """Returns the `_FIGURES` of a session's jobs that have not failed."""
    attempts = [job.last for job in data.jobs if job.state is not WorkerState.FAILED]
    values = {field: [value for last in attempts if (value := getattr(last, field)) is not None] for field in _FIGURES}
    return {field: aggregate(values[field]) for field, (_, aggregate, _) in _FIGURES.items() if values[field]}


def _rows(by_session: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Returns a row for each name, with each session's value."""
    sessions = list(by_session)
    return [Row(name, tuple(values.get(name) for values in sessions)) for name in dict.fromkeys(chain(*sessions))]


def _row_name(data: ReportData, job: JobRecord) -> str:
    """Returns the name of a job's row: for a tuning's trial its value without the slot, as slots may differ."""
    return job.name.partition(",")[0] if data.tuning is not None else job.name


def _measured_rates(data: ReportData, blocks: Blocks) -> dict[str, MeasuredRate]:
    """Returns the comparable rates by slot, job or value, with their blocks."""
    measured: dict[str, list[MeasuredRate]] = {}
    for job in data.jobs:
        rate = comparable_rate(job.last) if job.state is not WorkerState.FAILED else None
        if rate is not None:
            run = MeasuredRate(rate, blocks.get((job.slot or "", job.number), ()))
            measured.setdefault(_row_name(data, job), []).append(run)
    return {
        name: MeasuredRate(fmean(run.rate for run in runs), [block for run in runs for block in run.blocks])
        for name, runs in measured.items()
    }


def _exclusions(data: ReportData) -> Iterator[str]:
    """Yields a sentence for each reason to exclude rates, with the names of the jobs."""
    if data.failed:
        yield f"{data.name}: excluded (failed): {join_words(data.failed)}"
    rated = (job for job in data.jobs if job.state is not WorkerState.FAILED and job.last.rate is not None)
    short = dict.fromkeys(_row_name(data, job) for job in rated if comparable_rate(job.last) is None)
    if short:
        yield f"{data.name}: excluded (ran for less than {SETTLE_S:.0f} s): {join_words(short)}"


def _settings(data: ReportData) -> dict[str, str | None]:
    """Returns the settings of a session by name; None if unknown or not given."""
    session, spec = data.session, data.session.spec
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits_w = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    installed = session.versions or Versions()
    settings: dict[str, str | None] = {"script": spec.script, **parse_arguments(spec.args)}
    settings |= {f"${name}": value for name, value in mask(spec.env).items()}
    compared = [option for option in RUN if COMPARED in option.marks]
    settings |= {f"gmg-tui --{option.setting}": _format(getattr(spec, option.spec_field)) for option in compared}
    if spec.tune is not None:
        settings |= {f"tune {name}": _format(value) for name, value in structs.asdict(spec.tune).items()}
    if spec.sweep is not None and spec.sweep.file:
        settings["experiments"] = Path(spec.sweep.file).name
    return settings | {
        "slots": str(len(session.slots)),
        "host": spec.host or None,
        "GPU": _join_distinct(f"{number} × {name}" for name, number in models.items()),
        "power limit": _join_distinct(f"{limit:.0f} W" for limit in limits_w),
        "gmg-tui": session.version or None,
        "Genesis": installed.genesis,
        "torch": installed.torch,
        "Python": installed.python,
        "driver": _join_distinct(gpu.driver for gpu in gpus),
        "CUDA": _join_distinct(gpu.cuda for gpu in gpus),
        "compiler": installed.compiler,
        "git commit": session.commit,
        **{
            name: _join_distinct(job.last.simulator.get(name) for job in data.jobs)
            for name in dict.fromkeys(name for job in data.jobs for name in job.last.simulator)
        },
    }


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Returns a script's arguments by option name, with the positional ones under `arguments`.

    A word after an option counts as its value, as only the script knows which options take one.
    """
    by_option: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if _OPTION.match(word):
            name, is_set, value = word.partition("=")
            by_option.setdefault(name, [])
            if is_set:
                by_option[name].append(value)
                name = ""
        else:
            by_option.setdefault(name or "arguments", []).append(word)
            name = ""
    return {name: shlex.join(values) if values else _FLAG_TEXT for name, values in by_option.items()}


def _join_distinct(values: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(value for value in values if value is not None)) or None


def _format(value: object) -> str | None:
    if isinstance(value, NodesSpec):
        return value.where
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={item}" for key, item in plain.items()) or _FLAG_TEXT
    return None if plain is None else str(plain)
