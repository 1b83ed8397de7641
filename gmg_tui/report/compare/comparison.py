"""Sessions beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from gmg_tui.model.tried import margin_95
from gmg_tui.report.compare.settings import Name
from gmg_tui.report.compare.sides import Side

_KINDS = ("script", "argument", "environment", "option", "hardware", "version")
"""In the order in which they are told."""


class Setting(NamedTuple):
    """Something that the sessions ran with."""

    name: Name
    values: tuple[str | None, ...]
    """One for each session; None where it is not known, or was not given."""


class Row(NamedTuple):
    """A slot, or a sweep's job."""

    key: str
    fps: tuple[float | None, ...]
    change_pct: tuple[float | None, ...]
    """Against the first session; None for that one, and where a rate is not known."""


class Change(NamedTuple):
    """What the rate of a session is, against the first's."""

    mean_pct: float | None
    """The mean of the changes of what both have; None where they have nothing in common."""
    margin_pct: float | None
    """Half of the interval that holds it with 95 % confidence, by the spread of the changes; None with fewer than two."""
    total_pct: float | None
    """Of the totals; None where they are not of the same slots."""
    pairs: int
    """How many slots or jobs both have."""


class Comparison(NamedTuple):
    """Sessions beside each other; all tuples of values have one for each session."""

    sides: tuple[Side, ...]
    differences: tuple[Setting, ...]
    same: tuple[Setting, ...]
    rows: tuple[Row, ...]
    changes: tuple[Change | None, ...]
    """None for the first session."""

    @property
    def unit(self) -> str:
        """What a row is of."""
        if all(side.tuned for side in self.sides):
            return "value"
        return "job" if any(side.queued for side in self.sides) else "slot"


def compare(sides: Sequence[Side]) -> Comparison:
    """Put sessions beside each other; the first is what the others are compared with."""
    names = list(dict.fromkeys(name for side in sides for name in side.settings))
    names.sort(key=lambda name: _KINDS.index(name.kind))
    every = [Setting(name, tuple(side.settings.get(name) for side in sides)) for name in names]
    every = [one for one in every if one.name.kind == "version" or any(value is not None for value in one.values)]
    keys = dict.fromkeys(key for side in sides for key in side.rates)
    first, *others = sides
    return Comparison(
        tuple(sides),
        tuple(one for one in every if len(set(one.values)) > 1),
        tuple(one for one in every if len(set(one.values)) == 1),
        tuple(_row(key, sides) for key in keys),
        (None, *(_change(first, other) for other in others)),
    )


def _row(key: str, sides: Sequence[Side]) -> Row:
    fps = tuple(side.known.get(key) for side in sides)
    return Row(key, fps, (None, *(change_pct(fps[0], one) for one in fps[1:])))


def _change(first: Side, other: Side) -> Change:
    pairs = [(first.known[key], other.known[key]) for key in first.known if key in other.known]
    changes = [change for pair in pairs if (change := change_pct(*pair)) is not None]
    margin = margin_95(stdev(changes), len(changes)) if len(changes) > 1 else None
    alike = first.known.keys() == other.known.keys()
    total = change_pct(first.total_fps, other.total_fps) if alike else None
    return Change(fmean(changes) if changes else None, margin, total, len(changes))


def change_pct(before: float | None, after: float | None) -> float | None:
    """A change in per cent; None where it is not known."""
    return (after / before - 1) * 100 if before and after is not None else None
