"""Dialogs with buttons, the input line, and the palette."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.markup import escape
from textual.screen import ModalScreen, Screen
from textual.system_commands import SystemCommandsProvider
from textual.widgets import Button, Input, OptionList, Static

from gmg_tui.model import Worker, WorkerState, units
from gmg_tui.session.protocol import Action
from gmg_tui.ui import keys
from gmg_tui.ui.drawing import plain
from gmg_tui.ui.rows import KeysFooter
from gmg_tui.ui.terminal import TrueSizeScreen, call_after
from gmg_tui.ui.view import View
from gmg_tui.ui.worker_text import groups_text

Result = TypeVar("Result")
_TYPING_PAUSE_S = 0.1
"""Seconds without a key before the typed text is applied."""
_MIN_CONFIRM_RUNTIME_S: Final = 60.0
"""Seconds that an attempt must have run for its end to need confirmation."""


class Dialog(ModalScreen[Result], TrueSizeScreen[Result]):
    """A framed box in the middle of the screen, which scrolls in a small terminal."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > #box {
            width: 76;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            overflow-y: auto;
            padding: 0 1;
            background: $surface;
            border: round $primary;
            border-title-style: bold;
        }
        Button { width: auto; min-width: 0; margin-right: 2; }
        .buttons { height: 1; margin-top: 1; }
        .effect { margin-left: 3; color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "dismiss", "Cancel", show=False),
        Binding("up,k,left,h", "app.focus_previous", "Previous button", show=False),
        Binding("down,j,right,l", "app.focus_next", "Next button", show=False),
    ]

    heading = ""
    """The frame's title."""

    def compose(self) -> ComposeResult:
        """Yields the frame with the contents."""
        with Vertical(id="box") as box:
            box.border_title = plain(self.heading)
            yield from self.contents()

    def contents(self) -> ComposeResult:
        """Yields the widgets in the frame."""
        raise NotImplementedError


class Choice(NamedTuple):
    """A button with its answer, label and keys, and an explanation of its effect."""

    answer: Any
    label: str
    keys: Sequence[str] = ()
    effect: str = ""


class ChoiceScreen(Dialog[Any]):
    """Asks a question; the first answer has the focus, and `escape` returns None."""

    def __init__(self, heading: str, question: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.heading, self._question, self._choices = heading, question, choices

    def contents(self) -> ComposeResult:
        """Yields the question and the answers, side by side if none has an explanation."""
        yield Static(plain(self._question))
        buttons = [
            Button(choice.label, action=f"screen.dismiss({choice.answer!r})", compact=True) for choice in self._choices
        ]
        if not any(choice.effect for choice in self._choices):
            yield Horizontal(*buttons, classes="buttons")
            return
        for choice, button in zip(self._choices, buttons, strict=True):
            yield Horizontal(button, classes="buttons")
            if choice.effect:
                yield Static(plain(choice.effect), classes="effect")

    def on_key(self, event: Key) -> None:
        """Closes with the answer whose key was pressed."""
        for choice in self._choices:
            if event.key in choice.keys:
                event.stop()
                self.dismiss(choice.answer)


def confirm_dialog(question: str) -> ChoiceScreen:
    """Returns a dialog that asks before an action that cannot be undone; `enter` means no."""
    return ChoiceScreen("Confirm", question, [Choice(False, "No (n)", "n"), Choice(True, "Yes (y)", "y")])


def quit_dialog(app: App[Any], view: View) -> ChoiceScreen:
    """Returns a dialog with the answers `leave` (the workers keep running), `stop` and, while stopping, `kill`."""
    spec, snapshot, queue = view.session.spec, view.snapshot, view.queue
    wait = f" for up to {units.span(spec.sigint_wait_s)}" if spec.sigint_wait_s else ""
    signals = f"SIGINT{wait}, then SIGTERM, then SIGKILL."
    if snapshot.tuning is not None:
        noun, target = "trial", "tuning"
        stop_effect = f"Keeps the answer so far; `gmg-tui tune --resume {spec.name}` continues. {signals}"
    elif queue is not None:
        noun, target, stop_effect = "job", "jobs", f"`gmg-tui sweep --resume {spec.name}` runs the rest. {signals}"
    else:
        noun, target, stop_effect = "worker", "workers", f"{signals} On SIGINT, Genesis saves its compiled kernels."
    live = [worker for worker in snapshot.workers if not worker.state.ended]
    saved = [(file.saved, worker) for worker in live if (file := worker.newest.checkpoint) is not None]
    if saved:
        _, oldest = min(saved, key=lambda pair: pair[0])
        stop_effect += f" {oldest.slot} {_checkpoint_text(oldest, snapshot.time)}."
    count, waiting = (len(live), "") if queue is None else (queue.running, f", {queue.waiting:,} waiting")

    def choice(answer: str, label: str, key: str, effect: str) -> Choice:
        return Choice(answer, f"{label} ({keys.display_name(app, key)})", keys.keys_with_id(key), effect)

    leave_effect = f"Closes the screen only; `gmg-tui attach {spec.name}` opens it again."
    cancel = Choice(None, "Cancel (esc)")
    if snapshot.is_saving:
        leave = choice("leave", "Let the engine wait", "detach", leave_effect)
        give_up = choice("kill", "Give the results up", "kill", "Loses the results that are not written yet.")
        status = "All workers have ended, but the results are not written yet."
        return ChoiceScreen(f"Quit {spec.name}", status, [leave, give_up, cancel])
    leave = choice("leave", "Leave them running", "detach", leave_effect)
    kill = choice("kill", "Kill them now", "kill", "SIGKILL now: unsaved kernels must be compiled again.")
    stop = choice("stop", f"Stop the {target}", "stop", stop_effect)
    verb = f"{'is' if count == 1 else 'are'} {'being stopped' if view.stopping else 'running'}"
    status = f"{units.count(count, noun)} {verb}{waiting}."
    choices = [leave, stop, *([kill] if view.stopping else []), cancel]
    return ChoiceScreen(f"Quit {spec.name}", status, choices)


# Questions


def _with_groups(view: View, workers: Sequence[Worker]) -> Sequence[Worker]:
    """Returns the workers, then the other ranks of their groups: the engine acts on whole groups."""
    ids = {worker.group.id for worker in workers if worker.group is not None}
    slots = {worker.slot for worker in workers}
    ranks = (rank for rank in view.snapshot.workers if rank.group is not None and rank.group.id in ids)
    return [*workers, *(rank for rank in ranks if rank.slot not in slots)]


def _lost_runtime_s(worker: Worker, time: float) -> float:
    """Returns the running time that would be lost with the worker's attempt; 0 if it is too short to ask about."""
    ran_s = worker.attempt_s(time) or 0.0
    return ran_s if worker.state.active and ran_s > _MIN_CONFIRM_RUNTIME_S else 0.0


def question(action: Action, view: View, workers: Sequence[Worker]) -> str:
    """Returns the question to ask before an action on workers and their groups; empty if none is needed."""
    workers, time = _with_groups(view, workers), view.snapshot.time
    if action is Action.KILL:
        if all(worker.state is WorkerState.STOPPING for worker in workers):
            return ""
        pronoun = "its" if len(workers) == 1 else "their"
        return f"Kill {_workers_text(workers)} now? Genesis will not save {pronoun} compiled kernels."
    longest = max(workers, key=lambda worker: _lost_runtime_s(worker, time), default=None)
    if longest is None or not (ran_s := _lost_runtime_s(longest, time)):
        return ""
    subject = "It" if len(workers) == 1 else longest.slot
    text = f"{action.value.capitalize()} {_workers_text(workers)}? {subject} has been running for {units.span(ran_s)}."
    return text + (f" It {saved}." if (saved := _checkpoint_text(longest, time)) else "")


def _checkpoint_text(worker: Worker, time: float) -> str:
    """Returns the newest checkpoint and its age: `saved model_1200.pt 4:00 ago`; empty if there is none."""
    file = worker.newest.checkpoint
    return f"saved {Path(file.path).name} {units.span(max(0.0, time - file.saved))} ago" if file is not None else ""


def _workers_text(workers: Sequence[Worker]) -> str:
    if text := groups_text(workers):
        return text
    if len(workers) > 1:
        return f"{len(workers)} workers"
    worker = workers[0]
    return worker.slot if worker.job is None else f"job {worker.job} ({worker.job_name}) on {worker.slot}"


_MAX_LINE_CHARS = 1000
"""Maximum length of a text to search for: in a browser, viewers who may change nothing can paste any."""


class LineBar(Input):
    """An input line that applies its text as the user types; `enter` keeps the text, `escape` drops it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Drop", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(self, value: str, placeholder: str, apply: Callable[[str], object]) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, max_length=_MAX_LINE_CHARS)
        self.cursor_blink = False  # blinking costs traffic on a slow connection
        self._apply, self._applied = apply, value
        self._timer: asyncio.TimerHandle | None = None

    on_key = keys.act_in_order

    def on_input_changed(self, event: Input.Changed) -> None:
        """Applies the text after a pause in typing, as pasted text may arrive key by key."""
        event.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = call_after(self, _TYPING_PAUSE_S, self._apply_text)

    def _apply_text(self) -> None:
        if self.value != self._applied:
            self._applied = self.value
            self._apply(self.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Applies the text, and closes the line."""
        event.stop()
        self._apply_text()
        await self.remove()

    async def action_quit(self) -> None:
        """Closes the line, then quits as on any screen."""
        await self.remove()
        await self.app.run_action("quit_session")

    async def action_drop(self) -> None:
        """Clears the text, and closes the line."""
        self.value = ""
        self._apply_text()
        await self.remove()


async def open_line(screen: Screen[Any], bar: LineBar) -> None:
    """Opens an input line above the footer, in place of any other."""
    if screen.is_attached:  # else the app is exiting
        await screen.query(LineBar).remove()
        await screen.mount(bar, before=screen.query_one(KeysFooter))
        screen.set_focus(bar)  # at once, so that it gets the next key


class Commands(SystemCommandsProvider):
    """Lists the palette's commands in the order of `get_system_commands`; Textual sorts them by name.

    Titles may hold names that a script chose. Textual 8.2.8 would parse them as markup, whose links run actions, and its
    search would list all ways to find the letters of the query in them, which may be any number.
    """

    async def discover(self) -> Hits:
        """Yields all commands."""
        for title, explanation, callback, _ in self.app.get_system_commands(self.screen):
            yield DiscoveryHit(plain(title), callback, text=title, help=escape(explanation))

    async def search(self, query: str) -> Hits:
        """Yields the commands whose titles contain the query."""
        matcher = self.matcher(query)
        for title, explanation, callback, _ in self.app.get_system_commands(self.screen):
            prompt = plain(title)
            start = prompt.plain.lower().find(query.lower())
            if start >= 0:
                shown = prompt.stylize(self.match_style or "bold", start, start + len(query))
                score = matcher.match(prompt.plain)
                yield Hit(score, shown, callback, text=prompt.plain, help=escape(explanation))


class Palette(CommandPalette, TrueSizeScreen[None]):
    """Textual's palette at the terminal's true size, with keys that move by a page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "app.quit_session", "quit", show=False, priority=True),
        Binding("pageup", "page(-1)", "Previous page", show=False),
        Binding("pagedown", "page(1)", "Next page", show=False),
    ]

    async def on_input_submitted(self) -> None:
        """Waits for the search before choosing: until then Textual 8.2.8 lists the matches of the previous text."""
        if searches := [worker for worker in self.workers if worker.node is self and not worker.is_finished]:
            await self.workers.wait_for_complete(searches)

    def action_page(self, step: int) -> None:
        """Moves by pages: until it is drawn, the list's own action fails (Textual 8.2.8, `OptionList._move_page`)."""
        commands = self.query_one(OptionList)
        if commands.option_count:
            number = (commands.highlighted or 0) + step * (commands.size.height // 2)  # a command has two rows
            commands.highlighted = max(0, min(number, commands.option_count - 1))
