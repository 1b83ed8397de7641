"""The dialog that edits the arguments and the environment of one worker or of the marked ones, and restarts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Button, RadioButton, RadioSet, Static, TextArea

from gmg_tui import placeholders
from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.model import Settings
from gmg_tui.protocol import Seen
from gmg_tui.ui import arguments
from gmg_tui.ui.dialogs import ConfirmScreen, Dialog
from gmg_tui.ui.drawing.groups import together_text
from gmg_tui.ui.jobs import job_on
from gmg_tui.ui.text import plain
from gmg_tui.ui.view import View

_PREVIEWED: Final = 3
"""Variables of the environment that the preview shows."""
_PREVIEW_CHARS: Final = 200
"""Characters of the arguments, and of a variable, that the preview shows."""


class _Edited(NamedTuple):
    """What the fields contain; placeholders are not filled in."""

    slots: tuple[str, ...]
    settings: Settings


class _Field(TextArea):
    """Text in a titled frame."""

    DEFAULT_CSS = """
    _Field {
        height: auto;
        min-height: 3;
        max-height: 6;
        padding: 0;
        border: round $border-blurred;
        &:focus { border: round $primary; border-title-style: bold; }
    }
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id, soft_wrap=True, highlight_cursor_line=False, disabled=True)
        self.cursor_blink = False  # a blinking cursor is traffic on a slow line
        self.border_title = title

    async def on_key(self, event: events.Key) -> None:
        """Handle keys in the order in which they are typed.

        Textual runs the action of a key once it has gone up to the app: a slow line delivers several keys at once, and
        those behind a backspace, a tab or an `enter` would be inserted before it.
        """
        focused = self.screen.focused
        if focused is not None and focused is not self:
            event.prevent_default().stop()
            focused.post_message(events.Key(event.key, event.character))
        elif not event.is_printable and (active := self.screen.active_bindings.get(event.key)) is not None:
            event.prevent_default().stop()
            await self.app.run_action(active.binding.action, active.node)

    def get_line(self, line_index: int) -> Text:
        """The line as drawn, without control characters."""
        line = self.document.get_line(line_index)
        return Text("".join(c if c.isprintable() or c == "\t" else "·" for c in line), end="")


class _Arguments(_Field):
    """The arguments; they are one line, however it is wrapped, and `enter` applies them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.apply", "Apply", show=False)]


class EditScreen(Dialog[None]):
    """Edits settings, previews them with placeholders filled in, and restarts the workers, after a question if needed.

    It opens at once, and stays open until the engine has accepted the settings, so that nothing typed is lost.

    Args:
        engine: The session's.
        view: The session as it is shown; what runs there now is what is meant.
        slot: Whose settings are edited.
        marked: The marked slots, which the settings can be applied to as well; then that is the default.
        start: The settings to begin with: those of an attempt, by its number, or others; None for the present ones.
        question: What to ask before the workers on some slots are restarted; empty for nothing.
    """

    DEFAULT_CSS = """
    EditScreen {
        & > #box { border-subtitle-align: left; }
        #scope { height: 1; margin-top: 1; & > Static { width: auto; margin-right: 2; } }
        RadioSet { layout: horizontal; & > RadioButton { width: auto; margin-right: 2; } }
        RadioSet > RadioButton.-on > .toggle--label { text-style: bold underline; }
        #preview { color: $text-muted; margin-top: 1; }
    }
    """
    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "apply", "Restart with these settings", show=False),
        Binding("tab", "app.focus_next", "Next field", show=False),
    ]

    def __init__(
        self,
        engine: Source,
        view: View,
        slot: str,
        *,
        marked: Sequence[str] = (),
        start: Settings | int | None = None,
        question: Callable[[Sequence[str]], str] = lambda slots: "",
    ) -> None:
        super().__init__()
        worker = view.snapshot.worker(slot)
        self._engine = engine
        self._view = view
        self._slot = slot
        self._whose = (together_text([worker]) if worker is not None else "") or slot
        self._marked = tuple(marked) if set(marked) - {slot} else ()
        self._start = start
        self._question = question
        self._seen = {one.slot: Seen(one.job) for one in view.snapshot.workers}
        self._waiting = True
        """Whether the engine has not answered yet."""
        self._present = Settings()
        """The worker's settings as the engine has them."""
        self._values: dict[str, object] = {}
        self.heading = f"Edit {self._whose}"

    def contents(self) -> ComposeResult:
        """The fields, which workers they are for, the preview, and the buttons."""
        yield _Arguments("Arguments", id="args")
        yield _Field("Environment, one KEY=VALUE per line", id="env")
        if self._marked:
            with Horizontal(id="scope"):
                yield Static("Apply to:")
                with RadioSet(compact=True):
                    yield RadioButton(f"this ({self._slot})")
                    yield RadioButton(f"marked ({len(self._marked)})", value=True)
        yield Static(id="preview")
        with Horizontal(classes="buttons"):
            yield Button("Restart (ctrl+s)", action="screen.apply", compact=True)
            yield Button("Cancel (esc)", action="screen.cancel", compact=True)

    def on_mount(self) -> None:
        """Ask the engine for the settings."""
        self._report(Content("waiting for the engine"))
        self._load()

    @work
    async def _load(self) -> None:
        """Fill the fields in, and begin behind the number of environments."""
        try:
            details = await self._engine.details(self._slot)
            job = await job_on(self._engine, self._view, self._slot)
        except GmgError as error:
            self._report(plain(str(error)).stylize("$error"))  # it stays open: what is typed next is not for the page
            return
        self._present = Settings(details.args, details.extra_env)
        self._values = arguments.placeholder_values(self._view, self._slot, job)
        if job is not None:
            self.query_one("#box").border_title = plain(f"{self.heading}, job {job.number} ({job.name})")
        of_attempts = {one.number: Settings(one.given, one.env) for one in details.attempts}
        start = of_attempts.get(self._start) if isinstance(self._start, int) else self._start
        start = start or self._present
        args, env = self.query_one("#args", _Field), self.query_one("#env", _Field)
        args.load_text(arguments.join(start.args))
        args.move_cursor((0, arguments.cursor_column(start.args)))
        env.load_text(arguments.join_env(start.env))
        env.move_cursor(env.document.end)
        self._waiting = args.disabled = env.disabled = False
        args.focus()
        self._review()
        self.call_after_refresh(args.scroll_visible, animate=False, top=True)

    # What is written

    def _edited(self) -> _Edited:
        """What is written. Raises `GmgError` where it cannot be read."""
        args = arguments.split(self.query_one("#args", _Field).text)
        env = arguments.split_env(self.query_one("#env", _Field).text)
        marked = bool(self._marked) and self.query_one(RadioSet).pressed_index == 1
        return _Edited(self._marked if marked else (self._slot,), Settings(args, env))

    @on(TextArea.Changed)
    @on(RadioSet.Changed)
    def _review(self) -> None:
        """Preview what this worker would get, and what would be restarted."""
        if self._waiting:
            return
        try:
            edited = self._edited()
        except GmgError as error:
            self._report(plain(str(error)).stylize("$error"))
            return
        preview = "\n".join(line for line in self._preview(edited.settings))
        self.query_one("#preview", Static).update(plain(preview))
        unknown = self._unknown(edited.settings)
        if unknown:
            self._report(plain(f"{unknown} is not a placeholder and stays as written").stylize("$warning"))
        elif self._unchanged(edited):
            self._report(Content("unchanged"))
        else:
            many = len(edited.slots) > 1
            who = f"{len(edited.slots)} marked workers restart" if many else f"{self._whose} restarts"
            self._report(Content(f"{who} with these settings").stylize("$warning"))

    def _preview(self, settings: Settings) -> Iterator[str]:
        """What this worker would get, and what each placeholder stands for."""
        filled = arguments.join([placeholders.fill(arg, self._values) for arg in settings.args])
        yield f"Expands to: {_cut(filled) or 'no arguments'}"
        for number, (key, value) in enumerate(settings.env.items()):
            if number == _PREVIEWED:
                yield f"  and {len(settings.env) - _PREVIEWED} more variables"
                break
            yield f"  {_cut(f'{key}={placeholders.fill(value, self._values)}')}"
        marks = "  ".join(f"{{{name}}} {placeholders.as_text(value)}" for name, value in self._values.items())
        yield f"Placeholders: {_cut(marks)}"

    def _unknown(self, settings: Settings) -> str:
        """The first name in braces that nothing is filled in for, in its braces; empty where there is none."""
        texts = (*settings.args, *settings.env.values())
        names = (name for text in texts for name in placeholders.names_in(text))
        return next((f"{{{name}}}" for name in names if name not in self._values), "")

    def _unchanged(self, edited: _Edited) -> bool:
        return edited.settings == self._present and edited.slots == (self._slot,)

    def _report(self, text: Content) -> None:
        """Show one line at the foot of the frame."""
        self.query_one("#box").border_subtitle = text

    # Applying it

    def action_apply(self) -> None:
        """Restart the workers with these settings, if they are valid and changed."""
        if self._waiting:
            return
        try:
            edited = self._edited()
        except GmgError:
            return  # the frame shows why
        if self._unchanged(edited):
            self.notify("Nothing has been changed.", markup=False)
        else:
            self._apply(edited)

    @work
    async def _apply(self, edited: _Edited) -> None:
        """Close once the engine has accepted the settings."""
        question = self._question(edited.slots)
        if question and not await self.app.push_screen_wait(ConfirmScreen(question)):
            return
        self._waiting = True
        seen = {slot: self._seen[slot] for slot in edited.slots if slot in self._seen}
        try:
            await self._engine.edit(edited.slots, edited.settings.args, edited.settings.env, seen)
        except GmgError as error:
            self._waiting = False
            self.notify(str(error), severity="error", markup=False)
        else:
            self.dismiss(None)


def _cut(text: str) -> str:
    return text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"
