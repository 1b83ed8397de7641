"""The question that `q` and `ctrl+c` ask: what becomes of the workers?"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from gmg_tui import units
from gmg_tui.model import Queue
from gmg_tui.ui.screens.parts import Choice, Dialog, Menu

Answer = Literal["stop", "leave", "kill"]
"""What becomes of the workers; no answer means stay."""


class QuitScreen(Dialog[Answer | None]):
    """Asks whether to stop the workers, leave them running, or stay. `enter` at once leaves them: it destroys nothing.

    Args:
        live: How many workers have a process.
        name: The session's name.
        stopping: Whether the workers are being stopped already; then killing them is offered.
        sigint_wait_s: How long a worker may take to end after SIGINT.
        queue: How far the sweep is, whose jobs are meant then; None in a plain run.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,q", "cancel", "stay", show=False)]

    def __init__(
        self,
        live: int,
        name: str,
        stopping: bool = False,
        sigint_wait_s: float | None = None,
        queue: Queue | None = None,
    ) -> None:
        super().__init__()
        self._live = live
        self._queue = queue
        self._session = name
        self._stopping = stopping
        self._wait = f" for up to {units.span(sigint_wait_s)}" if sigint_wait_s else ""

    def heading(self) -> str:
        """The name of the session."""
        return f"Quit {self._session}"

    def contents(self) -> ComposeResult:
        """How things stand, and the choices."""
        yield Static(self._standing(), markup=False)
        yield Static(" ", markup=False)
        yield Menu(self._choices())

    def _standing(self) -> str:
        if self._queue is not None:
            going = f"{units.count(self._queue.running, 'job')} {'is' if self._queue.running == 1 else 'are'}"
            doing = "being stopped" if self._stopping else "running"
            return f"{going} {doing}, {self._queue.waiting:,} {'waits' if self._queue.waiting == 1 else 'wait'}."
        if self._live == 0:
            return "No worker is running."
        workers = f"{units.count(self._live, 'worker')} {'is' if self._live == 1 else 'are'}"
        return f"{workers} being stopped." if self._stopping else f"{workers} running."

    def _stop_jobs(self) -> Choice:
        resume = f"gmg-tui sweep --resume {self._session} goes on with the rest."
        explanation = f"{resume} SIGINT first{self._wait}, then SIGTERM, then SIGKILL."
        return Choice("s", "stop the jobs and quit", explanation, "stop")

    def _choices(self) -> list[Choice]:
        leave = Choice(
            "l",
            "leave them running" if self._live else "leave the session as it is",
            f"Only this screen ends; gmg-tui attach {self._session} opens it again.",
            "leave",
        )
        stop = Choice(
            "s",
            "stop them and quit" if self._live else "end the session and quit",
            f"SIGINT first{self._wait}, so that Genesis can save its compiled kernels; then SIGTERM, then SIGKILL."
            if self._live
            else "The logs and the summary stay on disk.",
            "stop",
        )
        kill = Choice(
            "k",
            "kill them now and quit",
            "SIGKILL at once. Kernels that are not saved yet are compiled again the next time.",
            "kill",
        )
        if self._queue is not None:
            stop = self._stop_jobs()
        stay = Choice("c", "stay here", "", None)
        return [leave, stop, *([kill] if self._stopping else []), stay]

    @on(Menu.Taken)
    def answer(self, event: Menu.Taken) -> None:
        """Close with what was chosen."""
        self.dismiss(event.value)
