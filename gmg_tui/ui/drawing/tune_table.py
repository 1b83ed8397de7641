"""The trials of a tuning as a table that sorts. Pure functions, no widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gmg_tui.model import Trial, TrialState, TuneSpec, WorkerState
from gmg_tui.tune import words
from gmg_tui.tune.columns import Column, columns, kept
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row

_STYLES: Final = {
    TrialState.MEASURED: "ok",
    TrialState.RUNNING: "title",
    TrialState.FAILED: "error",
    TrialState.WAITING: "dim",
    TrialState.SKIPPED: "dim",
}
_SIGNS: Final = {
    TrialState.MEASURED: WorkerState.FINISHED,
    TrialState.RUNNING: WorkerState.RUNNING,
    TrialState.FAILED: WorkerState.FAILED,
    TrialState.WAITING: WorkerState.WAITING,
    TrialState.SKIPPED: WorkerState.STOPPED,
}


class Order(NamedTuple):
    """By which column the trials are sorted."""

    column: int = 0
    """Its place in `columns`."""
    down: bool = False
    """Whether the greatest is first."""


class Layout(NamedTuple):
    """The columns that have room, with where they begin and end."""

    columns: Sequence[Column]
    spans: Sequence[tuple[int, int]]
    width: int

    def at(self, x: int) -> str | None:
        """The name of the column at a cell."""
        for column, (start, end) in zip(self.columns, self.spans, strict=True):
            if start <= x < end + 2:
                return column.name
        return None


def ordered(trials: Sequence[Trial], spec: TuneSpec, order: Order) -> list[Trial]:
    """The trials as they are sorted; those without a value of that column are the last."""
    key = columns(spec)[order.column].key

    def place(trial: Trial) -> float | str:
        found = key(trial)
        assert found is not None
        return found

    having = [trial for trial in trials if key(trial) is not None]
    return [
        *sorted(having, key=place, reverse=order.down),
        *(trial for trial in trials if key(trial) is None),
    ]


def layout(trials: Sequence[Trial], spec: TuneSpec, order: Order, width: int) -> Layout:
    """The columns that have room, those that nothing is known of left out; the one that sorts stays."""
    sorting = columns(spec)[order.column].name
    found = kept(trials, spec, width - 2, sorting)
    spans = []
    at = 2
    for column, wide in found:
        end = width if column.name == "reason" else at + wide
        spans.append((at, end))
        at = end + 2
    return Layout([column for column, _ in found], spans, width)


def heading(of: Layout, spec: TuneSpec, order: Order, appearance: Appearance) -> Row:
    """The row above the trials; a sign stands behind the name of the column that sorts."""
    line = Row(appearance, of.width)
    sorting = columns(spec)[order.column].name
    up, down = ("^", "v") if appearance.signs.levels.isascii() else ("↑", "↓")
    for column, (start, end) in zip(of.columns, of.spans, strict=True):
        sign = (down if order.down else up) if column.name == sorting else ""
        style = "strong" if sign else "dim"
        text = f"{column.name}{sign}"
        if column.left:
            line.to(start).add(text, style, limit=end - start)
        else:
            line.right(text, end, style)
    return line


def row(trial: Trial, of: Layout, appearance: Appearance, *, chosen: bool) -> Row:
    """A trial."""
    line = Row(appearance, of.width).add(appearance.signs.pointer if chosen else " ", "selected")
    for column, (start, end) in zip(of.columns, of.spans, strict=True):
        text, style = column.text(trial), "text"
        match column.name:
            case "state":
                style = _STYLES[trial.state]
            case "reason":
                style = "error" if trial.state is TrialState.FAILED else "dim"
            case "#" | "for":
                style = "dim"
            case _ if column is of.columns[0] or column.rank == 0:
                style = "strong" if chosen else "text"
        if column.left:
            line.to(start).add(text, style, limit=end - start)
        else:
            line.right(text, end, style)
    return line


def detail(trial: Trial | None, spec: TuneSpec, width: int, place: str, appearance: Appearance) -> Row:
    """The row below: all about the selected trial, whose own row may be cut."""
    line = Row(appearance, width).end(f" {place} ", "dim")
    if trial is None:
        return line.add("  no trial yet", "dim")
    sign = appearance.signs.states[_SIGNS[trial.state]]
    line.add("  ").add(f"#{trial.number} {spec.variable}={trial.value:,}", "strong").add(f" on {trial.slot}", "text")
    line.add(f"  {sign} {trial.state.value}", _STYLES[trial.state])
    if trial.rate is not None:
        line.add(f"  {words.rate(trial.rate, spec)} {words.spread(trial)}", "text")
    if trial.reason:
        line.add(f"  {trial.reason}", "error" if trial.state is TrialState.FAILED else "text")
    return line
