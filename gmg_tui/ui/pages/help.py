"""The help: the keys, the states, and what the metrics mean; and the manual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, MarkdownViewer

from gmg_tui.model import WorkerState
from gmg_tui.ui.dialogs import Dialog
from gmg_tui.ui.drawing import SIGNS
from gmg_tui.ui.pages.page import Fact, Facts, Scroll

STATES: Final = {
    WorkerState.WAITING: "for the start gate or for a job",
    WorkerState.STARTING: "the process has been started and has printed nothing",
    WorkerState.BUILDING: "Genesis initialises and builds the scene",
    WorkerState.COMPILING: "Genesis compiles its kernels: minutes the first time, seconds from the cache",
    WorkerState.RUNNING: "the script reports progress",
    WorkerState.STOPPING: "a signal was sent, the process has not ended yet",
    WorkerState.RESTARTING: "between two attempts",
    WorkerState.FINISHED: "ended with exit code 0",
    WorkerState.FAILED: "ended by itself in any other way; the details show why",
    WorkerState.STOPPED: "ended by you",
}
"""What each state means, in a few words."""
METRICS: Final = (
    Fact("FPS", "environment steps per second of wall time over the last 10 s, of all environments of a worker"),
    Fact(
        "whole attempt", "the same from the first to the last count of an attempt, stalls included: what tables rank by"
    ),
    Fact("printed", "the number that the script printed last; it is in the details only, and in no sum"),
    Fact("Σ", "the sum of the FPS of all running workers"),
    Fact("FPS/W", "that sum divided by the power of the GPUs with running workers, where they report it"),
    Fact("±", "half of the 95 % interval of a trial, by how much trials of the same value differ"),
    Fact("of the median", "how far a GPU's FPS is below the median of those that run the same, where it is over 3 %"),
    Fact("–", "not known yet"),
    Fact("n/a", "not reported by the GPU"),
)
"""How the metrics on the screen are defined."""


class HelpScreen(Dialog[None]):
    """The help, opened on `screen`: on a page it begins with the keys of that page."""

    DEFAULT_CSS = """
    HelpScreen {
        & > #box { width: 100; height: 100%; }
        Facts { margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "cancel", "Close", show=False)]
    heading = "Help"

    def __init__(self, screen: Screen[Any], main: Screen[Any]) -> None:
        super().__init__()
        self._page = list(_keys(screen)) if screen is not main else []
        self._main = list(_keys(main, every=screen is not main))

    def contents(self) -> ComposeResult:
        """The sections, one below the other."""
        states = [Fact(f"{SIGNS.states[state]} {state.value}", text) for state, text in STATES.items()]
        stuck = Fact(f"{SIGNS.stuck} stuck", "no output, no progress and no CPU time for --stuck-after seconds")
        lost = Fact(f"{SIGNS.warn} lost", "its node does not answer; what ran there starts again")
        with Scroll():
            if self._page:
                yield Facts([Fact("Keys of this page"), *self._page])
            yield Facts([Fact("Keys"), *self._main])
            yield Facts([Fact("States"), *states, stuck, lost])
            yield Facts([Fact("Metrics"), *METRICS])


def _keys(screen: Screen[Any], *, every: bool = False) -> Iterator[Fact]:
    """The keys that work on `screen` now, or `every` one, with what they do; keys with the same action are together."""
    actions: dict[str, list[str]] = {}
    for each in screen.active_bindings.values():
        if (each.enabled or every) and each.binding.id:
            text = each.tooltip or each.binding.description
            actions.setdefault(text, []).append(screen.app.get_key_display(each.binding))
    for text, displayed in actions.items():
        yield Fact(" ".join(sorted(displayed, key=len)), text)


# The manual


class GuideApp(App[None]):
    """Shows a Markdown text."""

    BINDINGS: ClassVar = [("q,escape", "quit", "quit")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text and the keys."""
        yield MarkdownViewer(self._text, open_links=False, show_table_of_contents=False)
        yield Footer()

    def on_mount(self) -> None:
        """Let the keys scroll the text at once."""
        self.query_one(MarkdownViewer).focus()


def show(text: str) -> None:
    """Show a text until the reader quits."""
    GuideApp(text).run()
