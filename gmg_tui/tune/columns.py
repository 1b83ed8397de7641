"""The columns of a table of trials, on the screen and on standard output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gmg_tui import tables, units
from gmg_tui.model import Trial, TuneSpec
from gmg_tui.tune import words

GAP: Final = 2
"""Cells between two columns."""
_ALWAYS: Final = 3
"""Columns of a rank below this are there also while nothing is known of them."""
REASON_MIN: Final = 12
"""Cells below which a reason has no column."""


class Column(NamedTuple):
    """A column: how it is written, and by what it sorts."""

    name: str
    """Unique; the rate and the value have the metric's and the variable's."""
    text: Callable[[Trial], str]
    key: Callable[[Trial], float | str | None]
    """None sorts last, whichever way."""
    rank: int
    """Where there is no room, the column with the highest goes first."""
    left: bool = False
    """Whether it is text, which stands at the left."""


def columns(spec: TuneSpec) -> list[Column]:
    """All columns, in their order."""
    rate = words.unit(spec)
    return [
        Column("#", lambda trial: str(trial.number), lambda trial: trial.number, 6),
        Column(spec.variable, lambda trial: f"{trial.value:,}", lambda trial: trial.value, 0),
        Column("slot", lambda trial: trial.slot, lambda trial: trial.slot, 1, left=True),
        Column("for", lambda trial: trial.kind.value, lambda trial: trial.kind.value, 5, left=True),
        Column("state", lambda trial: trial.state.value, lambda trial: trial.state.value, 2, left=True),
        Column(rate, lambda trial: units.fps(trial.rate), lambda trial: trial.rate, 0),
        Column("±", lambda trial: words.spread(trial).removeprefix("±"), words.spread_pct, 1),
        Column("VRAM", lambda trial: _known(trial.memory_mib, units.mib), lambda trial: trial.memory_mib, 3),
        Column("GPU %", lambda trial: _known(trial.gpu_util_pct, units.whole), lambda trial: trial.gpu_util_pct, 7),
        Column(
            "SM %", lambda trial: _known(trial.sm_activity_pct, units.whole), lambda trial: trial.sm_activity_pct, 9
        ),
        Column("W", lambda trial: _known(trial.power_w, units.whole), lambda trial: trial.power_w, 7),
        Column(
            words.watt_unit(spec),
            lambda trial: _known(words.per_watt(trial, spec), units.short),
            lambda trial: words.per_watt(trial, spec),
            8,
        ),
        Column("start", lambda trial: _known(trial.start_s, units.span), lambda trial: trial.start_s, 10),
        Column("measured", lambda trial: _known(trial.measured_s, units.span), lambda trial: trial.measured_s, 10),
        Column("reason", lambda trial: trial.reason or "", lambda trial: trial.reason, 4, left=True),
    ]


def kept(trials: Sequence[Trial], spec: TuneSpec, width: int, sorting: str = "") -> list[tuple[Column, int]]:
    """The columns that fit into `width` cells, with their widths; those that nothing is known of are left out.

    The column called `sorting` stays, with a cell for a sign behind its name. A reason has what is left, however little it needs.
    """
    found = []
    for column in columns(spec):
        if column.rank < _ALWAYS or any(column.key(trial) is not None for trial in trials):
            heading = f"{column.name}{' ' * (column.name == sorting)}"
            wide = tables.width([heading, *(column.text(trial) for trial in trials)])
            found.append((column, min(wide, REASON_MIN) if column.name == "reason" else wide))
    while sum(wide + GAP for _, wide in found) - GAP > width:
        spare = [pair for pair in found if pair[0].rank and pair[0].name != sorting]
        if not spare:
            break
        found.remove(max(spare, key=lambda pair: pair[0].rank))
    return found


def _known(value: float | None, write: Callable[[float], str]) -> str:
    return units.NOT_KNOWN if value is None else write(value)
