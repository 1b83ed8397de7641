"""The screen that a session of `gmg-tui tune` opens on."""

from __future__ import annotations

import shlex
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Answer, Best, Trial, Tuning
from gmg_tui.tune import words
from gmg_tui.tune.columns import columns
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import tune_answer, tune_curve, tune_slots, tune_table
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.tune_head import head_rows
from gmg_tui.ui.drawing.tune_table import Order
from gmg_tui.ui.messages import Replace
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.dialog_base import bindings
from gmg_tui.ui.screens.page_base import PageScreen
from gmg_tui.ui.screens.tune.layout import Part, Plan, plan
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.footer import Footer

_ANSWER_MOST = 40
"""Rows of an answer, at most."""


class TuneScreen(PageScreen):
    """Shows a tuning: the curve, the trials, what each slot measures, and the answer so far."""

    DEFAULT_CSS = """
    TuneScreen > #keys { height: 1; }
    """
    KEYS = keys.TUNE
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.TUNE)
    TAKES: ClassVar[frozenset[str]] = frozenset(
        {"quit_session", "detach", "help", "command_palette", "queue", "time_step", "time_move", "time_jump"}
    )
    """No other key of the main screen may act here, because the worker it would act on cannot be seen."""

    def __init__(self, state: UiState, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._state = state
        self._keys = Footer(
            appearance,
            [*(key for key in keys.TUNE if key.footer), *keys.COMMON],
            {"back", *(key.action for key in keys.COMMON)},
        )
        self._keys.id = "keys"
        self._part = Part.CURVE
        self._model = 0
        self._value = 0
        """Which of the answer's values is selected."""
        self._order = Order()
        self._trial: int | None = None
        """Number of the selected trial; None for the newest."""
        self._top = 0
        """How many of the sorted trials are above the first one on the screen."""
        self._rows = 0
        """How many of them are on the screen."""
        self._values_at: tuple[int, dict[int, int]] = (0, {})
        """Where the values of the answer are: from which cell on, and which is in which row."""
        self._table_at: int | None = None
        """The row of the table's heading; None where it is not shown."""

    def compose(self) -> ComposeResult:
        """All that is drawn, and the keys."""
        yield from (self.rows, self._keys)

    # What is drawn

    @property
    def _tuning(self) -> Tuning | None:
        return self._state.snapshot.tuning

    @property
    def _answer(self) -> Answer | None:
        answers = self._tuning.answers if self._tuning is not None else ()
        return answers[min(self._model, len(answers) - 1)] if answers else None

    @property
    def _best(self) -> Best | None:
        """The value that is selected among the answer's."""
        tuning, answer = self._tuning, self._answer
        values = words.values_of(answer, tuning.spec) if tuning is not None and answer is not None else []
        return values[min(self._value, len(values) - 1)][1] if values else None

    def _trials(self) -> list[Trial]:
        """Those of the model that is shown, as they are sorted."""
        tuning, answer = self._tuning, self._answer
        if tuning is None or answer is None:
            return []
        return tune_table.ordered([one for one in tuning.trials if one.slot in answer.slots], tuning.spec, self._order)

    def _chosen(self, trials: list[Trial]) -> Trial | None:
        """The selected trial: the newest until one is selected."""
        return next(
            (one for one in trials if one.number == self._trial), max(trials, key=lambda one: one.number, default=None)
        )

    def draw(self) -> None:
        """Draw all of it."""
        width, height = self.rows.size
        tuning, answer = self._tuning, self._answer
        if height <= 0 or tuning is None or answer is None:
            return
        if self._keys.appearance is not self.appearance:
            self._keys.appearance = self.appearance
            self._keys.draw()
        head = [*head_rows(self._state, width, self.appearance), *self._notes(width)]
        natural = len(self._answer_rows(tuning, answer, width, _ANSWER_MOST, (0, 0)))
        sizes = plan(width, height - len(head), len(tuning.slots), natural, self._part)
        body = self._whole if sizes.whole else self._in_parts
        self.rows.show_rows([*head, *body(tuning, answer, sizes, width, len(head))][:height])

    def _notes(self, width: int) -> list[Strip]:
        said = Row(self.appearance, width).add(f" {self.appearance.signs.pointer} {self._said}", "warn")
        return [said.strip()] if self._said else []

    def _answer_rows(
        self, tuning: Tuning, answer: Answer, width: int, height: int, place: tuple[int, int]
    ) -> list[Strip]:
        """The rows of the answer, which are drawn at `place`, a cell and a row."""
        run, at = self._state.session.spec, self._value
        drawn = tune_answer.answer_rows(tuning, answer, run, width, height, self.appearance, at=at)
        self._values_at = place[0], {place[1] + row: value for row, value in drawn.values.items()}
        return drawn.rows

    def _whole(self, tuning: Tuning, answer: Answer, sizes: Plan, width: int, above: int) -> list[Strip]:
        """All parts at once: curve and answer side by side, then the slots, then the trials."""
        left = width - sizes.answer_width
        curve = self._curve(tuning, answer, left, sizes.curve)
        beside = self._answer_rows(tuning, answer, sizes.answer_width, sizes.answer, (left, above))
        blank = Row(self.appearance, sizes.answer_width).strip()
        beside += [blank] * (len(curve) - len(beside))
        rows = [Strip.join(pair) for pair in zip(curve, beside, strict=True)]
        gap = Row(self.appearance, width).strip()
        slots = Row(self.appearance, width).add(" Slots", "title").strip()
        rows += [gap, slots, *self._slots(tuning, width, sizes.slots), gap]
        return [*rows, *self._table(tuning, width, sizes.trials, above + len(rows))]

    def _in_parts(self, tuning: Tuning, answer: Answer, sizes: Plan, width: int, above: int) -> list[Strip]:
        """The answer, and below it the part that is chosen."""
        rows = self._answer_rows(tuning, answer, width, sizes.answer, (0, above))
        self._table_at = None
        if sizes.curve:
            rows += self._curve(tuning, answer, width, sizes.curve)
        if sizes.slots:
            rows += self._slots(tuning, width, sizes.slots)
        return [*rows, *(self._table(tuning, width, sizes.trials, above + len(rows)) if sizes.trials else [])]

    def _curve(self, tuning: Tuning, answer: Answer, width: int, height: int) -> list[Strip]:
        return tune_curve.curve(tuning, answer, width, height, self.appearance, chosen=self._trial)

    def _slots(self, tuning: Tuning, width: int, height: int) -> list[Strip]:
        return tune_slots.slot_rows(tuning, self._state.snapshot, width, height, self.appearance)

    def _table(self, tuning: Tuning, width: int, height: int, above: int) -> list[Strip]:
        """The heading, the trials around the selected one, and that one in full."""
        trials = self._trials()
        chosen = self._chosen(trials)
        self._table_at, self._rows = above, max(1, height - 2)
        at = trials.index(chosen) if chosen is not None else 0
        self._top = max(at - self._rows + 1, min(self._top, at, max(0, len(trials) - self._rows)))
        layout = tune_table.layout(trials, tuning.spec, self._order, width)
        rows = [tune_table.heading(layout, tuning.spec, self._order, self.appearance).strip()]
        rows += [
            tune_table.row(trial, layout, self.appearance, chosen=trial is chosen).strip()
            for trial in trials[self._top : self._top + self._rows]
        ]
        rows += [Row(self.appearance, width).strip()] * (self._rows + 1 - len(rows))
        place = f"{at + 1} of {len(trials)}" if trials else ""
        return [*rows, tune_table.detail(chosen, tuning.spec, width, place, self.appearance).strip()]

    # Keys

    def action_part(self) -> None:
        """Show the next part, where they have no room at once."""
        if self._table_at is not None and self._part is not Part.TRIALS:
            self._say("t: the curve, the trials and the slots are all shown.")
            return
        self._part = self._part.following
        self._say("")

    def action_answer(self, step: int) -> None:
        """Select the next value of the answer."""
        tuning, answer = self._tuning, self._answer
        count = len(words.values_of(answer, tuning.spec)) if tuning is not None and answer is not None else 0
        self._value = (min(self._value, max(0, count - 1)) + step) % max(1, count)
        self._say("")

    def action_model(self) -> None:
        """Show the next model of GPU."""
        answers = self._tuning.answers if self._tuning is not None else ()
        if len(answers) < 2:
            self._say("m: all GPUs of this tuning are of one model.")
            return
        self._model = (self._model + 1) % len(answers)
        self._value, self._trial, self._top = 0, None, 0
        self._say("")

    def action_move(self, step: int) -> None:
        """Select the trial `step` rows further down."""
        trials = self._trials()
        chosen = self._chosen(trials)
        if chosen is not None:
            self._trial = trials[max(0, min(len(trials) - 1, trials.index(chosen) + step))].number
        self._say("")

    def action_page(self, step: int) -> None:
        """Select a trial a page further down, or up when `step` is -1."""
        self.action_move(step * max(1, self._rows - 1))

    def action_edge(self, last: bool) -> None:
        """Select the first trial, or the last."""
        self.action_move(len(self._trials()) * (1 if last else -1))

    def action_sort(self, step: int) -> None:
        """Sort by the next column, or by the one before."""
        tuning = self._tuning
        if tuning is not None:
            count = len(columns(tuning.spec))
            self._order = Order((self._order.column + step) % count, self._order.down)
        self._say("")

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self._order = self._order._replace(down=not self._order.down)
        self._say("")

    def action_copy(self) -> None:
        """Copy the command line of the selected value into the terminal's clipboard (OSC 52)."""
        best, tuning = self._best, self._tuning
        if best is None or tuning is None:
            self._say("y: there is no command line yet.")
            return
        command = words.command(self._state.session.spec, tuning.spec.variable, best.value)
        self.app.copy_to_clipboard(shlex.join(command))
        self._say(f"Copied, if the terminal takes it (OSC 52): {shlex.join(command)}")

    async def action_use(self) -> None:
        """Run the script with the selected value on all slots, in place of the tuning."""
        best, tuning, script = self._best, self._tuning, self._state.session.spec.script
        if best is None or tuning is None:
            self._say("enter: there is no answer yet.")
            return
        slots = units.count(len(tuning.slots), "slot")
        run = f"Run {script} with {tuning.spec.variable} = {best.value:,} on all {slots}?"
        ends = "" if tuning.ended else " The tuning ends, and its answer so far is kept."
        # Awaited, so that another enter that follows at once is an answer, and does not ask again.
        await self.app.push_screen(ConfirmScreen(run + ends), partial(self._use, best.value))

    def _use(self, value: int, sure: bool | None) -> None:
        if sure:
            self.post_message(Replace(value))

    def on_click(self, event: events.Click) -> None:
        """Select the value of the answer or the trial under the mouse, or sort by the column."""
        left, values = self._values_at
        if event.screen_x >= left and event.screen_y in values:
            self._value = values[event.screen_y]
            self._say("")
            return
        tuning, at = self._tuning, self._table_at
        if tuning is None or at is None:
            return
        row = event.screen_y - at
        if row == 0:
            trials = self._trials()
            name = tune_table.layout(trials, tuning.spec, self._order, self.rows.size.width).at(event.screen_x)
            names = [column.name for column in columns(tuning.spec)]
            if name is not None:
                column = names.index(name)
                self._order = Order(column, not self._order.down if column == self._order.column else False)
                self.draw()
        elif 0 < row <= self._rows and self._top + row <= len(self._trials()):
            self._trial = self._trials()[self._top + row - 1].number
            self.draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the trial three rows up."""
        event.stop()
        self.action_move(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select the trial three rows down."""
        event.stop()
        self.action_move(3)
