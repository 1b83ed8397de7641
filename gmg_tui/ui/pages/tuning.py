"""The page of a tuning run: its curve, the answer so far and the trials."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from gmg_tui.model import Answer, Best, Trial, TrialState, Tuning, units
from gmg_tui.results import tuning_text
from gmg_tui.ui import terminal
from gmg_tui.ui.curve import curve_rows
from gmg_tui.ui.drawing import Piece, Row
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.pages.queue import JobsPage, SelectedJob
from gmg_tui.ui.rows import Lines
from gmg_tui.ui.table import Table

_STYLES: Final = {
    TrialState.MEASURED: "ok",
    TrialState.RUNNING: "title",
    TrialState.FAILED: "error",
    TrialState.WAITING: "dim",
    TrialState.SKIPPED: "dim",
}


class TuningPage(JobsPage[Trial]):
    """The page that a `gmg-tui tune` session opens with."""

    DEFAULT_CSS = """
    TuningPage {
        #top { height: 70%; max-height: 27; }
        #curve { height: 1fr; width: 1fr; }
        #answer { height: auto; max-height: 60%; }
        #answer Table { height: auto; max-height: 4; }
        #answer Facts { height: auto; max-height: 4; }
        & DescribedTable > Facts { min-height: 1; max-height: 3; }
        &.-short #curve { display: none; }
        &.-short #top { height: auto; #answer { max-height: 100%; } }
        &.-high #answer Facts { max-height: 8; }
        &.-wide #top { layout: horizontal; height: 55%; }
        &.-wide #answer { width: 78; max-height: 100%; padding-left: 2; }
        &.-wide #answer Facts { max-height: 100%; }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (130, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall"), (34, "-high")]  # noqa: RUF012
    PALETTE = (("Copy command line", "Copy the command line of a plain run with the selected value.", "copy"),)

    def __init__(self) -> None:
        spec = self._tuning.spec
        trials = Table(
            tuning_text.columns(spec),
            key=lambda trial: str(trial.number),
            style=lambda trial: _STYLES[trial.state],
            follow=lambda trials: max(trials, key=lambda trial: trial.number, default=None),
        )
        super().__init__(trials)
        names, *columns = tuning_text.answer_columns(spec)
        names = replace(names, value=lambda row: f"{row[0][0].upper()} {row[0]}")  # the letter on the curve's axis
        self._answers = Table([names, *columns], key=lambda row: row[0])
        self._curve = Lines(self._curve_rows, id="curve")
        self._notes = Facts()

    def body(self) -> ComposeResult:
        """Yields the curve and the answer, then the trials with details of the selected one."""
        with Container(id="top"):
            yield self._curve
            with Vertical(id="answer"):
                yield self._answers
                yield self._notes
        yield from super().body()

    @property
    def _tuning(self) -> Tuning:
        tuning = self.app.view.snapshot.tuning
        assert tuning is not None
        return tuning

    def update_snapshot(self) -> None:
        """Shows the newest state of the tuning."""
        self.redraw_bars()
        self._answers.show(tuning_text.named_values(self._tuning.answer, self._tuning.spec))
        self.listing.show(sorted(self._tuning.trials, key=lambda trial: trial.number), "No trial has started yet.")
        self._notes.show(self._note_facts(self._tuning, self._tuning.answer))
        self.on_table_moved()

    def on_table_moved(self) -> None:
        """Highlights the selected trial in the curve."""
        self._curve.show((self._tuning, self._selected_number))

    @property
    def _selected_number(self) -> int | None:
        trial = None if self.table.following else self.table.selected
        return None if trial is None else trial.number

    def _curve_rows(self, width: int, height: int) -> list[Row]:
        return curve_rows(self._tuning, self._tuning.answer, self._selected_number, width, height)

    def title_pieces(self) -> list[Piece]:
        """Returns the counts of trials and the times, then the step, which a narrow terminal cuts off."""
        tuning, view, remaining = self._tuning, self.app.view, units.time_left(self._tuning.eta_s)
        failed = sum(trial.state is TrialState.FAILED for trial in tuning.trials)
        running = sum(trial.state is TrialState.RUNNING for trial in tuning.trials)
        return [
            ("simulated  " if view.session.spec.simulate is not None else "", "warn"),
            (f"{view.session.spec.name}  ", "title"),
            ("ended  " if view.already_ended else "read-only  " if view.readonly else "", "warn"),
            (f"{running} running  " if running else "", "ok"),
            (f"{failed} failed  " if failed else "", "error"),
            (f"{_trials_text(tuning)}  {units.clock(view.snapshot.elapsed_s)}", "dim"),
            (f"  about {remaining}" if remaining and not tuning.ended else "", "text"),
            (f"  {tuning_text.step_number(tuning)}", "title"),
            (f"  {tuning.step}", "title" if not tuning.ended else "warn" if tuning.reached else "ok"),
            (f"  last step: {tuning.reached}" if tuning.reached else "", "warn"),
        ]

    def facts(self, row: Trial) -> Iterator[Fact]:
        """Yields the trial with its value, slot, state, rate and reason."""
        spec = self._tuning.spec
        rate = f"{tuning_text.rate(row.rate, spec)}{tuning_text.margin(row)}" if row.rate is not None else ""
        text = f"#{row.number} {spec.variable}={row.value:,} on {row.slot}  {row.state.value}  {rate}"
        yield Fact("", f"{text}  {row.reason or ''}", "error" if row.reason else "text")

    def _note_facts(self, tuning: Tuning, answer: Answer) -> Iterator[Fact]:
        """Yields the command line for the selected answer, or a note that there is none, then notes by importance."""
        best = self._best
        if best is None and tuning.ended:
            yield Fact("answer", "none: no trial was measured", "error")
            yield Fact("next step", "read a trial's log (enter), fix the script or its arguments, and tune again")
        elif best is None:
            yield Fact("answer", "none yet")
        else:
            yield Fact("command", f"$ {self._command(best)}", "strong")
        notes = [
            *(("warning", warning, "warn") for warning in answer.warnings),
            ("limit", tuning_text.limit(answer, tuning.spec), "error" if answer.edge is not None else "text"),
            ("together", tuning_text.rate_together(answer, tuning.spec), "strong"),
            ("slots", tuning_text.factors(answer), "text"),
            ("note", tuning_text.caution(tuning.spec) if best is not None else "", "text"),
            ("measured on", f"{answer.model.removeprefix('NVIDIA ')}, {units.count(len(answer.slots), 'slot')}", "dim"),
        ]
        yield from (Fact(*note) for note in notes if note[1])

    # Keys

    @property
    def _best(self) -> Best | None:
        row = self._answers.selected
        return row[1] if row is not None else None

    def _command(self, best: Best) -> str:
        return shlex.join(tuning_text.command(self.app.view.session.spec, self._tuning.spec.variable, best.value))

    async def action_copy(self) -> None:
        """Copies the command line for the selected answer."""
        if self._best is None:
            self.app.say("There is no command line yet.")
        else:
            self.app.say(await terminal.copy(self.app, self._command(self._best)))

    def selected_job(self) -> SelectedJob | None:
        """Returns the selected trial; None if the table is empty."""
        trial = self.table.selected
        if trial is None:
            return None
        name, running = f"trial {trial.number} ({trial.value:,} on {trial.slot})", trial.state is TrialState.RUNNING
        return SelectedJob(trial.number, name, running, trial.state.ended, trial.slot if running else None)


def _trials_text(tuning: Tuning) -> str:
    """Returns the number of trials: `4 of about 18 trials`."""
    decided, total = len(tuning.trials), tuning.total
    return units.count(total, "trial") if decided == total else f"{decided:,} of about {units.count(total, 'trial')}"
