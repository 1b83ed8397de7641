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
from gmg_tui.model.errors import GmgError, listed
from gmg_tui.model.secrets import mask
from gmg_tui.model.text import one_line
from gmg_tui.model.tried import SETTLE_S, comparable_rate
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column, as_cell
from gmg_tui.results.metric_curves import MAX_ROWS, Summary
from gmg_tui.results.rate_change import BLOCK_S, Change, Measured, change
from gmg_tui.results.report import ReportData, collect
from gmg_tui.session import STORE, SessionEntry
from gmg_tui.session.options import COMPARED, RUN
from gmg_tui.session.store.reader import open_store

_OPTION = re.compile(r"--?[A-Za-z]")
_NO_DIFFERENCES = "no differences in settings"
_MODES = ("performance_mode", "deterministic")
"""Settings of the simulator that change the computation of a step."""
_FIGURES: dict[str, tuple[str, Callable[[list[float]], float], Callable[[float | None], str]]] = {
    "start_s": ("start", fmean, units.duration),
    "memory_peak_mib": ("VRAM", max, units.mib),
    "memory_rss_peak_mib": ("RAM", max, units.mib),
}
"""Figures of attempts to compare besides the rate, by field: title, aggregation and format."""
_METRIC_FIGURES: tuple[tuple[str, str, Callable[[Summary], Any]], ...] = (
    ("last", "last", lambda of: of.mean),
    ("band", "lowest to highest", lambda of: of.band),
    ("best", "best", lambda of: of.best.value),
    ("best_step", "at step", lambda of: of.best.step),
)
_FLAG = "yes"
"""The value of an option without one."""


Blocks = Mapping[tuple[str, int | None], Sequence[float]]
"""The rates of a session over time by slot and job, as from `Stored.rate_blocks`."""


class Row(NamedTuple):
    """A setting, a figure, a metric, or the rates of a slot, of a sweep's job or of a tuning's value."""

    name: str
    values: tuple[Any, ...]
    """A value for each session; None if unknown."""

    def change_pct(self, index: int) -> float | None:
        """Returns the change of a session's value from the first session's."""
        before, after = self.values[0], self.values[index]
        return 100 * (after - before) / before if before and after is not None else None


class Comparison:
    """Sessions compared with the first one.

    Attributes:
        sessions: The sessions.
        differences: The settings that differ.
        rows: The rates of each slot, job or value.
        totals: The sum of each session's rates in `rows`; None in a sweep, or without any.
        unit: The kind of `rows`: `slot`, `job` or `value`.
        figures: Start time and memory of each session, by the fields of their attempts.
        metrics: The metrics of each session, by name.
        doubts: The reasons that the rates cannot be compared, a sentence each.
        changes: The rate change of each later session; None if unknown.
        remarks: The `doubts`, else the `changes`, then the rates that do not count, a sentence each.
    """

    def __init__(self, sessions: Sequence[ReportData], blocks: Sequence[Blocks] = ()) -> None:
        """Compares `sessions`; `blocks` are the rates of each over time, if known."""
        self.sessions = sessions
        queued = any(data.queued for data in sessions)
        self.unit = "value" if all(data.tuning for data in sessions) else "job" if queued else "slot"
        self.differences = [row for row in _rows(map(_settings, sessions)) if len(set(row.values)) > 1]
        runs = list(map(_measured, sessions, blocks or [{}] * len(sessions)))
        rates = [{key: run.rate for key, run in of.items()} for of in runs]
        self.rows = _rows(rates)
        pairs = zip(sessions, rates, strict=True)
        self.totals = [sum(of.values()) if of and not data.queued else None for data, of in pairs]
        self.figures = [row for row in _rows(map(_figures, sessions)) if any(row.values)]
        self.metrics = _rows({of.name: of for of in data.metrics} for data in sessions)
        self.doubts = list(self._doubts())
        self.changes = [None if self.doubts else change(runs[0], other) for other in runs[1:]]
        verdicts = map(self._verdict, sessions[1:], self.changes)
        left_out = (remark for data in sessions for remark in _remarks(data))
        self.remarks = [*self.doubts, *filter(None, verdicts), *left_out]

    def _doubts(self) -> Iterator[str]:
        simulated = [data.name for data in self.sessions if data.simulated]
        if len({Path(data.session.spec.script).name for data in self.sessions}) > 1:
            yield "not comparable: different scripts do different work in a step"
        if simulated and len(simulated) < len(self.sessions):
            yield f"not comparable: {', '.join(simulated)} simulated, the rest not"
        for row in self.differences:
            if row.name in _MODES and None not in row.values:
                yield f"not comparable: {row.name} changes the computation of a step"

    def _verdict(self, data: ReportData, of: Change | None) -> str:
        """Returns a sentence with the rate change from the first session; empty if unknown."""
        if of is None:
            return ""
        pairs, first = units.count(of.pairs, self.unit), self.sessions[0].name
        if of.interval_pct is None:
            noise = "the noise between runs is unknown"
            return f"{data.name}: {units.change(of.pct)} against {first} over {pairs}; {noise}"
        low, high = of.interval_pct
        sure = "" if high < 0 or low > 0 else ", no difference beyond the noise"
        interval = f"95 %: {units.change(low)} to {units.change(high)}"
        return f"{data.name}: {units.change(of.pct)} against {first} ({interval}) over {pairs}{sure}"

    def slower(self, than_pct: float) -> list[str]:
        """Returns the names of the sessions that are slower than the first by more than `than_pct`, beyond the noise.

        Raises `GmgError` if the sessions cannot be compared, or have no rates in common.
        """
        if self.doubts:
            raise GmgError(self.doubts[0], 1)
        later = list(zip(self.sessions[1:], self.changes, strict=True))
        if missing := [data.name for data, of in later if of is None]:
            raise GmgError(f"{listed(missing)}: no rate to compare with {self.sessions[0].name}", 1)
        return [data.name for data, of in later if of is not None and of.is_slower(than_pct)]

    @property
    def tables(self) -> list[tuple[list[Column[Row]], list[Row]]]:
        """The columns and rows of four tables: settings (a session without any keeps its column), rates, figures, metrics."""
        named = Column[Row]("name", lambda row: row.name, "setting", priority=100, align_left=True)
        rate = replace(named, name="key", title=self.unit)
        figure = replace(named, value=lambda row: _FIGURES[row.name][0], title="")
        metrics = [replace(named, title="metric")]
        for index, data in enumerate(self.sessions):
            for place, (name, title, value) in enumerate(_METRIC_FIGURES):
                of = partial(lambda row, at, value: row.values[at] and value(row.values[at]), at=index, value=value)
                heading = title if place else f"{data.name}: {title}"
                metrics.append(Column(f"{name}_{index}", of, heading, priority=90 - index))
        return [
            (self._columns(named, lambda row, index: row.values[index] or units.NOT_KNOWN, str), self.differences),
            (self._columns(rate, lambda row, index: row.values[index], units.fps, changes=True), self._with_total()),
            (
                self._columns(figure, lambda row, index: _FIGURES[row.name][2](row.values[index]), str, changes=True),
                self.figures,
            ),
            (metrics, self.metrics),
        ]

    def _columns(
        self, named: Column[Row], value: Callable[..., Any], write: Callable[[Any], str], *, changes: bool = False
    ) -> list[Column[Row]]:
        """Returns the columns for the rows' names, each session's values and, with `changes`, their changes."""
        result = [named]
        for index, data in enumerate(self.sessions):
            priority, of = 90 - index, partial(value, index=index)
            result.append(
                Column(f"{data.name}_fps", of, data.name, "", write, priority, align_left=not changes, max_width=32)
            )
            if changes and index:
                of = partial(Row.change_pct, index=index)
                result.append(Column(f"{data.name}_change_pct", of, "change", "", units.change, priority))
        return result

    def _with_total(self) -> list[Row]:
        """Returns the `rows`, and the total of the rows that all sessions have."""
        common = [row.values for row in self.rows if None not in row.values]
        if not common or None in self.totals:
            return self.rows
        name = "total" if len(common) == len(self.rows) else f"total of {units.count(len(common), self.unit)}"
        return [*self.rows, Row(name, tuple(map(sum, zip(*common, strict=True))))]

    def text(self, width: int | None, colour: bool) -> str:
        """Returns the text for the terminal, without a final line end; `width` and `colour` as in `tables.render_lines`."""
        settings, rates, *others = self.tables
        lines = [*(one_line(data.heading) for data in self.sessions), ""]
        lines += tables.render_lines(*settings, width=width, colour=colour) or [_NO_DIFFERENCES]
        lines += ["", *tables.render_lines(*rates, width=width, colour=colour, keep_empty=True)]
        for columns, rows in others:
            shown = rows[: None if width is None else MAX_ROWS]
            lines += ["", *tables.render_lines(columns, shown, width=width)] if shown else []
        return "\n".join([*lines, *([""] if self.remarks else []), *map(one_line, self.remarks)])

    def as_json(self) -> dict[str, Any]:
        """Returns the comparison as plain data; unknown values are null."""
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
                {"metric": row.name, "sessions": [of and of.as_json() for of in row.values]} for row in self.metrics
            ],
            "changes": [
                {
                    "session": data.name,
                    "change_pct": of and of.pct,
                    "interval_pct": of and of.interval_pct,
                    "pairs": of.pairs if of else 0,
                }
                for data, of in later
            ],
            "remarks": self.remarks,
        }


def load(entry: SessionEntry) -> tuple[ReportData, Blocks]:
    """Returns a session and its rates over time. Raises `StoreError`."""
    with open_store(entry.folder / STORE) as stored:
        return collect(entry, stored), stored.rate_blocks(BLOCK_S)


def _figures(data: ReportData) -> dict[str, float]:
    """Returns the `_FIGURES` of a session's jobs, without the failed ones."""
    attempts = [job.last for job in data.jobs if job.state is not WorkerState.FAILED]
    values = {field: [value for each in attempts if (value := getattr(each, field)) is not None] for field in _FIGURES}
    return {field: sum_up(values[field]) for field, (_, sum_up, _) in _FIGURES.items() if values[field]}


def _rows(of: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Returns a row for each name in the mappings of the sessions."""
    values = list(of)
    return [Row(name, tuple(each.get(name) for each in values)) for name in dict.fromkeys(chain(*values))]


def _key(data: ReportData, job: JobRecord) -> str:
    """Returns the name of a job's row: in a tuning its value without the slot, which may differ."""
    return job.name.partition(",")[0] if data.tuning is not None else job.name


def _measured(data: ReportData, blocks: Blocks) -> dict[str, Measured]:
    """Returns the comparable rates by slot, job or value, with their blocks."""
    measured: dict[str, list[Measured]] = {}
    for job in data.jobs:
        rate = comparable_rate(job.last) if job.state is not WorkerState.FAILED else None
        if rate is not None:
            run = Measured(rate, blocks.get((job.slot or "", job.number), ()))
            measured.setdefault(_key(data, job), []).append(run)
    return {
        key: Measured(fmean(run.rate for run in runs), [block for run in runs for block in run.blocks])
        for key, runs in measured.items()
    }


def _remarks(data: ReportData) -> Iterator[str]:
    """Yields the jobs whose rates do not count, a sentence for each reason."""
    if data.failed:
        yield f"{data.name}: failed and left out: {listed(data.failed)}"
    sound = (job for job in data.jobs if job.state is not WorkerState.FAILED and job.last.rate is not None)
    short = dict.fromkeys(_key(data, job) for job in sound if comparable_rate(job.last) is None)
    if short:
        yield f"{data.name}: ran for less than {SETTLE_S:.0f} s and left out: {listed(short)}"


def _settings(data: ReportData) -> dict[str, str | None]:
    """Returns the settings of a session by name; None if unknown or not given."""
    session, spec = data.session, data.session.spec
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits_w = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    installed = session.versions or Versions()
    settings: dict[str, str | None] = {"script": spec.script, **arguments(spec.args)}
    settings |= {f"${name}": value for name, value in mask(spec.env).items()}
    compared = [opt for opt in RUN if COMPARED in opt.marks]
    settings |= {f"gmg-tui --{opt.setting}": _text(getattr(spec, opt.spec_field)) for opt in compared}
    if spec.tune is not None:
        settings |= {f"tune {name}": _text(value) for name, value in structs.asdict(spec.tune).items()}
    if spec.sweep is not None and spec.sweep.file:
        settings["experiments"] = Path(spec.sweep.file).name
    return settings | {
        "slots": str(len(session.slots)),
        "host": spec.host or None,
        "GPU": _distinct(f"{number} × {name}" for name, number in models.items()),
        "power limit": _distinct(f"{limit:.0f} W" for limit in limits_w),
        "gmg-tui": session.version or None,
        "Genesis": installed.genesis,
        "torch": installed.torch,
        "Python": installed.python,
        "driver": _distinct(gpu.driver for gpu in gpus),
        "CUDA": _distinct(gpu.cuda for gpu in gpus),
        "compiler": installed.compiler,
        "git commit": session.commit,
        **{
            name: _distinct(job.last.simulator.get(name) for job in data.jobs)
            for name in dict.fromkeys(name for job in data.jobs for name in job.last.simulator)
        },
    }


def arguments(words: Sequence[str]) -> dict[str, str]:
    """Returns a script's arguments by option name, and positional ones as `arguments`.

    A word after an option counts as its value: only the script knows which options take one.
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
    return {name: shlex.join(values) if values else _FLAG for name, values in by_option.items()}


def _distinct(values: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(value for value in values if value is not None)) or None


def _text(value: object) -> str | None:
    if isinstance(value, NodesSpec):
        return value.where
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={each}" for key, each in plain.items()) or _FLAG
    return None if plain is None else str(plain)
