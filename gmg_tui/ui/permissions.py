"""Which keys may do something on this screen: one that only looks changes nothing, one in a browser has no terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from textual.app import App

from gmg_tui.ui.keys import Key

STEERING: Final = frozenset(
    {"restart", "restart_failed", "stop", "kill", "edit", "mark", "stacks", "use_again", "end_process", "use"}
    | {"skip", "retry", "retry_failed", "shift", "gpus", "turn", "apply", "scope"}
)
"""Actions of keys that change something in the session, or lead to nothing else."""
TERMINAL: Final = frozenset({"log_pager", "suspend"})
"""Actions of keys that give the terminal to another program of this machine."""
NOT_KEPT: Final = frozenset({"processes"})
"""Actions of keys that show what is not kept of a session."""
_CHANGED: Final = {
    "quit_session": "Close the screen; the session is not touched.",
    "tuning": "Show the tuning.",
    "detach": "Close the screen; the session is not touched.",
}
"""The help of keys that do less on a screen that only looks."""


class Permissions(NamedTuple):
    """What the keys of an app may do."""

    readonly: bool = False
    """Whether it only looks."""
    web: bool = False
    """Whether it is drawn in a browser."""
    past: str = ""
    """Why nothing can be changed while it shows the past, in a sentence; empty in the present."""

    @property
    def looks(self) -> bool:
        """Whether nothing can be changed from it."""
        return self.readonly or bool(self.past)

    def why_not(self, action: str) -> str:
        """Why an action, `name` or `name(arguments)`, is not done here, in a sentence; empty where it is."""
        name = action.partition("(")[0].rpartition(".")[2]
        if name in STEERING and self.looks:
            return self.past or "This screen is read-only: it changes nothing."
        if self.past and name in NOT_KEPT:
            return "The processes on the GPUs are not kept."
        return "A browser has no terminal for that." if self.web and name in TERMINAL else ""

    def allowed(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Those of `keys` that do something here."""
        found = (key for key in keys if not self.why_not(key.action))
        if not self.looks:
            return tuple(found)
        return tuple(key._replace(help=_CHANGED.get(key.action, key.help)) for key in found)


def permissions_of(app: App[object]) -> Permissions:
    """Those of `app`; all where it does not say."""
    found = getattr(app, "permissions", None)
    return found if isinstance(found, Permissions) else Permissions()
