"""A tuning in a report: its trials and its answer as text, and as a section of the page with the curve.

Its texts are those of `results.tuning.read`, which are safe on any terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from gmg_tui import tables
from gmg_tui.model import Answer, Trial, TrialState, Tuning
from gmg_tui.report.tune_curve import svg
from gmg_tui.tune import answer_text, words
from gmg_tui.tune.columns import GAP, REASON_MIN, Column, columns, kept

_STYLES = {TrialState.MEASURED: 32, TrialState.FAILED: 31, TrialState.RUNNING: 36}
"""Select Graphic Rendition parameters (ECMA-48), as in the table of jobs."""


def text_lines(tuning: Tuning, width: int, *, colour: bool) -> list[str]:
    """The trials in the order of their values, then the answer; as wide as `width` where that is possible."""
    trials = _ordered(tuning)
    found = kept(trials, tuning.spec, width)
    shown = [column for column, _ in found]
    left = max(REASON_MIN, width - sum(wide + GAP for column, wide in found if column.name != "reason"))
    rows = [[column.name for column in shown], *([_text(column, trial, left) for column in shown] for trial in trials)]

    def style(row: int, column: int, cell: str) -> str:
        if not colour:
            return cell
        if row == 0:
            return f"\x1b[1m{cell}\x1b[0m"
        number = _STYLES.get(trials[row - 1].state, 2)
        return f"\x1b[{number}m{cell}\x1b[0m" if shown[column].name == "state" else cell

    drawn = tables.lines(rows, "".join("l" if column.left else "r" for column in shown), style=style)
    return [*drawn, *answer_text.lines(tuning)]


def section(tuning: Tuning) -> str:
    """The section of the page."""
    head = f"<h2>Tuning: {escape(words.wanted(tuning.spec))}</h2>"
    answers = "".join(_answer(tuning, answer) for answer in tuning.answers)
    command = f"<pre>{escape(shlex.join(tuning.command))}</pre>" if tuning.command else ""
    caution = f'<p class="soft">{escape(words.caution(tuning.spec))}</p>'
    return f"{head}\n{answers}{command}{caution}\n{_trials(tuning)}"


def _answer(tuning: Tuning, answer: Answer) -> str:
    """The curve of a model of GPU, and its answer."""
    spec = tuning.spec
    notes = (
        words.why_not_more(answer),
        f"together: {words.together(answer, spec)}" if answer.together is not None else "",
        f"slots: {words.factors(answer)}" if words.factors(answer) else "",
        *answer.warnings,
    )
    values = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{best.value:,}</dd>"
        f"<dt>{escape(words.rate(best.rate, spec))} {escape(words.spread(best))}</dt></div>"
        for name, best in words.values_of(answer, spec)
    )
    title = f"<h3>{escape(words.model(answer))}</h3>" if len(tuning.answers) > 1 else ""
    said = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
    return f"{title}{svg(tuning, answer)}<dl>{values}</dl>{said}"


def _trials(tuning: Tuning) -> str:
    trials = _ordered(tuning)
    shown = [column for column in columns(tuning.spec) if any(column.key(trial) is not None for trial in tuning.trials)]
    head = "".join(f'<th scope="col">{escape(column.name)}</th>' for column in shown)
    rows = "\n".join(
        f'<tr class="{trial.state.value}">'
        + "".join(f"<td{_left(column)}>{escape(column.text(trial))}</td>" for column in shown)
        + "</tr>"
        for trial in trials
    )
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _left(column: Column) -> str:
    return ' class="text"' if column.left else ""


def _ordered(tuning: Tuning) -> Sequence[Trial]:
    return sorted(tuning.trials, key=lambda trial: (trial.value, trial.number))


def _text(column: Column, trial: Trial, left: int) -> str:
    """A cell; a reason in `left` columns."""
    text = column.text(trial)
    return tables.cut(text, left) if column.name == "reason" else text
