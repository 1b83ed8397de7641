"""The dialog that edits the arguments and the environment of workers, and restarts them."""

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Button, TextArea

from gmg_tui.jobs.argument_placeholders import join_args
from gmg_tui.model import Settings
from gmg_tui.model.errors import GmgError
from gmg_tui.model.secrets import mask, unmask
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Action, Seen
from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import Dialog, confirm_dialog, question
from gmg_tui.ui.drawing import plain
from gmg_tui.ui.view import View
from gmg_tui.ui.worker_text import groups_text


class _Field(TextArea):
    """A text area in a titled frame, disabled until it has its text."""

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

    def __init__(self, title: str) -> None:
        super().__init__(soft_wrap=True, highlight_cursor_line=False, disabled=True)
        self.cursor_blink = False  # blinking costs traffic on a slow connection
        self.border_title = title

    on_key = keys.act_in_order

    def undo(self) -> None:
        """Undoes from the start of the text: Textual 8.2.8 fails if the cursor's line vanishes with a scrollbar."""
        self.move_cursor((0, 0))
        super().undo()

    def redo(self) -> None:
        """Redoes from the start of the text, for the same reason as `undo`."""
        self.move_cursor((0, 0))
        super().redo()

    def get_line(self, line_index: int) -> Text:
        """Returns a line to draw, with `·` for each control character except tabs."""
        line = self.document.get_line(line_index)
        return Text("".join(char if char.isprintable() or char == "\t" else "·" for char in line), end="")


class _Arguments(_Field):
    """The arguments as a single line, which may wrap; `enter` applies the settings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.apply", "Apply", show=False)]


class EditScreen(Dialog[None]):
    """Edits settings, and restarts the workers with them, after confirmation if needed.

    The dialog stays open until the engine has accepted the settings, so that nothing typed is lost.

    Args:
        engine: The session's engine.
        view: The interface's state. A worker is restarted only if it still has the job shown when the dialog opened.
        slots: The slots of the workers to restart; the dialog shows the first one's settings.
        initial: The settings to begin with; None for the current ones.
    """

    DEFAULT_CSS = """
    EditScreen {
        & > #box { border-subtitle-align: left; }
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
        slots: Sequence[str],
        initial: Settings | None,
    ) -> None:
        super().__init__()
        self._slots, self._slot = tuple(slots), slots[0]
        worker = view.worker_on(self._slot)
        self._engine, self._view = engine, view
        self._subject = (groups_text([worker]) if worker is not None else "") or self._slot
        job = f", job {worker.job} ({worker.job_name})" if worker is not None and worker.job is not None else ""
        self._initial = initial
        self._seen = {shown.slot: Seen(shown.job) for shown in view.snapshot.workers}
        self._is_waiting = True
        """True while a request to the engine is unanswered."""
        self._current = Settings()
        self._args = _Arguments("Arguments")
        self._env = _Field("Environment, one KEY=VALUE per line")
        self.heading = f"Edit {self._subject}{job}"

    def contents(self) -> ComposeResult:
        """Yields the fields and the buttons."""
        yield from (self._args, self._env)
        with Horizontal(classes="buttons"):
            yield Button("Restart (ctrl+s)", action="screen.apply", compact=True)
            yield Button("Cancel (esc)", action="screen.dismiss", compact=True)

    def on_mount(self) -> None:
        """Asks the engine for the settings."""
        self._report("waiting for the engine")
        self._load()

    @work
    async def _load(self) -> None:
        try:
            details = await self._engine.details(self._slot)
        except GmgError as error:
            self._report(str(error), "$error")  # stays open, so that the next keys do not reach the page
            return
        self._current = Settings(details.args, details.extra_env)
        settings = self._initial or self._current
        self._args.load_text(join_args(settings.args))
        self._args.move_cursor(self._args.document.end)
        self._env.load_text(join_env(mask(settings.env)))
        self._env.move_cursor(self._env.document.end)
        self._is_waiting = self._args.disabled = self._env.disabled = False
        self._args.focus()
        self._review()

    # The settings

    def _settings(self) -> Settings:
        """Returns the typed settings, unmasked, with their placeholders. Raises `GmgError` if they are invalid."""
        known_env = self._current.env | (self._initial.env if self._initial is not None else {})
        return Settings(split_args(self._args.text), unmask(split_env(self._env.text), known_env))

    def _is_unchanged(self, settings: Settings) -> bool:
        return settings == self._current and len(self._slots) == 1

    @on(TextArea.Changed)
    def _review(self) -> None:
        if self._is_waiting:
            return
        try:
            settings = self._settings()
        except GmgError as error:
            self._report(str(error), "$error")
            return
        if self._is_unchanged(settings):
            self._report("unchanged")
        else:
            count = len(self._slots)
            workers = f"{count} marked workers" if count > 1 else self._subject
            self._report(f"{workers} will restart with these settings", "$warning")

    def _report(self, text: str, style: str = "") -> None:
        self.query_one("#box").border_subtitle = plain(text).stylize(style)

    # Applying

    def action_apply(self) -> None:
        """Restarts the workers with the typed settings, unless these are invalid or change nothing."""
        if self._is_waiting:
            return
        try:
            settings = self._settings()
        except GmgError:
            return  # the frame shows the error
        if self._is_unchanged(settings):
            self.notify("Nothing has been changed.", markup=False)
        else:
            self._apply(settings)

    @work
    async def _apply(self, settings: Settings) -> None:
        """Sends the settings, and closes once the engine has accepted them."""
        workers = [worker for slot in self._slots if (worker := self._view.worker_on(slot)) is not None]
        text = question(Action.RESTART, self._view, workers)
        if text and not await self.app.push_screen_wait(confirm_dialog(text)):
            return
        self._is_waiting = True
        seen = {slot: self._seen[slot] for slot in self._slots if slot in self._seen}
        try:
            await self._engine.edit(self._slots, settings.args, settings.env, seen)
        except GmgError as error:
            self._is_waiting = False
            self.notify(str(error), severity="error", markup=False)
        else:
            self.dismiss(None)


# Text


def split_args(line: str) -> tuple[str, ...]:
    """Splits arguments in shell syntax, without expansion. Raises `GmgError` for invalid syntax."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise GmgError(f"arguments: {str(error).lower()}") from error


def join_env(env: Mapping[str, str]) -> str:
    """Returns the environment as lines; values with control characters are quoted as in bash: `$'…'`."""

    def quote(value: str) -> str:
        is_plain = value.isprintable() and not value.startswith("$'")
        return value if is_plain else f"$'{value.encode('unicode_escape').decode('ascii')}'"

    return "\n".join(f"{key}={quote(value)}" for key, value in env.items())


def split_env(text: str) -> dict[str, str]:
    """Parses `KEY=VALUE` lines, with values in `$'…'` or literal. Raises `GmgError` for the first invalid line."""
    env: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            raise GmgError(f"environment, line {number}: expected KEY=VALUE")
        if not (key.isascii() and key.isidentifier()):
            raise GmgError(f"environment, line {number}: {key!r} is not a valid variable name")
        if key in env:
            raise GmgError(f"environment, line {number}: {key} is set twice")
        if value.startswith("$'") and value.endswith("'"):
            try:
                value = value[2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
            except UnicodeDecodeError:
                raise GmgError(f"environment, line {number}: invalid escape in {value}") from None
        env[key] = value
    return env
