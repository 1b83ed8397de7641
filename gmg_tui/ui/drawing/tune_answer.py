"""The answer of a tuning so far, for one model of GPU. Pure functions, no widget."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Answer, Best, RunSpec, Tuning
from gmg_tui.tune import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.tune_curve import letter_of
from gmg_tui.ui.drawing.words import known

_NAME: Final = 15
_LABEL: Final = 11
"""Cells of the labels of what is said below the values."""


class _Column(NamedTuple):
    heading: str
    width: int
    texts: Sequence[str]


class _Part(NamedTuple):
    """Rows that stand together, or not at all."""

    rank: int
    """Where there is no room for all, the part with the highest goes first."""
    rows: list[Strip]
    value: int | None = None
    """Which of the answer's values it is."""


class Drawn(NamedTuple):
    """The rows of an answer."""

    rows: list[Strip]
    values: dict[int, int]
    """The places among `words.values_of` of those that are shown, by row."""


def answer_rows(
    tuning: Tuning, answer: Answer, run: RunSpec, width: int, height: int, appearance: Appearance, *, at: int
) -> Drawn:
    """The values, why there are no greater ones, the total, what to beware of and the command; at most `height` rows.

    Args:
        tuning: The tuning.
        answer: The answer to draw, one of the tuning's.
        run: What the session runs, for the command line.
        width: Cells.
        height: Rows; what matters least is left out where all of it does not fit.
        appearance: Styles and signs.
        at: The place of the selected value among `words.values_of`.
    """
    values = words.values_of(answer, tuning.spec)
    parts = [_Part(5, _title(tuning, answer, width, appearance)), *_values(tuning, values, width, appearance, at=at)]
    notes = [
        (4, "next", words.why_not_more(answer), "error" if answer.edge is not None else "text"),
        (6, "together", words.together(answer, tuning.spec), "strong"),
        (8, "slots", words.factors(answer), "text"),
        *((3, "beware", warning, "warn") for warning in answer.warnings),
    ]
    parts += [_said(rank, label, text, style, width, appearance) for rank, label, text, style in notes if text]
    if values:
        parts.append(_said(7, "note", words.caution(tuning.spec), "text", width, appearance))
        parts.append(_command(tuning, run, values[min(at, len(values) - 1)][1], width, appearance))
    while sum(len(part.rows) for part in parts) > height and len(parts) > 1:
        parts.remove(max(parts, key=lambda part: part.rank))
    rows = [(row, part.value) for part in parts for row in part.rows][:height]
    places = {number: value for number, (_, value) in enumerate(rows) if value is not None}
    return Drawn([row for row, _ in rows], places)


def _title(tuning: Tuning, answer: Answer, width: int, appearance: Appearance) -> list[Strip]:
    line = Row(appearance, width).add(" Answer" if tuning.ended else " Answer so far", "title")
    where = f"  {words.model(answer)}, {units.count(len(answer.slots), 'slot')}"
    line.add(where, "dim")
    if len(tuning.answers) > 1:
        line.add(f"  {tuning.answers.index(answer) + 1} of {len(tuning.answers)} models (m)", "key")
    return [line.strip()]


def _values(
    tuning: Tuning, values: Sequence[tuple[str, Best]], width: int, appearance: Appearance, *, at: int
) -> list[_Part]:
    """The table of the values that are answers."""
    if not values:
        return [_Part(0, [Row(appearance, width).add("   none yet", "dim").strip()])]
    columns = _columns(tuning, [best for _, best in values], width)
    heading = Row(appearance, width).to(3 + _NAME)
    edges = []
    place = 3 + _NAME
    for column in columns:
        place += column.width + 2
        edges.append(place - 2)
        heading.right(column.heading, place - 2, "dim")
    parts = [_Part(9, [heading.strip()])]
    for number, (name, _) in enumerate(values):
        chosen = number == at
        line = Row(appearance, width).add(f" {appearance.signs.pointer if chosen else ' '} ", "selected")
        line.add(letter_of(name), "ok").add(f" {name}", "strong" if chosen else "text")
        for place, column in enumerate(columns):
            line.right(column.texts[number], edges[place], ("strong", "fps")[place] if place < 2 else "text")
        parts.append(_Part(0 if chosen else 2, [line.strip()], number))
    return parts


def _columns(tuning: Tuning, found: Sequence[Best], width: int) -> list[_Column]:
    """The columns that have a value and fit, of which the last ones are left out first."""
    spec = tuning.spec
    made = [
        (spec.variable, [f"{best.value:,}" for best in found]),
        (words.unit(spec), [units.fps(best.rate) for best in found]),
        ("±", [words.spread(best).removeprefix("±") for best in found]),
        ("VRAM", [known(best.memory_mib, units.mib) for best in found]),
        (words.watt_unit(spec), [known(words.per_watt(best, spec), units.short) for best in found]),
        ("GPU %", [known(best.gpu_util_pct, units.whole) for best in found]),
        ("W", [known(best.power_w, units.whole) for best in found]),
    ]
    said = [(heading, texts) for heading, texts in made if any(text != units.NOT_KNOWN for text in texts)]
    columns = [
        _Column(heading[:12], max(len(heading[:12]), *(len(text) for text in texts)), texts) for heading, texts in said
    ]
    while len(columns) > 2 and 3 + _NAME + sum(column.width + 2 for column in columns) > width:
        columns.pop()
    return columns


def _said(rank: int, label: str, text: str, style: str, width: int, appearance: Appearance) -> _Part:
    page = Page(width, appearance).row(f"   {label}", text, style, label_width=3 + _LABEL)
    return _Part(rank, page.rows)


def _command(tuning: Tuning, run: RunSpec, best: Best, width: int, appearance: Appearance) -> _Part:
    """The command line of the selected value."""
    text = f"$ {shlex.join(words.command(run, tuning.spec.variable, best.value))}"
    return _said(1, "command", text, "strong", width, appearance)
