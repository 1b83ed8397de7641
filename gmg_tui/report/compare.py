"""Sessions beside each other: what differs in how they ran, and what their rates became.

Runs are the replicates: sessions with the same settings are runs of one variant, and how sure a change is follows from how
much those runs differ. The slots of one run share its machine, its minute and its luck, and show nothing of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, variance
from typing import Any, NamedTuple

from gmg_tui import tables, units
from gmg_tui.columns import Column, cell
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.model.tried import SETTLE_S, comparable_rate, t_95
from gmg_tui.report.data import ReportData
from gmg_tui.report.settings import KINDS, Name, Settings, settings
from gmg_tui.text import clean

_NAMED = 4
"""How many slots, jobs or failures a remark names."""
_VARIANT = ("script", "argument", "environment", "option")
"""The kinds of settings that make a variant."""


class Setting(NamedTuple):
    """Something that the sessions ran with."""

    name: Name
    values: tuple[str | None, ...]
    """One for each session."""


class Row(NamedTuple):
    """The rates of a slot, of a sweep's job, or of a tuning's value."""

    key: str
    fps: tuple[float | None, ...]
    """One for each session."""

    def change_pct(self, index: int) -> float | None:
        """Against the first session."""
        return _change_pct(self.fps[0], self.fps[index])


class Variant(NamedTuple):
    """Sessions with the same settings."""

    names: tuple[str, ...]
    """Of the runs that have a rate."""
    fps: tuple[float, ...]
    """The rate of each run: that of all its workers together."""
    change_pct: float | None
    """Of the mean, against the first variant's; None for that one."""
    margin_pct: float | None
    """Half of the interval that holds the change with 95 % confidence; None unless both variants have several runs."""

    def as_json(self) -> dict[str, Any]:
        """Its runs, and the change with its interval."""
        return {
            "sessions": self.names,
            "total_fps": [cell(fps) for fps in self.fps],
            "change_pct": cell(self.change_pct),
            "margin_95_pct": cell(self.margin_pct),
        }


class Side:
    """One session.

    Attributes:
        rates: The rates that can be compared, by slot, job or value.
        short: Rates of attempts that have not run for long enough to be compared.
        failed: The jobs that failed, whose rates do not count.
    """

    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.name = data.name
        self.settings: Settings = settings(data)
        self.failed = [job for job in data.jobs if job.state is WorkerState.FAILED]
        self.short: dict[str, float] = {}
        measured: dict[str, list[float]] = {}
        for job in data.jobs:
            rate, settled = _rate(job)
            if rate is not None and settled:
                measured.setdefault(self._key(job), []).append(rate)
            elif rate is not None:
                self.short[self._key(job)] = rate
        self.rates = {key: fmean(each) for key, each in measured.items()}

    def as_json(self) -> dict[str, Any]:
        """What it is, and its rate."""
        return {
            "session": self.name,
            "state": self.data.state,
            "simulated": self.data.simulated,
            "total_fps": cell(self.total_fps),
            "failed": [job.name for job in self.failed],
        }

    def _key(self, job: JobRecord) -> str:
        """What a job's rate is compared by: in a tuning the value, which another may have measured on another slot."""
        return job.name.partition(",")[0] if self.data.tuning is not None else job.name

    @property
    def total_fps(self) -> float | None:
        """Of all its workers together, without those that failed; None in a sweep, and where no rate is comparable."""
        return self.data.total_fps if self.rates else None


class Comparison:
    """Sessions beside each other; the first is what the others are compared with.

    Attributes:
        differences: The settings that differ.
        same: Those that do not.
        variants: None where the sessions have no single rate, as sweeps.
        unit: What a row is of: `slot`, `job` or `value`.
    """

    def __init__(self, sessions: Sequence[ReportData]) -> None:
        self.sides = [Side(data) for data in sessions]
        names = sorted({name for side in self.sides for name in side.settings}, key=lambda name: KINDS.index(name.kind))
        every = [Setting(name, tuple(side.settings.get(name) for side in self.sides)) for name in names]
        self.differences = [setting for setting in every if len(set(setting.values)) > 1]
        self.same = [setting for setting in every if len(set(setting.values)) == 1 and setting.values[0] is not None]
        keys = dict.fromkeys(key for side in self.sides for key in side.rates)
        self.rows = [Row(key, tuple(side.rates.get(key) for side in self.sides)) for key in keys]
        self.variants = list(self._variants())
        queued = any(data.queued for data in sessions)
        self.unit = "value" if all(data.tuning for data in sessions) else "job" if queued else "slot"

    def _variants(self) -> Iterator[Variant]:
        alike: dict[object, list[Side]] = {}
        for side in self.sides:
            given = {name: value for name, value in side.settings.items() if value is not None}
            key = frozenset((name, value) for name, value in given.items() if name.kind in _VARIANT)
            alike.setdefault(key, []).append(side)
        first: tuple[float, ...] | None = None
        for sides in alike.values():
            totals = [(side.name, side.total_fps) for side in sides]
            fps = tuple(total for _, total in totals if total is not None)
            if not fps:
                continue
            change = None if first is None else _change_pct(fmean(first), fmean(fps))
            margin = None if first is None else _margin_pct(first, fps)
            yield Variant(tuple(name for name, total in totals if total is not None), fps, change, margin)
            first = first or fps

    @property
    def setting_columns(self) -> list[Column[Setting]]:
        """The columns of the table of `differences`."""

        def of(index: int, side: Side) -> Column[Setting]:
            name, priority = f"session_{index}", 90 - index
            return Column(
                name,
                lambda setting: setting.values[index] or units.NOT_KNOWN,
                side.name,
                "",
                str,
                priority,
                left=True,
                limit=32,
            )

        name = Column[Setting]("name", lambda setting: setting.name.name, "what differs", priority=100, left=True)
        return [name, *(of(index, side) for index, side in enumerate(self.sides))]

    @property
    def rate_columns(self) -> list[Column[Row]]:
        """The columns of the table of `rate_rows`."""
        result = [Column[Row]("key", lambda row: row.key, self.unit, priority=100, left=True)]

        def add(index: int, name: str) -> None:
            result.append(Column(f"{name}_fps", lambda row: row.fps[index], name, "", units.fps, 90 - index))
            if index:
                change = f"{name}_change_pct"
                result.append(Column(change, lambda row: row.change_pct(index), "change", "", units.change, 90 - index))

        for index, side in enumerate(self.sides):
            add(index, side.name)
        return result

    @property
    def rate_rows(self) -> list[Row]:
        """A row for each slot, job or value, and the total."""
        totals = tuple(side.total_fps for side in self.sides)
        return [*self.rows, *([Row("total", totals)] if any(total is not None for total in totals) else [])]

    @property
    def same_text(self) -> str:
        """What all sessions have in common, in one line."""
        return ", ".join(f"{setting.name.name} {setting.values[0]}" for setting in self.same)

    @property
    def note(self) -> str:
        """How sure the changes are, in one line; empty where there is no total."""
        if len(self.variants) < 2:
            return ""
        if all(variant.margin_pct is None for variant in self.variants):
            return "one run of each: how much runs differ is not known, so there is no interval; compare several runs of each"
        return "± is what holds the change of the mean run with 95 % confidence"

    @property
    def remarks(self) -> list[str]:
        """Where sessions cannot be compared, or not without doubt, in one sentence each."""
        result = list(self._of_all())
        for side in self.sides:
            result += _of_side(side)
        return [*result, *map(self._of_variant, self.variants)] if len(self.variants) > 1 else result

    def _of_all(self) -> Iterator[str]:
        simulated = [side.name for side in self.sides if side.data.simulated]
        if any(setting.name.kind == "script" for setting in self.differences):
            yield "not a comparison: the scripts are different, and so is the work that a step is"
        if simulated and len(simulated) < len(self.sides):
            yield f"not a comparison: {', '.join(simulated)} simulated, the rest not"
        elif simulated:
            yield "simulated: no GPU was measured, the rates are made up"

    def _of_variant(self, variant: Variant) -> str:
        runs = f"{units.count(len(variant.fps), 'run')} ({', '.join(variant.names)})"
        if variant.change_pct is None:
            return f"{runs}: {units.fps(fmean(variant.fps))} FPS"
        margin = "" if variant.margin_pct is None else f" ± {variant.margin_pct:.1f}"
        may = (
            ": it may be none"
            if variant.margin_pct is not None and abs(variant.change_pct) <= variant.margin_pct
            else ""
        )
        return f"{runs}: {units.fps(fmean(variant.fps))} FPS, {units.change(variant.change_pct)}{margin}{may}"

    def text(self, width: int | None, colour: bool) -> str:
        """All of it for the terminal, without a line end at the end; `width` and `colour` as in `tables.terminal`."""
        same = [f"the same: {self.same_text}"] if self.same else []
        return "\n".join(
            [
                *_clean(side.data.heading for side in self.sides),
                "",
                *tables.terminal(self.setting_columns, self.differences, width=width, colour=colour),
                *_clean(same),
                "",
                *tables.terminal(self.rate_columns, self.rate_rows, width=width, colour=colour, empty=True),
                *([self.note] if self.note else []),
                *_clean(["", *self.remarks] if self.remarks else []),
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data; unknown values are null."""
        rows = [
            {
                self.unit: row.key,
                "fps_mean": [cell(fps) for fps in row.fps],
                "change_pct": [cell(row.change_pct(index)) for index in range(len(row.fps))],
            }
            for row in self.rows
        ]
        return {
            "sessions": [side.as_json() for side in self.sides],
            "differences": [{**setting.name._asdict(), "values": setting.values} for setting in self.differences],
            "same": [{**setting.name._asdict(), "value": setting.values[0]} for setting in self.same],
            f"{self.unit}s": rows,
            "variants": [variant.as_json() for variant in self.variants],
            "note": self.note or None,
            "remarks": self.remarks,
        }


def _rate(job: JobRecord) -> tuple[float | None, bool]:
    """The rate of a job's last attempt, and whether it ran for long enough to be compared; None of one that failed."""
    if job.state is WorkerState.FAILED:
        return None, False
    return job.last.rate, comparable_rate(job.last) is not None


def _of_side(side: Side) -> Iterator[str]:
    name, data = side.name, side.data
    if data.state == "running":
        yield f"{name} still runs: its rates are those so far"
    elif data.state == "lost":
        yield f"{name} was lost: its rates are the last that were written"
    for job in side.failed[:_NAMED]:
        yield f"{name}: {job.name} failed and does not count: {job.reason or 'no reason known'}"
    if len(side.failed) > _NAMED:
        yield f"{name}: {len(side.failed) - _NAMED:,} more failed"
    if side.short:
        yield f"{name}: ran for less than {SETTLE_S:.0f} s and left out: {_named(list(side.short))}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _clean(lines: Iterable[str]) -> list[str]:
    return [clean(line.encode(errors="replace")) for line in lines]


def _change_pct(before: float | None, after: float | None) -> float | None:
    return (after / before - 1) * 100 if before and after is not None else None


def _margin_pct(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the change of the mean, per cent of `before`'s (Welch's t test)."""
    if min(len(before), len(after)) < 2:
        return None
    parts = [variance(runs) / len(runs) for runs in (before, after)]
    if not sum(parts):
        return 0.0
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(runs) - 1) for part, runs in zip(parts, (before, after), strict=True)
    )
    return t_95(freedom) * math.sqrt(sum(parts)) / fmean(before) * 100
