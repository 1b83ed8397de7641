"""The help: all keys, the signs of the states, and what the figures mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gmg_tui.model import WorkerState
from gmg_tui.ui.keys import KEYS, Key
from gmg_tui.ui.look import Signs
from gmg_tui.ui.screens import tables
from gmg_tui.ui.screens.entries import Entries, Entry
from gmg_tui.ui.screens.parts import Dialog, scroll, scrolling, signs_of, spelled

STATES: Final = {
    WorkerState.WAITING: "for the start gate or the queue",
    WorkerState.STARTING: "the process is there and has printed nothing",
    WorkerState.BUILDING: "Genesis initialises and builds the scene",
    WorkerState.COMPILING: "Genesis compiles its kernels: minutes the first time, seconds from the cache",
    WorkerState.RUNNING: "progress has been reported",
    WorkerState.STOPPING: "a signal was sent, the process is still there",
    WorkerState.RESTARTING: "between two attempts",
    WorkerState.FINISHED: "ended with exit code 0",
    WorkerState.FAILED: "ended otherwise by itself; the details say why",
    WorkerState.STOPPED: "ended by you",
}
"""What each state means, in a few words."""
STUCK: Final = "no output, no progress and no CPU time for --stuck-after seconds"

FIGURES: Final = (
    ("FPS", "environment steps per second over all environments of a worker: the number that it printed last"),
    ("now", "the rate won back from Genesis's moving average: it follows a change at once, the printed one slowly"),
    ("Σ", "the sum of the FPS of the workers that run, not one card's figure times the number of cards"),
    ("FPS/W", "that sum over the power of the cards whose workers run, where the cards give their power"),
    ("–", "not known yet"),
    ("n/a", "the card does not give this figure"),
)
"""How the figures of the screen are defined."""
_GAP: Final = Entry(" ")


class HelpScreen(Dialog[None]):
    """Everything that can be pressed, and what is meant; scrolls where the terminal is small."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,q,enter", "cancel", "close", show=False),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
        *scrolling(),
    ]
    TITLE_TEXT: ClassVar[str] = "Help"

    def contents(self) -> ComposeResult:
        """The parts, one under the other."""
        signs = signs_of(self.app)
        yield Entries(
            [
                *_keys("Keys", KEYS, signs),
                _GAP,
                *_keys("In the details of a worker", tables.DETAILS, signs),
                _GAP,
                *_keys("In the list of processes", tables.PROCESSES, signs),
                _GAP,
                *_keys("While editing", tables.EDIT, signs),
                _GAP,
                *_keys("In the queue of a sweep", tables.QUEUE, signs),
                _GAP,
                *_keys("While choosing its cards", tables.CARDS, signs),
                _GAP,
                *_states(signs),
                _GAP,
                Entry("Figures", style="title"),
                *(Entry(spelled(name, signs), spelled(text, signs)) for name, text in FIGURES),
            ]
        )

    def action_scroll(self, where: str) -> None:
        """Scroll the help: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
        scroll(self.query_one(".box"), where)


def _keys(heading: str, keys: Sequence[Key], signs: Signs) -> list[Entry]:
    return [Entry(heading, style="title"), *(Entry(spelled(key.shown, signs), key.help) for key in keys)]


def _states(signs: Signs) -> list[Entry]:
    return [
        Entry("States", style="title"),
        *(Entry(f"{signs.states[state]} {state.value}", text) for state, text in STATES.items()),
        Entry(f"{signs.stuck} stuck", STUCK),
    ]
