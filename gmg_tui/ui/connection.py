"""What the engine sends: taken into the view, drawn no faster than a reader can follow, and notified of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gmg_tui.model import Occurrence, Snapshot
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.text import clean
from gmg_tui.ui.rows import RefreshLimiter

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

_ESCAPE, _BELL, _END = "\x1b", "\a", "\x1b\\"
_MOST = 200
"""Characters of a notification: desktops show no more."""
_TITLE = "gmg-tui"


class Connection:
    """Listens to the engine of `app`."""

    def __init__(self, app: GmgApp) -> None:
        self._app = app
        self.pace = RefreshLimiter(app, app.publish, app.PACE_S)
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
        """Take a snapshot, and draw it."""
        app, view = self._app, self._app.view
        self._notify_terminal(snapshot)
        view.apply(snapshot)
        if app.main.is_mounted:
            app.main.open_log()
        if snapshot.ended and view.stopping:
            app.finish("stopped")
        else:
            self.pace.ask()

    def _notify_terminal(self, snapshot: Snapshot) -> None:
        """Have the terminal notify of what has happened since the last snapshot, where that is asked for."""
        last = max((each.number for each in self._app.view.snapshot.occurred), default=0)
        if happened := tuple(each for each in snapshot.occurred if each.number > last):
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


# Notifications of the terminal


def sequences(ways: Iterable[str], new: tuple[Occurrence, ...], *, tmux: bool) -> str:
    """What to write for what has just happened, in each of the terminal's ways; empty for none.

    OSC 9 is iTerm2's, kitty's, WezTerm's, Windows Terminal's, OSC 777 urxvt's, foot's, Ghostty's and VTE's. tmux hands
    such a sequence on where it is wrapped, and `allow-passthrough` is on (tmux(1)); it handles a bell itself.
    """
    if not new:
        return ""
    text = _text(new)
    sequences = {
        "bell": _BELL,
        "osc9": _osc(f"9;{text}", tmux=tmux),
        "osc777": _osc(f"777;notify;{_TITLE};{text}", tmux=tmux),
    }
    return "".join(dict.fromkeys(sequences[way] for way in ways if way in sequences))


def _text(new: tuple[Occurrence, ...]) -> str:
    more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
    text = clean(new[0].text.encode(errors="replace")).replace(";", ",")
    room = _MOST - len(more)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + more


def _osc(body: str, *, tmux: bool) -> str:
    whole = f"{_ESCAPE}]{body}{_BELL}"
    return f"{_ESCAPE}Ptmux;{whole.replace(_ESCAPE, _ESCAPE * 2)}{_END}" if tmux else whole
