"""The result of the interface, for the command line."""

from typing import NamedTuple

from gmg_tui.model import Session, Snapshot


class Outcome(NamedTuple):
    """The way the interface ended, and the session's state at that time."""

    how: str
    """`ended`: all workers have ended; `stopped`: they were stopped from here; `detached`: they keep running; `lost`: the
    engine is gone; `looked`: the session had ended before."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """The reason the engine was lost."""
