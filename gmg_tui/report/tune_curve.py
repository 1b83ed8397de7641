"""The curve of a tuning as an SVG of the page, which needs no library; its colours are the page's."""

from __future__ import annotations

from html import escape
from statistics import fmean
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import Answer, Trial, Tuning
from gmg_tui.report.charts import COLOURS
from gmg_tui.tune import scale as scales
from gmg_tui.tune import words
from gmg_tui.tune.scale import Scale

_WIDTH, _HEIGHT = 900, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 30, 50
"""Pixels around the curve."""
_LEGEND_PX = 90
"""Pixels of a slot's name above it."""
_TICK_GAP = 0.09
"""Between two labels of the axis, as a share of it."""
_LABELS = 4
"""Steps of the vertical axis."""


class _Ground(NamedTuple):
    """From values and rates to pixels."""

    scale: Scale

    def x(self, value: int) -> float:
        return round(_LEFT + self.scale.x(value) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, rate: float) -> float:
        return round(_TOP + self.scale.y(rate) * (_HEIGHT - _TOP - _BOTTOM), 1)


def svg(tuning: Tuning, answer: Answer) -> str:
    """The curve of the slots of `answer`; a sentence where nothing was measured."""
    scale = scales.scale(tuning, answer)
    if scale is None:
        return '<p class="soft">Nothing was measured.</p>'
    ground = _Ground(scale)
    points = scales.points(tuning, answer)
    parts = [
        *_axes(ground, tuning),
        *_limits(ground, tuning, answer),
        _line(ground, points),
        *(_point(ground, trial, tuning, answer) for trial in points),
        *_names(points, answer),
    ]
    label = escape(f"{words.unit(tuning.spec)} over {tuning.spec.variable}")
    return f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axes(ground: _Ground, tuning: Tuning) -> list[str]:
    """Lines and labels of both axes."""
    scale, floor, end = ground.scale, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    found = []
    for number in range(_LABELS + 1):
        rate = scale.bottom + (scale.top - scale.bottom) * number / _LABELS
        y = ground.y(rate)
        text = units.short(rate) if rate else "0"
        found.append(f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{end}" y2="{y}"/>')
        found.append(f'<text class="end" x="{_LEFT - 8}" y="{y + 4}">{text}</text>')
    for value in scale.ticks(tuning.spec.low, _TICK_GAP):
        x = ground.x(value)
        found.append(f'<line class="grid" x1="{x}" y1="{floor}" x2="{x}" y2="{floor + 5}"/>')
        found.append(f'<text class="middle" x="{x}" y="{floor + 20}">{value:,}</text>')
    found.append(f'<text x="4" y="14">{escape(words.unit(tuning.spec))}</text>')
    found.append(f'<text class="end" x="{end}" y="{_HEIGHT - 8}">{escape(tuning.spec.variable)}</text>')
    return found


def _limits(ground: _Ground, tuning: Tuning, answer: Answer) -> list[str]:
    """Where the memory ends, where the edge is, and the values that are answers."""
    memory, edge = scales.limits(answer)
    floor, found = _HEIGHT - _BOTTOM, []
    for value, name, kind, row in ((memory, "memory", "memory", 1), (edge, "edge", "edge", 2)):
        if value is not None:
            x = ground.x(value)
            found.append(f'<line class="{kind}" x1="{x}" y1="{_TOP}" x2="{x}" y2="{floor}"/>')
            found.append(f'<text class="end {kind}" x="{x - 5}" y="{floor - 16 * row + 8}">{name} {value:,}</text>')
    for name, best in words.values_of(answer, tuning.spec):
        if best.value > 0 and best.rate is not None and scales.drawable(best.rate):
            x, y = ground.x(best.value), ground.y(best.rate)
            found.append(f'<circle class="answer" cx="{x}" cy="{y}" r="9"><title>{name}</title></circle>')
    return found


def _line(ground: _Ground, points: list[Trial]) -> str:
    """The means of the values, joined."""
    rates: dict[int, list[float]] = {}
    for trial in points:
        if trial.rate is not None:
            rates.setdefault(trial.value, []).append(trial.rate)
    path = " ".join(f"{ground.x(value)},{ground.y(fmean(found))}" for value, found in sorted(rates.items()))
    return f'<polyline class="line" points="{path}"/>'


def _point(ground: _Ground, trial: Trial, tuning: Tuning, answer: Answer) -> str:
    """A trial with its interval; a browser shows its figures where the mouse is."""
    if trial.rate is None:
        return ""
    x, y, colour = ground.x(trial.value), ground.y(trial.rate), _colour(trial.slot, answer)
    told = f"{trial.value:,} on {trial.slot}: {words.rate(trial.rate, tuning.spec)} {words.spread(trial)}"
    bar = ""
    if trial.rate_low is not None and trial.rate_high is not None:
        low, high = ground.y(trial.rate_low), ground.y(trial.rate_high)
        bar = f'<line stroke="{colour}" x1="{x}" y1="{high}" x2="{x}" y2="{low}"/>'
    return f'{bar}<circle fill="{colour}" cx="{x}" cy="{y}" r="4"><title>{escape(told)}</title></circle>'


def _names(points: list[Trial], answer: Answer) -> list[str]:
    """The colours of the slots, as many as have room."""
    measured = {trial.slot for trial in points}
    slots = [slot for slot in answer.slots if slot in measured][: (_WIDTH - _LEFT - _RIGHT) // _LEGEND_PX]
    found = []
    for number, slot in enumerate(slots):
        x = _LEFT + 20 + number * _LEGEND_PX
        found.append(f'<circle fill="{_colour(slot, answer)}" cx="{x}" cy="10" r="4"/>')
        found.append(f'<text x="{x + 8}" y="14">{escape(slot)}</text>')
    return found


def _colour(slot: str, answer: Answer) -> str:
    return COLOURS[answer.slots.index(slot) % len(COLOURS)]
