"""The dialogs with buttons, and the screen of a terminal that is too small."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from gmg_tui import units
from gmg_tui.model import Session, Snapshot
from gmg_tui.ui.keys import displayed
from gmg_tui.ui.terminal.true_size import TrueSizeScreen
from gmg_tui.ui.text import plain

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
        Binding("escape,q,ctrl+c", "cancel", "Cancel", show=False),
        Binding("up,k,left", "app.focus_previous", "Previous button", show=False),
        Binding("down,j,right", "app.focus_next", "Next button", show=False),
    ]
    SCROLLS: ClassVar[bool] = True

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

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)

    def action_cancel(self) -> None:
        """Close with no."""
        self.dismiss(False)


Answer = Literal["leave", "stop", "kill"]
"""What happens to the workers on quitting."""


class _Choice(NamedTuple):
    answer: Answer | None
    """None to go back."""
    key: str
    label: str
    effect: str = ""


class QuitScreen(Dialog[Answer | None]):
    """Asks whether to stop the workers, leave them running, or go back; `enter` alone leaves them running.

    Killing them is offered only while they are `stopping`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answer('leave')", "Leave running", show=False),
        Binding("s", "answer('stop')", "Stop", show=False),
        Binding("X", "answer('kill')", "Kill", show=False),
    ]

    def __init__(self, session: Session, snapshot: Snapshot, *, stopping: bool = False) -> None:
        super().__init__()
        self.heading = f"Quit {session.spec.name}"
        self._spec = session.spec
        self._snapshot = snapshot
        self._stopping = stopping

    def contents(self) -> ComposeResult:
        """What is running, and each choice with its effect."""
        yield Static(self._situation())
        for choice in self._choices():
            with Horizontal(classes="buttons"):
                action = f"screen.answer({choice.answer!r})"
                yield Button(f"{choice.label} ({choice.key})", action=action, compact=True)
            if choice.effect:
                yield Static(plain(choice.effect), classes="effect")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the action is available."""
        return action != "answer" or parameters[0] != "kill" or self._stopping

    def action_answer(self, answer: Answer | None) -> None:
        """Close with the answer."""
        self.dismiss(answer)

    @property
    def _live(self) -> int:
        return sum(not worker.state.ended for worker in self._snapshot.workers)

    def _situation(self) -> Content:
        queue, doing = self._snapshot.queue, "being stopped" if self._stopping else "running"
        if queue is not None:
            noun = "trial" if self._snapshot.tuning is not None else "job"
            are = "is" if queue.running == 1 else "are"
            return Content(f"{units.count(queue.running, noun)} {are} {doing}, {queue.waiting:,} waiting.")
        if not self._live:
            return Content("No worker is running.")
        return Content(f"{units.count(self._live, 'worker')} {'is' if self._live == 1 else 'are'} {doing}.")

    def _choices(self) -> list[_Choice]:
        name = self._spec.name
        wait = f" for up to {units.span(self._spec.sigint_wait_s)}" if self._spec.sigint_wait_s else ""
        signals = f"SIGINT{wait}, then SIGTERM, then SIGKILL."
        attach = f"Closes the screen only; `gmg-tui attach {name}` opens it again."
        if self._snapshot.tuning is not None:
            effect = f"Keeps the answer so far; `gmg-tui tune --resume {name}` continues. {signals}"
            stop = _Choice("stop", "s", "Stop the tuning", effect)
        elif self._snapshot.queue is not None:
            effect = f"`gmg-tui sweep --resume {name}` runs the rest. {signals}"
            stop = _Choice("stop", "s", "Stop the jobs", effect)
        elif self._live:
            stop = _Choice("stop", "s", "Stop the workers", f"{signals} On SIGINT Genesis saves its compiled kernels.")
        else:
            stop = _Choice("stop", "s", "End the session", "The logs and the summary stay on disk.")
        leave = _Choice("leave", "l", "Leave them running" if self._live else "Keep the session open", attach)
        kill = _Choice(
            "kill", "X", "Kill them now", "SIGKILL at once: kernels that are not saved must be compiled again."
        )
        return [leave, stop, *([kill] if self._stopping else []), _Choice(None, "esc", "Cancel")]


MIN_SIZE: Final = Size(60, 12)
"""The smallest terminal that pages and the main screen have room in."""


def is_small(size: Size) -> bool:
    """Whether a terminal of that size has no room for the pages and the main screen."""
    return size.width < MIN_SIZE.width or size.height < MIN_SIZE.height


class SmallScreen(TrueSizeScreen[None]):
    """Covers the other screens in a terminal that is too small; no key acts on a worker that cannot be seen."""

    TAKES: ClassVar[frozenset[str]] = frozenset({"quit_session", "detach", "help"})

    def compose(self) -> ComposeResult:
        """The message."""
        yield Static()

    def on_resize(self) -> None:
        """Show the present size, the size that is needed, and the keys that work."""
        width, height = self.app.size
        needed = f"{width}x{height} is too small, {MIN_SIZE.width}x{MIN_SIZE.height} is needed."
        keys = "{quit} quit  {detach} detach  {help} help".format_map(displayed(self.app))
        self.query_one(Static).update(Content.assemble((needed, "$warning"), "\n", (keys, "$text-muted")))
