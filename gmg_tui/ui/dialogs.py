"""The dialogs with buttons, and the palette."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, OptionList, Static

from gmg_tui.model import Session, Snapshot, units
from gmg_tui.ui.drawing import plain
from gmg_tui.ui.keys import displayed
from gmg_tui.ui.terminal import TrueSizeScreen

Result = TypeVar("Result")


class Dialog(ModalScreen[Result], TrueSizeScreen[Result]):
    """A framed box in the middle of the screen with `contents`; it scrolls where the terminal is small."""

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
        Binding("escape,ctrl+c", "cancel", "Cancel", show=False),
        Binding("up,k,left,h", "app.focus_previous", "Previous button", show=False),
        Binding("down,j,right,l", "app.focus_next", "Next button", show=False),
    ]

    heading = ""
    """The title in the frame."""

    def compose(self) -> ComposeResult:
        """The frame with the contents."""
        with Vertical(id="box") as box:
            box.border_title = plain(self.heading)
            yield from self.contents()

    def contents(self) -> ComposeResult:
        """The widgets in the frame."""
        raise NotImplementedError

    def action_answer(self, answer: Result) -> None:
        """Close with the answer."""
        self.dismiss(answer)

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class ConfirmScreen(Dialog[bool]):
    """Asks before something that cannot be undone; `enter` alone is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
    ]
    heading = "Confirm"

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def contents(self) -> ComposeResult:
        """The question and its two answers."""
        yield Static(plain(self._question))
        with Horizontal(classes="buttons"):
            yield Button("No (n)", action="screen.answer(False)", compact=True)
            yield Button("Yes (y)", action="screen.answer(True)", compact=True)


Answer = Literal["leave", "stop", "kill"]
"""The choices for the workers on quitting."""


class QuitScreen(Dialog[Answer | None]):
    """Asks whether to stop the workers, leave them running, or go back; `enter` alone leaves them running.

    The keys are those that do the same on every screen. Killing is offered only while the workers are `stopping`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "answer('leave')", "Leave running", show=False, id="detach"),
        Binding("x", "answer('stop')", "Stop", show=False, id="stop"),
        Binding("X", "answer('kill')", "Kill", show=False, id="kill"),
    ]

    def __init__(self, session: Session, snapshot: Snapshot, *, stopping: bool = False) -> None:
        super().__init__()
        self.heading = f"Quit {session.spec.name}"
        self._spec = session.spec
        self._snapshot = snapshot
        self._stopping = stopping

    def contents(self) -> ComposeResult:
        """Yields the running work, and each choice with its effect."""
        yield Static(self._situation(self._snapshot))
        for answer, label, effect in self._choices():
            with Horizontal(classes="buttons"):
                yield Button(label, action=f"screen.answer({answer!r})", compact=True)
            yield Static(plain(effect), classes="effect")
        with Horizontal(classes="buttons"):
            yield Button("Cancel (esc)", action="screen.cancel", compact=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """True if the action is available."""
        return self._stopping or (action, parameters) != ("answer", ("kill",))

    def _situation(self, snapshot: Snapshot) -> str:
        queue, doing = snapshot.queue, "being stopped" if self._stopping else "running"
        if queue is not None:
            running = units.count(queue.running, "job" if snapshot.tuning is None else "trial")
            return f"{running} {'is' if queue.running == 1 else 'are'} {doing}, {queue.waiting:,} waiting."
        live = sum(not worker.state.ended for worker in snapshot.workers)
        return f"{units.count(live, 'worker')} {'is' if live == 1 else 'are'} {doing}."

    def _choices(self) -> Iterator[tuple[Answer, str, str]]:
        """Answer, label and effect of each choice."""
        key, name = displayed(self.app), self._spec.name
        effect = f"Closes the screen only; `gmg-tui attach {name}` opens it again."
        yield "leave", f"Leave them running ({key['detach']})", effect
        wait = f" for up to {units.span(self._spec.sigint_wait_s)}" if self._spec.sigint_wait_s else ""
        signals = f"SIGINT{wait}, then SIGTERM, then SIGKILL."
        if self._snapshot.tuning is not None:
            what, effect = "tuning", f"Keeps the answer so far; `gmg-tui tune --resume {name}` continues. {signals}"
        elif self._snapshot.queue is not None:
            what, effect = "jobs", f"`gmg-tui sweep --resume {name}` runs the rest. {signals}"
        else:
            what, effect = "workers", f"{signals} On SIGINT Genesis saves its compiled kernels."
        yield "stop", f"Stop the {what} ({key['stop']})", effect
        if self._stopping:
            effect = "SIGKILL at once: kernels that are not saved must be compiled again."
            yield "kill", f"Kill them now ({key['kill']})", effect


class Palette(CommandPalette, TrueSizeScreen[None]):
    """Textual's, which is laid out for the size that the terminal has."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "app.quit_session", "quit", show=False, priority=True),
        Binding("pageup", "page(-1)", "Previous page", show=False),
        Binding("pagedown", "page(1)", "Next page", show=False),
    ]

    async def on_input_submitted(self) -> None:
        """Choose among what matches the whole text: the list of Textual 8.2.8 is that of before until it has searched."""
        if searching := [each for each in self.workers if each.node is self and not each.is_finished]:
            await self.workers.wait_for_complete(searching)

    def action_page(self, step: int) -> None:
        """Go on by a page; the list's own key fails before it is drawn (Textual 8.2.8, `OptionList._move_page`)."""
        commands = self.query_one(OptionList)
        if commands.option_count:
            number = (commands.highlighted or 0) + step * (commands.size.height // 2)  # a command has two rows
            commands.highlighted = max(0, min(number, commands.option_count - 1))
