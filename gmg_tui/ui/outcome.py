"""The result of the interface, for the command line."""

from typing import NamedTuple

from gmg_tui.model import Session, Snapshot


class Outcome(NamedTuple):
    """The reason for leaving the interface, and the session's state at that time."""

    kind: str
    """One of `ended` (all workers have ended), `stopped` (the user stopped them), `detached` (they keep running),
    `lost` (the engine is gone) and `viewed` (the session had already ended)."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """The reason why the engine was lost; empty if it was not."""
