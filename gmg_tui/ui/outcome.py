"""The end of the interface, for the command line."""

from typing import NamedTuple

from gmg_tui.model import Session, Snapshot


class Outcome(NamedTuple):
    """The way the interface ended, and the session as it was then."""

    how: str
    """`ended`: all workers had; `stopped`: they were stopped from here; `detached`: they keep running; `lost`: the engine is
    gone; `looked`: it had ended before the screen was opened."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """The reason why the engine was lost."""
