"""The help: all keys, the signs of the states, and what the metrics mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gmg_tui.model import WorkerState
from gmg_tui.ui import keys
from gmg_tui.ui.drawing.appearance import spelled
from gmg_tui.ui.permissions import permissions_of
from gmg_tui.ui.screens.dialog_base import Dialog, bindings, scroll, signs_of
from gmg_tui.ui.screens.entries import Entries, Entry

STATES: Final = {
    WorkerState.WAITING: "for the start gate or for a job",
    WorkerState.STARTING: "the process has been started and has printed nothing",
    WorkerState.BUILDING: "Genesis initialises and builds the scene",
    WorkerState.COMPILING: "Genesis compiles its kernels: minutes the first time, seconds from the cache",
    WorkerState.RUNNING: "the script reports progress",
    WorkerState.STOPPING: "a signal was sent, the process has not ended yet",
    WorkerState.RESTARTING: "between two attempts",
    WorkerState.FINISHED: "ended with exit code 0",
    WorkerState.FAILED: "ended by itself in any other way; the details say why",
    WorkerState.STOPPED: "ended by you",
}
"""What each state means, in a few words."""

METRICS: Final = (
    ("FPS", "environment steps per second of wall time, over all environments of a worker and its last seconds"),
    ("printed", "the number that the script printed last, where it is far from that: Genesis's average follows slowly"),
    ("Σ", "the sum of the FPS of all running workers, not one GPU's FPS times the number of GPUs"),
    ("FPS/W", "that sum divided by the power of the GPUs with running workers, where they report it"),
    ("±", "half of the 95 % interval of the mean FPS, over all attempts with the same arguments; in details as ~"),
    ("~", "of a single attempt: the standard deviation of its FPS over seconds, or over its loop's periods"),
    ("−8 % of the median", "how far a GPU's FPS is below the median of those that run the same, where it is over 3 %"),
    ("–", "not known yet"),
    ("n/a", "not reported by the GPU"),
)
"""How the metrics on the screen are defined."""
_GAP: Final = Entry(" ")
_TABLES: Final = (
    ("Keys", keys.KEYS),
    ("In a worker's details", keys.DETAILS),
    ("On a worker's command line", keys.COMMAND[:2]),
    ("In the list of processes", keys.PROCESSES),
    ("Among the Python stacks", keys.STACKS),
    ("While editing", keys.EDIT),
    ("In the table of all that was tried", keys.TRIED),
    ("In the queue of a sweep", keys.QUEUE),
    ("While choosing its GPUs", keys.GPUS),
    ("In a tuning", keys.TUNE),
)
"""The tables of keys, with their headings."""
_OF_DIALOGS: Final = (keys.EDIT, keys.GPUS, keys.STACKS)
"""Those of screens that a read-only one does not open."""


class HelpScreen(Dialog[None]):
    """All keys and terms; scrolls where the terminal is small."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,q,enter", "cancel", "close", show=False),
        *(Binding(key.keys, "cancel", "close", show=False) for key in keys.COMMON if key.action == "help"),
        Binding("ctrl+c", "app.quit_session", "quit", show=False),
        Binding("space", "scroll('page_down')", "page down", show=False),
        *bindings(key for key in keys.DETAILS if key.action.startswith("scroll")),
    ]
    heading = "Help"
    SCROLLS: ClassVar[bool] = True

    def __init__(self, table: Sequence[keys.Key] = keys.KEYS) -> None:
        super().__init__()
        self._table = table

    def contents(self) -> ComposeResult:
        """The sections, one under the other."""
        signs = signs_of(self.app)
        permissions = permissions_of(self.app)
        for heading, table in _TABLES:
            if permissions.looks and table in _OF_DIALOGS:
                continue
            rows = [Entry(spelled(key.shown, signs), key.help) for key in permissions.allowed(table)]
            yield Entries([Entry(heading, style="title"), *rows, _GAP], id="shown" if table is self._table else None)
        states = (Entry(f"{signs.states[state]} {state.value}", text) for state, text in STATES.items())
        stuck = Entry(f"{signs.stuck} stuck", "no output, no progress and no CPU time for --stuck-after seconds")
        lost = Entry(f"{signs.warn} lost", "its node does not answer; what ran there starts again")
        yield Entries([Entry("States", style="title"), *states, stuck, lost, _GAP])
        terms = (Entry(spelled(name, signs), spelled(text, signs)) for name, text in METRICS)
        yield Entries([Entry("Metrics", style="title"), *terms])

    def on_mount(self) -> None:
        """Begin at the keys that were asked for."""
        self.call_after_refresh(self.query_one("#shown").scroll_visible, top=True, animate=False)

    def action_scroll(self, where: str) -> None:
        """Scroll the help: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
        scroll(self.query_one(".box"), where)
