"""The dialog that edits the arguments and the environment of one worker, of the marked ones or of all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import ClassVar, Final, NamedTuple

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.genesis import placeholders
from gmg_tui.model import Details, JobRecord, Settings, WorkerState
from gmg_tui.ui import keys
from gmg_tui.ui.screens.dialog_base import Dialog, as_shown, bindings, fit_scrollbar, foot, signs_of, style
from gmg_tui.ui.screens.edit import arguments, numbers
from gmg_tui.ui.screens.edit.earlier import earlier
from gmg_tui.ui.screens.edit.fields import ArgumentsField, Draft, Field, Press
from gmg_tui.ui.screens.edit.scope import ScopeChoice
from gmg_tui.ui.screens.entries import Entries, Entry
from gmg_tui.ui.state import Scope

_ROWS: Final = 3
"""Rows that the preview has for the arguments, and variables that it shows."""
_TIGHT: Final = 20
"""Rows of the terminal below which nothing is left empty."""


class EditResult(NamedTuple):
    """What to restart with; placeholders are not filled in yet."""

    slots: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    scope: Scope
    """Which workers are meant."""
    edited: str
    """The number that was changed, as `numbers.edited_name` names it; empty where none was."""


class _Pinned(Vertical):
    """What is always visible under the fields."""

    def on_resize(self) -> None:
        """Leave the fields the rest."""
        if isinstance(self.screen, EditScreen):
            self.screen.fit()


class EditScreen(Dialog[None]):
    """Edits arguments and environment, and says beforehand what is wrong and what will be restarted.

    It stays open until the settings are accepted, so that nothing typed is lost.

    Args:
        details: Those of the worker that is edited.
        slots: All of the session, in order; in a sweep those with a running job.
        send: Has the workers restarted; raises `GmgError` when that is refused.
        marked: The marked ones among them.
        scope: Which workers are meant at first.
        edited: The number that was edited last, as `numbers.edited_name` names it.
        start: The settings to begin with, those of an attempt or others; None for the worker's present ones.
        job: The job that runs on the slot, in a sweep.
        count: How many jobs the sweep has.
        group: The group whose rank it is, in words: all ranks get what one does.
    """

    DEFAULT_CSS = """
    EditScreen {
        #fields { height: auto; }
        #pinned { height: auto; }
        #standing { height: auto; margin: 1 0 0 0; }
        #buttons { height: 1; margin-top: 1; }
        #foot { margin-top: 1; }
        &.-tight #pinned > * { margin: 0; }
        &.-tight ScopeChoice { margin: 0; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(keys.EDIT, priority=True),
        Binding("ctrl+c", "app.quit_session", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        details: Details,
        slots: tuple[str, ...],
        send: Callable[[EditResult], Awaitable[object]],
        *,
        marked: tuple[str, ...] = (),
        scope: Scope = Scope.ONE,
        edited: str = "",
        start: Settings | None = None,
        job: JobRecord | None = None,
        count: int = 0,
        group: str = "",
    ) -> None:
        super().__init__()
        self._details = details
        self._meant = {Scope.ONE: (details.slot,), Scope.MARKED: marked, Scope.ALL: slots}
        self._edited = edited
        self._deliver = send
        self._sending = self._accepted = False
        self._one = f"The {group}," if group else details.slot
        labels = {Scope.ONE: group or f"this worker ({details.slot})", Scope.ALL: f"all {len(slots)} workers"}
        if set(marked) - {details.slot}:
            labels = {Scope.ONE: labels[Scope.ONE], Scope.MARKED: f"{len(marked)} marked", Scope.ALL: labels[Scope.ALL]}
        self._scope = ScopeChoice(labels, scope if scope in labels else Scope.ONE)
        self._earlier = earlier(details, start)
        """What `ctrl+z` goes back through."""
        self._at = next((at for at, one in enumerate(self._earlier) if one.settings == start), 0)
        self._drafts: dict[int, tuple[Draft, ...]] = {}
        """What was written on each of them, by its place: the contents of the fields."""
        self.heading = f"Edit {group or details.slot}" + (f", job {job.number} ({job.name})" if job is not None else "")
        self._values = arguments.values_of(details.slot, slots, job, count)

    def compose(self) -> ComposeResult:
        """The fields and a preview of them filled in, which scroll; under them what they come to, and the keys."""
        with Vertical(classes="box") as box:
            box.border_title = Text(as_shown(self.heading, self.app))
            with VerticalScroll(id="fields", can_focus=False):
                yield ArgumentsField("", "Arguments", id="args")
                yield Field("", "Environment, one KEY=VALUE per line", id="env")
                yield self._scope
                yield Entries(label_width=14, id="preview")
            with _Pinned(id="pinned"):
                yield Static(markup=False, id="standing")
                with Horizontal(id="buttons"):
                    yield Press("Restart", "screen.apply")
                    yield Press("Cancel", "screen.cancel")
                yield Static(foot(keys.EDIT, signs_of(self.app)), markup=False, id="foot", classes="foot")

    def on_mount(self) -> None:
        """Begin in the arguments, behind the number that matters."""
        fit_scrollbar(self.query_one("#fields"))
        self._show_drafts()
        self.query_one("#args", Field).focus()
        self._review()

    def _show_drafts(self) -> None:
        """Put into the fields what belongs to the settings at hand: as written before, else as they are."""
        settings = self._earlier[self._at].settings
        args, env = arguments.join(settings.args), arguments.join_env(settings.env)
        fresh = Draft.fresh(args, numbers.cursor(settings.args, self._edited)), Draft.fresh(env, len(env))
        for field, draft in zip(self.query(Field), self._drafts.get(self._at, fresh), strict=True):
            field.show_draft(draft)

    def on_resize(self) -> None:
        """Fill the new size."""
        self.set_class(self.size.height < _TIGHT, "-tight")
        self.fit()

    def fit(self) -> None:
        """Give the fields the rows that the frame and what is pinned leave."""
        pinned = self.query_one("#pinned").size.height
        self.query_one("#fields").styles.max_height = max(1, self.size.height - pinned - 2)

    @on(TextArea.Changed)
    @on(ScopeChoice.Changed)
    def _review(self) -> None:
        """Show what this worker would get, and what would happen."""
        result = self._result()
        self.query_one("#preview", Entries).show(self._preview(result))
        if result is None:
            return
        if self._unchanged(result):
            self._say("Nothing has been changed.", "dim")
        else:
            label, count = self._earlier[self._at].label, len(result.slots)
            who = {Scope.ALL: f"All {count} workers", Scope.MARKED: f"{count} marked workers"}
            said = f"{who.get(result.scope, self._one)} will restart with these settings."
            self._say(" ".join(filter(None, (said, f"From {label}." if label else "", self._unknown(result)))), "warn")

    def _preview(self, result: EditResult | None) -> Iterator[Entry]:
        """What this worker would get; a dash where what is written cannot be read."""
        if result is None:
            yield Entry("expands to", units.NOT_KNOWN, "dim")
        else:
            filled = [placeholders.fill(arg, self._values) for arg in result.args]
            yield Entry("expands to", arguments.join(filled) or "no arguments", most=_ROWS)
            pairs = list(result.env.items())
            for key, value in pairs[:_ROWS]:
                yield Entry("", f"{key}={placeholders.fill(value, self._values)}", most=1)
            if len(pairs) > _ROWS:
                yield Entry("", f"and {units.count(len(pairs) - _ROWS, 'more variable')}", "dim")
        marks = "  ".join(f"{{{name}}} {placeholders.as_text(value)}" for name, value in self._values.items())
        yield Entry("placeholders", marks, "dim", most=_ROWS)

    def _unknown(self, result: EditResult) -> str:
        """A sentence about names in braces that nothing is filled in for; empty where there are none."""
        texts = (*result.args, *result.env.values())
        names = dict.fromkeys(
            name for text in texts for name in placeholders.names_in(text) if name not in self._values
        )
        if not names:
            return ""
        is_one = "is not a placeholder and stays" if len(names) == 1 else "are not placeholders and stay"
        return f"{', '.join(f'{{{name}}}' for name in names)} {is_one} as written."

    def action_apply(self) -> None:
        """Have the workers restarted, if the settings are valid and changed."""
        result = self._result()
        if result is None or self._sending:
            return
        if self._unchanged(result):
            self._say(
                f"Nothing has been changed. {keys.now('esc', 'in-edit')} closes; "
                f"{keys.now('r')} on the main screen restarts with the same settings.",
                "warn",
            )
        else:
            self._sending = True
            self._send(result)

    @work(group="sending")
    async def _send(self, result: EditResult) -> None:
        """Close once the settings are accepted; else say why they are not."""
        try:
            await self._deliver(result)
        except GmgError as error:
            self._say(str(error), "error")
        else:
            self._accepted = True
            self.on_screen_resume()
        finally:
            self._sending = False

    def on_screen_resume(self) -> None:
        """Close if the settings were accepted, maybe while another dialog was on top."""
        if self._accepted and self.is_active:
            self.dismiss(None)

    def action_scale(self, factor: int) -> None:
        """Double or halve the number under the cursor of the field that has the focus."""
        field = self.focused
        if not isinstance(field, Field) or not field.scale(factor):
            self._say("There is no number under the cursor.", "warn")

    def action_scope(self) -> None:
        """Mean other workers: all, the marked ones, or the one again."""
        self._scope.action_turn()

    def action_undo(self) -> None:
        """Undo what was typed; where nothing was, go back to the settings before these."""
        field = self.focused
        if isinstance(field, Field) and field.history.undo_stack:
            field.undo()
        elif self._at + 1 < len(self._earlier):
            self._go(1)
        else:
            self._say("There are no earlier settings.", "warn")

    def action_redo(self) -> None:
        """Do again what was undone; where nothing was, return to the settings after these."""
        field = self.focused
        if isinstance(field, Field) and field.history.redo_stack:
            field.redo()
        elif self._at:
            self._go(-1)

    def _go(self, step: int) -> None:
        """Show the settings `step` places further back; what was written on these is kept."""
        self._drafts[self._at] = tuple(field.draft for field in self.query(Field))
        self._at += step
        self._show_drafts()

    def _say(self, text: str, kind: str) -> None:
        """Show a message in the dialog; `kind` is a name of `appearance.STYLES`."""
        signs = signs_of(self.app)
        sign = {"warn": f"{signs.warn} ", "error": f"{signs.states[WorkerState.FAILED]} "}.get(kind, "")
        standing = self.query_one("#standing", Static)
        standing.update(Content.styled(f"{sign}{as_shown(text, self.app)}", style(kind)))
        if kind != "dim":
            self.call_after_refresh(standing.scroll_visible, animate=False)

    def _unchanged(self, result: EditResult) -> bool:
        same = result.args == self._details.args and result.env == self._details.extra_env
        return same and result.scope is Scope.ONE

    def _result(self) -> EditResult | None:
        """The settings as written; None, with a message, if they are not valid."""
        try:
            args = arguments.split(self.query_one("#args", Field).text)
            env = arguments.split_env(self.query_one("#env", Field).text)
        except GmgError as error:
            self._say(str(error), "error")
            return None
        scope = self._scope.chosen
        edited = numbers.edited_name(self._details.args, args)
        return EditResult(self._meant[scope], args, env, scope, edited)
