"""What the engine sends: taken into the view, and drawn no faster than a reader can follow."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gmg_tui.model import Snapshot
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.ui.drawing import words
from gmg_tui.ui.terminal.notification import sequences
from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

SWEEP_PACE_S: Final = 0.25
"""Shortest time between two redraws of a sweep's states, seconds: jobs may be shorter than that."""


class Connection:
    """Listens to the engine of `app`."""

    def __init__(self, app: GmgApp) -> None:
        self._app = app
        least_s = 0.0 if app.view.queue is None else SWEEP_PACE_S
        self.pace = RefreshLimiter(app, app.publish, app.PACE_S, least_s=least_s)
        self._silent_s = 0
        """Seconds since the engine's last message."""

    async def listen(self) -> None:
        """Take what the engine sends, until it leaves."""
        async for event in self._app.engine.events():
            self._silent_s = self._app.view.silent_s = 0
            match event:
                case Update(snapshot=snapshot):
                    self._apply(snapshot)
                case Lines():
                    self._app.main.log_view.take(event)
                case Bye(reason=reason):
                    self._disconnected(reason)
                    return

    def each_second(self) -> None:
        """Notice that the engine is silent."""
        view = self._app.view
        self._silent_s += 1
        if self._silent_s >= self._app.SILENT_S and not view.disconnected and not view.over:
            view.silent_s = self._silent_s
            self._app.publish()

    def _apply(self, snapshot: Snapshot) -> None:
        """Take a snapshot, and draw it: at once when a worker's state changed, else not faster than one can read."""
        app, view = self._app, self._app.view
        states = [(worker.state, worker.stuck) for worker in view.snapshot.workers]
        self._notify_terminal(snapshot)
        words.show_time(snapshot.time)
        view.apply(snapshot)
        if app.main.is_mounted:
            app.main.open_log()
        if snapshot.ended and view.stopping:
            app.finish("stopped")
        else:
            self.pace.ask(now=states != [(worker.state, worker.stuck) for worker in snapshot.workers])

    def _notify_terminal(self, snapshot: Snapshot) -> None:
        """Have the terminal notify of what has happened since the last snapshot, where that is asked for."""
        happened = self._app.view.occurred_since(snapshot)
        if happened:
            ways = self._app.view.session.spec.notify
            self._app.write_to_terminal(sequences(ways, happened, tmux=bool(os.environ.get("TMUX"))))

    def _disconnected(self, reason: str) -> None:
        """Keep final results on the screen once the engine is gone; anything else is a loss."""
        app, view = self._app, self._app.view
        view.disconnected = True
        if view.stopping:
            app.finish("stopped")
        elif view.snapshot.ended:
            app.say(f"The engine has exited: {reason}")
        else:
            app.finish("lost", reason)
