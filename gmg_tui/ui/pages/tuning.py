"""A tuning: the answer so far and the curve, above a queue of trials."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.client import Source
from gmg_tui.columns import Column
from gmg_tui.errors import GmgError
from gmg_tui.model import Answer, Best, QueueAction, Trial, TrialState, Tuning
from gmg_tui.tune import words
from gmg_tui.ui.dialogs import ConfirmScreen
from gmg_tui.ui.drawing import tune_answer, tune_curve
from gmg_tui.ui.drawing.appearance import safe
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.pages.page import COMMON, TablePage
from gmg_tui.ui.pages.table import RowTable
from gmg_tui.ui.view import View
from gmg_tui.ui.widgets.row_view import RowView

_WIDE: Final = 130
"""Columns of a terminal that has room for the curve beside the answer."""
_ANSWER_WIDTH: Final = 70
_CURVE_MIN, _CURVE_MAX = 6, 24
_TABLE_MIN: Final = 6
"""Rows that the table keeps, with its heading."""
_STYLES: Final = {
    TrialState.MEASURED: "ok",
    TrialState.RUNNING: "title",
    TrialState.FAILED: "error",
    TrialState.WAITING: "dim",
    TrialState.SKIPPED: "dim",
}


def _style(trial: Trial, column: Column[Trial]) -> str:
    match column.name:
        case "state":
            return _STYLES[trial.state]
        case "reason" if trial.state is TrialState.FAILED:
            return "error"
        case "number" | "kind" | "reason":
            return "dim"
    return "text"


class TuningPage(TablePage[Trial], inherit_bindings=False):
    """The page on which a session of `gmg-tui tune` opens."""

    DEFAULT_CSS = """
    TuningPage {
        RowView { height: auto; }
        #selected { height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("tab", "answer(1)", "Next value", id="next-value"),
        Binding("shift+tab", "answer(-1)", "Previous value", show=False, id="previous-value"),
        Binding("x", "skip", "Skip trial", id="stop"),
        Binding("y", "copy", "Copy command", id="copy"),
        Binding("Q", "back", "Back", show=False, id="queue"),
    ]
    TAKES = TablePage.TAKES | {"skip"}
    PALETTE = (("Next model of GPU", "Show the answer for the next model of GPU.", "model"),)

    def __init__(self, engine: Source, view: View) -> None:
        tuning = view.snapshot.tuning
        assert tuning is not None
        super().__init__(RowTable(words.columns(tuning.spec), key=_key, style=_style, follow=_newest, unknown=""))
        self._engine = engine
        self._view = view
        self._rows = RowView()
        self._model = 0
        self._value = 0
        """Which of the answer's values is selected."""

    def body(self) -> ComposeResult:
        """The answer and the curve, the trials, and the selected one."""
        yield self._rows
        yield from super().body()

    def on_mount(self) -> None:
        """Follow the snapshots."""
        self.watch(self.app, "snapshot", self.update_snapshot)

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.update_snapshot)

    @property
    def _tuning(self) -> Tuning | None:
        return self._view.snapshot.tuning

    @property
    def _answer(self) -> Answer | None:
        answers = self._tuning.answers if self._tuning is not None else ()
        return answers[min(self._model, len(answers) - 1)] if answers else None

    @property
    def _best(self) -> Best | None:
        """The selected value of the answer."""
        tuning, answer = self._tuning, self._answer
        values = words.values_of(answer, tuning.spec) if tuning is not None and answer is not None else []
        return values[min(self._value, len(values) - 1)][1] if values else None

    # Drawing

    def update_snapshot(self) -> None:
        """Show the newest state of the tuning."""
        tuning, answer = self._tuning, self._answer
        if tuning is None or answer is None:
            return
        self.show_rows([trial for trial in tuning.trials if trial.slot in answer.slots], "No trial yet.")
        self.show_title()
        self._show_answer()

    def _show_answer(self) -> None:
        tuning, answer = self._tuning, self._answer
        width, height = self.app.size.width, self.app.size.height - 3
        if tuning is None or answer is None or height <= _TABLE_MIN:
            return
        rows = self._side_by_side if width >= _WIDE else self._one_below_the_other
        strips = rows(tuning, answer, width, height)
        self._rows.styles.height = len(strips)
        self._rows.show_rows(strips)

    def _side_by_side(self, tuning: Tuning, answer: Answer, width: int, height: int) -> list[Strip]:
        rows = max(_CURVE_MIN, min(_CURVE_MAX, height // 2))
        beside = self._answer_rows(tuning, answer, _ANSWER_WIDTH, rows)
        beside += [Row(self.app.appearance, _ANSWER_WIDTH).strip()] * (rows - len(beside))
        curve = self._curve_rows(tuning, answer, width - _ANSWER_WIDTH, rows)
        return [Strip.join(pair) for pair in zip(curve, beside, strict=True)]

    def _one_below_the_other(self, tuning: Tuning, answer: Answer, width: int, height: int) -> list[Strip]:
        room = height - _TABLE_MIN
        rows = self._answer_rows(tuning, answer, width, max(2, room // 2))
        left = room - len(rows)
        return [*rows, *(self._curve_rows(tuning, answer, width, left) if left >= _CURVE_MIN else [])]

    def _answer_rows(self, tuning: Tuning, answer: Answer, width: int, height: int) -> list[Strip]:
        run, appearance = self._view.session.spec, self.app.appearance
        return tune_answer.answer_rows(tuning, answer, run, width, height, appearance, at=self._value).rows

    def _curve_rows(self, tuning: Tuning, answer: Answer, width: int, height: int) -> list[Strip]:
        selected = self.table.selected
        chosen = selected.number if selected is not None and not self.table.following else None
        return tune_curve.curve(tuning, answer, width, height, self.app.appearance, chosen=chosen)

    def title_text(self) -> Content:
        """What is looked for, the step, and the trials."""
        tuning, view = self._tuning, self._view
        if tuning is None:
            return Content()
        failed = sum(trial.state is TrialState.FAILED for trial in tuning.trials)
        running = sum(trial.state is TrialState.RUNNING for trial in tuning.trials)
        parts = [
            ("simulated  " if view.session.spec.simulate is not None else "", "$warning"),
            (f"{view.session.spec.name}  ", "bold $primary"),
            ("ended  " if view.over else "read-only  " if view.readonly else "", "$warning"),
            (f"{words.wanted(tuning.spec)}  ", "$foreground"),
            (f"{tuning.step}  ", "$success" if tuning.ended else "$primary"),
            (f"{running} running  " if running else "", "$success"),
            (f"{failed} failed  " if failed else "", "$error"),
            (f"{units.count(len(tuning.trials), 'trial')}  {units.clock(view.snapshot.elapsed_s)}", "$text-muted"),
            ("" if tuning.eta_s is None or tuning.ended else f"  about {units.span(tuning.eta_s)} left", "$foreground"),
        ]
        return Content.assemble(*((safe(text), style) for text, style in parts if text))

    def selected_text(self, row: Trial) -> Content:
        """The trial with its rate and its reason."""
        tuning = self._tuning
        if tuning is None:
            return Content()
        rate = f"{words.rate(row.rate, tuning.spec)} {words.spread(row)}" if row.rate is not None else ""
        text = f"#{row.number} {tuning.spec.variable}={row.value:,} on {row.slot}  {row.state.value}  {rate}"
        return Content.assemble(safe(text), (safe(f"  {row.reason or ''}"), "$error"))

    def show_selected(self, empty: str = "") -> None:
        """Show the selected trial, also in the curve."""
        super().show_selected(empty)
        self._show_answer()

    # Keys

    def action_answer(self, step: int) -> None:
        """Select the next value of the answer."""
        tuning, answer = self._tuning, self._answer
        count = len(words.values_of(answer, tuning.spec)) if tuning is not None and answer is not None else 0
        self._value = (min(self._value, max(0, count - 1)) + step) % max(1, count)
        self._show_answer()

    def action_model(self) -> None:
        """Show the answer for the next model of GPU."""
        answers = self._tuning.answers if self._tuning is not None else ()
        if len(answers) < 2:
            self.tell("All GPUs of this tuning are of one model.")
            return
        self._model, self._value = (self._model + 1) % len(answers), 0
        self.update_snapshot()

    def action_copy(self) -> None:
        """Copy the command line of the selected value."""
        best, tuning = self._best, self._tuning
        if best is None or tuning is None:
            self.tell("There is no command line yet.")
            return
        command = shlex.join(words.command(self._view.session.spec, tuning.spec.variable, best.value))
        self.app.copy_to_clipboard(command)
        self.tell(f"Copied, if the terminal supports OSC 52: {command}")

    async def action_skip(self) -> None:
        """Skip the selected trial, or stop it if it is running."""
        trial = self.table.selected
        if trial is None or trial.state not in {TrialState.WAITING, TrialState.RUNNING}:
            self.tell("Only a trial that waits or runs can be skipped.")
        elif trial.state is TrialState.WAITING:
            self._act(QueueAction.SKIP, trial.number)
        else:
            question = f"Stop trial {trial.number} ({trial.value:,} on {trial.slot}), which is running?"
            await self.app.push_screen(ConfirmScreen(question), partial(self._stop_if, trial.number))

    def _stop_if(self, number: int, sure: bool | None) -> None:
        if sure:
            self._act(QueueAction.STOP, number)

    @work(group="acting")
    async def _act(self, action: QueueAction, number: int) -> None:
        try:
            await self._engine.act_on_jobs(action, number)
        except GmgError as error:
            self.tell(str(error))


def _key(trial: Trial) -> str:
    return str(trial.number)


def _newest(trials: Sequence[Trial]) -> Trial | None:
    return max(trials, key=lambda trial: trial.number, default=None)
