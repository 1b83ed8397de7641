"""Sessions beside each other: what differs in how they ran, and their rates."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from gmg_tui.model import JobRecord, NodesSpec, Versions, WorkerState, units
from gmg_tui.model.errors import listed
from gmg_tui.model.secrets import mask
from gmg_tui.model.text import clean
from gmg_tui.model.tried import SETTLE_S, comparable_rate
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column, cell
from gmg_tui.results.report import ReportData
from gmg_tui.session.options import COMPARED, RUN

_OPTION = re.compile(r"--?[A-Za-z]")
_NOTHING = "nothing differs in how they ran"
_FLAG = "yes"
"""The value of an option that has none."""


class Row(NamedTuple):
    """A setting, or the rates of a slot, of a sweep's job or of a tuning's value."""

    name: str
    values: tuple[Any, ...]
    """One for each session; None where unknown."""

    def value(self, index: int) -> Any:
        """That of a session."""
        return self.values[index]

    def change_pct(self, index: int) -> float | None:
        """Of a session's rate, against that of the first."""
        before, after = self.values[0], self.values[index]
        return 100 * (after - before) / before if before and after is not None else None


class Comparison:
    """Sessions beside each other; the first is what the others are compared with.

    Attributes:
        sessions: The sessions.
        differences: The settings that differ.
        rows: The rates of each slot, job or value.
        totals: The sum of each session's rates in `rows`; None in a sweep, and without any.
        unit: What a row is of: `slot`, `job` or `value`.
        remarks: What to know of the sessions' rates, and where they cannot be compared, in one sentence each.
    """

    def __init__(self, sessions: Sequence[ReportData]) -> None:
        self.sessions = sessions
        queued = any(data.queued for data in sessions)
        self.unit = "value" if all(data.tuning for data in sessions) else "job" if queued else "slot"
        self.differences = [row for row in _rows(map(_settings, sessions)) if len(set(row.values)) > 1]
        rates = list(map(_rates, sessions))
        self.rows = _rows(rates)
        self.totals = [
            sum(of.values()) if of and not data.queued else None for data, of in zip(sessions, rates, strict=True)
        ]
        self.remarks = [*self._doubts(), *(remark for data in sessions for remark in _remarks(data))]

    def _doubts(self) -> Iterator[str]:
        simulated = [data.name for data in self.sessions if data.simulated]
        if any(row.name == "script" for row in self.differences):
            yield "not a comparison: the scripts are different, and so is the work that a step is"
        if simulated and len(simulated) < len(self.sessions):
            yield f"not a comparison: {', '.join(simulated)} simulated, the rest not"

    @property
    def setting_columns(self) -> list[Column[Row]]:
        """The columns of the table of `differences`; a session without any setting keeps its column."""
        result = [Column[Row]("name", lambda row: row.name, "what differs", priority=100, left=True)]
        for index, data in enumerate(self.sessions):
            value = partial(_setting, index)
            result.append(Column(f"session_{index}", value, data.name, "", str, 90 - index, left=True, limit=32))
        return result

    @property
    def rate_columns(self) -> list[Column[Row]]:
        """The columns of the table of `rate_rows`."""
        result = [Column[Row]("key", lambda row: row.name, self.unit, priority=100, left=True)]
        for index, data in enumerate(self.sessions):
            value, change = partial(Row.value, index=index), partial(Row.change_pct, index=index)
            result.append(Column(f"{data.name}_fps", value, data.name, "", units.fps, 90 - index))
            if index:
                result.append(Column(f"{data.name}_change_pct", change, "change", "", units.change, 90 - index))
        return result

    @property
    def rate_rows(self) -> list[Row]:
        """A row for each slot, job or value, and the total of those that all sessions have."""
        common = [row.values for row in self.rows if None not in row.values]
        if not common or None in self.totals:
            return self.rows
        name = "total" if len(common) == len(self.rows) else f"total of {units.count(len(common), self.unit)}"
        return [*self.rows, Row(name, tuple(map(sum, zip(*common, strict=True))))]

    def text(self, width: int | None, colour: bool) -> str:
        """All of it for the terminal, without a line end at the end; `width` and `colour` as in `tables.terminal`."""
        return "\n".join(
            [
                *_clean(data.heading for data in self.sessions),
                "",
                *(tables.terminal(self.setting_columns, self.differences, width=width, colour=colour) or [_NOTHING]),
                "",
                *tables.terminal(self.rate_columns, self.rate_rows, width=width, colour=colour, empty=True),
                *_clean(["", *self.remarks] if self.remarks else []),
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data; unknown values are null."""
        rows = [
            {
                self.unit: row.name,
                "fps_mean": [cell(fps) for fps in row.values],
                "change_pct": [cell(row.change_pct(index)) for index in range(len(row.values))],
            }
            for row in self.rows
        ]
        sessions = [
            {
                "session": data.name,
                "state": data.state,
                "simulated": data.simulated,
                "total_fps": cell(total),
                "failed": data.failed,
            }
            for data, total in zip(self.sessions, self.totals, strict=True)
        ]
        differences = [row._asdict() for row in self.differences]
        return {"sessions": sessions, "differences": differences, f"{self.unit}s": rows, "remarks": self.remarks}


def _setting(index: int, row: Row) -> str:
    return row.values[index] or units.NOT_KNOWN


def _rows(of: Iterable[Mapping[str, Any]]) -> list[Row]:
    """A row for each name that any of the sessions has, whose values are given by name."""
    values = list(of)
    return [Row(name, tuple(each.get(name) for each in values)) for name in dict.fromkeys(chain(*values))]


def _key(data: ReportData, job: JobRecord) -> str:
    """What a job's rate is of; in a tuning the value, which another session may have measured on another slot."""
    return job.name.partition(",")[0] if data.tuning is not None else job.name


def _rates(data: ReportData) -> dict[str, float]:
    """The rates that can be compared, by slot, job or value."""
    measured: dict[str, list[float]] = {}
    for job in data.jobs:
        rate = comparable_rate(job.last) if job.state is not WorkerState.FAILED else None
        if rate is not None:
            measured.setdefault(_key(data, job), []).append(rate)
    return {key: fmean(rates) for key, rates in measured.items()}


def _remarks(data: ReportData) -> Iterator[str]:
    """What to know of a session's rates, in one line each."""
    if data.failed:
        yield f"{data.name}: failed and left out: {listed(data.failed)}"
    sound = (job for job in data.jobs if job.state is not WorkerState.FAILED and job.last.rate is not None)
    short = dict.fromkeys(_key(data, job) for job in sound if comparable_rate(job.last) is None)
    if short:
        yield f"{data.name}: ran for less than {SETTLE_S:.0f} s and left out: {listed(short)}"


def _clean(lines: Iterable[str]) -> list[str]:
    return [clean(line.encode(errors="replace")) for line in lines]


def _settings(data: ReportData) -> dict[str, str | None]:
    """What a session ran with, by name; None where that is unknown or was not given."""
    session, spec = data.session, data.session.spec
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits_w = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    installed = session.versions or Versions()
    settings: dict[str, str | None] = {"script": spec.script, **arguments(spec.args)}
    settings |= {f"${name}": value for name, value in mask(spec.env).items()}
    settings |= {
        f"gmg-tui --{opt.setting}": _text(getattr(spec, opt.spec_field)) for opt in RUN if COMPARED in opt.marks
    }
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
    }


def arguments(words: Sequence[str]) -> dict[str, str]:
    """A script's arguments by the names of its options; those without one are `arguments`.

    Which words are the values of options only the script defines: a word after an option counts as its value.
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
    """The distinct values without None."""
    return ", ".join(dict.fromkeys(value for value in values if value is not None)) or None


def _text(value: object) -> str | None:
    if isinstance(value, NodesSpec):
        return value.where
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={each}" for key, each in plain.items()) or _FLAG
    return None if plain is None else str(plain)
