"""The question on `q` and `ctrl+c`: what should happen to the workers?"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.model import Queue
from gmg_tui.ui.screens.dialog_base import Choice, Dialog, Menu

Answer = Literal["stop", "leave", "kill"]
"""What happens to the workers; no answer means stay."""


class QuitScreen(Dialog[Answer | None]):
    """Asks whether to stop the workers, leave them running, or stay. A mere `enter` leaves them: it destroys nothing.

    Killing is offered only while the workers are already being stopped. In a sweep, with its `queue`, jobs are meant; in
    a `tuning` they are its trials.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,q", "cancel", "stay", show=False)]
    SCROLLS: ClassVar[bool] = True

    def __init__(
        self,
        live: int,
        name: str,
        stopping: bool = False,
        sigint_wait_s: float | None = None,
        queue: Queue | None = None,
        tuning: bool = False,
    ) -> None:
        super().__init__()
        self._live = live
        self._queue = queue
        self._tuning = tuning
        self._session = name
        self.heading = f"Quit {name}"
        self._stopping = stopping
        self._wait = f" for up to {units.span(sigint_wait_s)}" if sigint_wait_s else ""

    def contents(self) -> ComposeResult:
        """The situation and the choices."""
        yield Static(self._situation(), markup=False)
        yield Static(" ", markup=False)
        yield Menu(self._choices())

    def _situation(self) -> str:
        if self._queue is not None:
            noun = "trial" if self._tuning else "job"
            going = f"{units.count(self._queue.running, noun)} {'is' if self._queue.running == 1 else 'are'}"
            doing = "being stopped" if self._stopping else "running"
            return f"{going} {doing}, {self._queue.waiting:,} {'waits' if self._queue.waiting == 1 else 'wait'}."
        if self._live == 0:
            return "No worker is running."
        workers = f"{units.count(self._live, 'worker')} {'is' if self._live == 1 else 'are'}"
        return f"{workers} being stopped." if self._stopping else f"{workers} running."

    def _choices(self) -> list[Choice]:
        attach = f"Closes this screen only; gmg-tui attach {self._session} opens it again."
        saves = f"SIGINT first{self._wait}, so that Genesis can save its compiled kernels; then SIGTERM, then SIGKILL."
        resume = f"gmg-tui sweep --resume {self._session} runs the rest."
        if self._tuning:
            kept = f"The answer so far is kept (gmg-tui report {self._session});"
            rest = f"gmg-tui tune --resume {self._session} goes on."
            stop = Choice("s", "stop the tuning and quit", f"{kept} {rest}", "stop")
        elif self._queue is not None:
            signals = f"SIGINT first{self._wait}, then SIGTERM, then SIGKILL."
            stop = Choice("s", "stop the jobs and quit", f"{resume} {signals}", "stop")
        elif self._live:
            stop = Choice("s", "stop them and quit", saves, "stop")
        else:
            stop = Choice("s", "end the session and quit", "The logs and the summary stay on disk.", "stop")
        leave = Choice("l", "leave them running" if self._live else "leave the session as it is", attach, "leave")
        lost = "SIGKILL at once. Kernels that are not saved yet must be compiled again."
        kill = [Choice("k", "kill them now and quit", lost, "kill")] if self._stopping else []
        return [leave, stop, *kill, Choice("c", "stay here", "", None)]
