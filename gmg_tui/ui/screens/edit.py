"""The dialog that edits the arguments and the environment of one worker or of all: the heart of tuning."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Button, Static, TextArea

from gmg_tui.errors import GmgError
from gmg_tui.genesis import placeholders
from gmg_tui.model import Details, JobRecord, WorkerState
from gmg_tui.ui.screens import arguments, tables
from gmg_tui.ui.screens.entries import Entries, Entry
from gmg_tui.ui.screens.fields import Field, Scope
from gmg_tui.ui.screens.parts import Dialog, as_shown, bindings, foot, signs_of, style


class EditResult(NamedTuple):
    """What to restart with; placeholders are not filled in."""

    slots: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]


class EditScreen(Dialog[EditResult | None]):
    """Edits arguments and environment; says before anything happens what is wrong and what will be restarted.

    Args:
        details: Of the worker whose arguments are shown.
        slots: All slots of the session, in order; in a sweep those whose job runs.
        job: The slot's job in a sweep.
        count: How many jobs the sweep has.
    """

    DEFAULT_CSS = """
    EditScreen {
        #standing { height: auto; margin: 1 0 0 0; }
        #buttons { height: 1; margin-top: 1; }
        Button { margin-right: 2; }
        #foot { margin-top: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(tables.EDIT),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
    ]

    def __init__(
        self, details: Details, slots: tuple[str, ...], *, job: JobRecord | None = None, count: int = 0
    ) -> None:
        super().__init__()
        self._details = details
        self._slots = slots
        self._job = job
        if job is None:
            self._values = arguments.values_of(details.slot, slots)
        else:
            self._values = arguments.values_of_job(details.slot, job, count)

    def heading(self) -> str:
        """The worker's slot, and its job."""
        job = f", job {self._job.number} ({self._job.name})" if self._job is not None else ""
        return f"Edit {self._details.slot}{job}"

    def contents(self) -> ComposeResult:
        """The two fields, what becomes of them, and for whom they are."""
        yield Field(arguments.join(self._details.args), "Arguments", id="args")
        yield Field(arguments.join_env(self._details.extra_env), "Environment, one KEY=VALUE a line", id="env")
        yield Entries(label_width=12, id="preview")
        yield Scope(self._details.slot, len(self._slots))
        yield Static(markup=False, id="standing")
        with Horizontal(id="buttons"):
            yield Button(Content("[ Restart ]"), id="apply", compact=True)
            yield Button(Content("[ Cancel ]"), id="cancel", compact=True)
        yield Static(foot(tables.EDIT, signs_of(self.app)), markup=False, id="foot", classes="foot")

    def on_mount(self) -> None:
        """Begin at the end of the arguments, where the number to tune often is, and of the environment, to add to it."""
        for field in self.query(Field):
            field.move_cursor(field.document.end)
        self.query_one("#args", Field).focus()
        self._review()

    @on(TextArea.Changed)
    @on(Scope.Changed)
    def _review(self) -> None:
        """Show what this worker would get, and what would happen."""
        try:
            result = self._result()
        except GmgError as error:
            self._say(str(error), "error")
            return
        filled = [placeholders.fill(arg, self._values) for arg in result.args]
        marks = "  ".join(f"{{{name}}} {placeholders.as_text(value)}" for name, value in self._values.items())
        self.query_one("#preview", Entries).show(
            [
                Entry("it gets", arguments.join(filled) or "no arguments"),
                *(Entry("", f"{key}={placeholders.fill(value, self._values)}") for key, value in result.env.items()),
                Entry("filled in", marks, "dim"),
            ]
        )
        if self._unchanged(result):
            self._say("Nothing is changed yet.", "dim")
        else:
            who = f"{self._details.slot} is" if len(result.slots) == 1 else f"All {len(result.slots)} workers are"
            self._say(f"{who} stopped and started again with this.", "warn")

    @on(Button.Pressed, "#apply")
    def action_apply(self) -> None:
        """Close with what is written, if it can be read and is a change."""
        try:
            result = self._result()
        except GmgError as error:
            self._say(str(error), "error")
            return
        if self._unchanged(result):
            self._say("Nothing is changed: esc closes, and r on the main screen restarts as it is.", "warn")
        else:
            self.dismiss(result)

    @on(Button.Pressed, "#cancel")
    def give_up(self) -> None:
        """Close without doing anything."""
        self.action_cancel()

    def action_scale(self, factor: int) -> None:
        """Double or halve the number under the cursor of the field that has the focus."""
        field = self.focused
        if not isinstance(field, Field) or not field.scale(factor):
            self._say("There is no number under the cursor to double or halve.", "warn")

    def _say(self, text: str, kind: str) -> None:
        """Say in the dialog how things stand; `kind` is a name of `look.STYLES`."""
        signs = signs_of(self.app)
        sign = {"warn": f"{signs.stuck} ", "error": f"{signs.states[WorkerState.FAILED]} "}.get(kind, "")
        standing = self.query_one("#standing", Static)
        standing.update(Content.styled(f"{sign}{as_shown(text, self.app)}", style(kind)))
        if kind != "dim":
            self.call_after_refresh(standing.scroll_visible, animate=False)

    def _unchanged(self, result: EditResult) -> bool:
        same = result.args == self._details.args and result.env == self._details.extra_env
        return same and len(result.slots) == 1

    def _result(self) -> EditResult:
        """What is written.

        Raises:
            GmgError: It cannot be read.
        """
        args = arguments.split(self.query_one("#args", Field).text)
        env = arguments.split_env(self.query_one("#env", Field).text)
        every = self.query_one(Scope).every
        return EditResult(self._slots if every else (self._details.slot,), args, env)
