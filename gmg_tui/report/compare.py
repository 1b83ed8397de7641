"""Sessions beside each other: what differs in how they ran, and their rates."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from gmg_tui import tables, units
from gmg_tui.columns import Column, cell
from gmg_tui.model import NodesSpec, Versions, WorkerState
from gmg_tui.model.tried import SETTLE_S, comparable_rate
from gmg_tui.options import COMPARED, RUN
from gmg_tui.report.data import ReportData
from gmg_tui.text import clean

_NAMED = 4
"""How many slots or jobs a remark names."""
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
        """Of a rate, against the first session."""
        before, after = self.values[0], self.values[index]
        return (after / before - 1) * 100 if before and after is not None else None


class Side:
    """One session.

    Attributes:
        rates: The rates that can be compared, by slot, job or value.
        short: What has not run for long enough to be compared.
        failed: The jobs that failed, whose rates do not count.
        total_fps: Of all its workers together, without those that failed; None in a sweep, and without a rate to compare.
    """

    def __init__(self, data: ReportData) -> None:
        self.data, self.name = data, data.name
        self.settings = _settings(data)
        self.failed = [job.name for job in data.jobs if job.state is WorkerState.FAILED]
        self.short: list[str] = []
        measured: dict[str, list[float]] = {}
        for job in data.jobs:
            # In a tuning what counts is the value, which another may have measured on another slot.
            key = job.name.partition(",")[0] if data.tuning is not None else job.name
            if job.state is WorkerState.FAILED or job.last.rate is None:
                continue
            if comparable_rate(job.last) is None:
                self.short.append(key)
            else:
                measured.setdefault(key, []).append(job.last.rate)
        self.rates = {key: fmean(each) for key, each in measured.items()}
        self.total_fps = data.total_fps if self.rates else None

    @property
    def remarks(self) -> Iterator[str]:
        """What to know of its rates, in one line each."""
        if self.data.state == "running":
            yield f"{self.name} still runs: its rates are those so far"
        elif self.data.state == "lost":
            yield f"{self.name} was lost: its rates are the last that were written"
        if self.failed:
            yield f"{self.name}: failed and left out: {_named(self.failed)}"
        if self.short:
            yield f"{self.name}: ran for less than {SETTLE_S:.0f} s and left out: {_named(list(dict.fromkeys(self.short)))}"


class Comparison:
    """Sessions beside each other; the first is what the others are compared with.

    Attributes:
        differences: The settings that differ.
        rows: The rates of each slot, job or value.
        unit: What a row is of: `slot`, `job` or `value`.
        remarks: Where sessions cannot be compared, or not without doubt, in one sentence each.
    """

    def __init__(self, sessions: Sequence[ReportData]) -> None:
        self.sides = [Side(data) for data in sessions]
        queued = any(data.queued for data in sessions)
        self.unit = "value" if all(data.tuning for data in sessions) else "job" if queued else "slot"
        settings = dict.fromkeys(name for side in self.sides for name in side.settings)
        every = [Row(name, tuple(side.settings.get(name) for side in self.sides)) for name in settings]
        self.differences = [row for row in every if len(set(row.values)) > 1]
        keys = dict.fromkeys(key for side in self.sides for key in side.rates)
        self.rows = [Row(key, tuple(side.rates.get(key) for side in self.sides)) for key in keys]
        self.remarks = [*self._doubts(), *(remark for side in self.sides for remark in side.remarks)]

    def _doubts(self) -> Iterator[str]:
        simulated = [side.name for side in self.sides if side.data.simulated]
        if any(row.name == "script" for row in self.differences):
            yield "not a comparison: the scripts are different, and so is the work that a step is"
        if simulated and len(simulated) < len(self.sides):
            yield f"not a comparison: {', '.join(simulated)} simulated, the rest not"
        elif simulated:
            yield "simulated: no GPU was measured, the rates are made up"

    @property
    def setting_columns(self) -> list[Column[Row]]:
        """The columns of the table of `differences`; a session without any setting keeps its column."""
        result = [Column[Row]("name", lambda row: row.name, "what differs", priority=100, left=True)]
        for index, side in enumerate(self.sides):
            value = partial(_setting, index)
            result.append(Column(f"session_{index}", value, side.name, "", str, 90 - index, left=True, limit=32))
        return result

    @property
    def rate_columns(self) -> list[Column[Row]]:
        """The columns of the table of `rate_rows`."""
        result = [Column[Row]("key", lambda row: row.name, self.unit, priority=100, left=True)]
        for index, side in enumerate(self.sides):
            value, change = partial(Row.value, index=index), partial(Row.change_pct, index=index)
            result.append(Column(f"{side.name}_fps", value, side.name, "", units.fps, 90 - index))
            if index:
                result.append(Column(f"{side.name}_change_pct", change, "change", "", units.change, 90 - index))
        return result

    @property
    def rate_rows(self) -> list[Row]:
        """A row for each slot, job or value, and the total."""
        totals = tuple(side.total_fps for side in self.sides)
        return [*self.rows, *([Row("total", totals)] if any(total is not None for total in totals) else [])]

    def text(self, width: int | None, colour: bool) -> str:
        """All of it for the terminal, without a line end at the end; `width` and `colour` as in `tables.terminal`."""
        return "\n".join(
            [
                *_clean(side.data.heading for side in self.sides),
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
                "session": side.name,
                "state": side.data.state,
                "simulated": side.data.simulated,
                "total_fps": cell(side.total_fps),
                "failed": side.failed,
            }
            for side in self.sides
        ]
        differences = [row._asdict() for row in self.differences]
        return {"sessions": sessions, "differences": differences, f"{self.unit}s": rows, "remarks": self.remarks}


def _setting(index: int, row: Row) -> str:
    return row.values[index] or units.NOT_KNOWN


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _clean(lines: Iterable[str]) -> list[str]:
    return [clean(line.encode(errors="replace")) for line in lines]


def _settings(data: ReportData) -> dict[str, str | None]:
    """What a session ran with, by name; None where that is unknown or was not given. Empty where its engine wrote nothing."""
    session = data.session
    if session is None:
        return {}
    spec = session.spec
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits_w = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    installed = session.versions or Versions()
    settings: dict[str, str | None] = {"script": spec.script, **arguments(spec.args)}
    settings |= {f"${name}": value for name, value in spec.env.items()}
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
        return value.text
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={each}" for key, each in plain.items()) or _FLAG
    return None if plain is None else str(plain)
