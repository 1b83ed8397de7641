"""The messages between a session's engine and a node's agent: what a slot is to run, and how far that is.

Both are complete states: the next message replaces one that is lost, and repeating one changes nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gmg_tui import model
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop
from gmg_tui.engine.attempts.task import Task
from gmg_tui.model import Rank
from gmg_tui.scripts.torchrun import Meeting


class Assignment(Struct, frozen=True, omit_defaults=True):
    """What a slot is to run: one attempt. The session's engine decides whether another follows."""

    key: int
    """The attempt's, unique in the session. An assignment with another key replaces it."""
    task: Task
    """With the arguments, the environment and the number of this attempt."""
    log: str
    """A path in the session's folder or, if the node does not see that, in the agent's."""
    rank: Rank | None = None
    meeting: Meeting | None = None
    """Where a rank meets the others of its group."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """The signals to pass on to the process, in their order."""


class AttemptReport(Struct, frozen=True, omit_defaults=True):
    """An attempt at one moment; `key` is that of its `Assignment`."""

    key: int
    view: model.Worker
    result: dict[str, Any] = {}
    """What it has reported by `gmg:result` lines."""
    unready: str | None = None
    activity: RankActivity | None = None
    """Of a rank only. Moments are seconds before the report."""
    outcome: Outcome | None = None
    """How it has ended; None before."""


class Report(Struct, frozen=True, omit_defaults=True):
    """All attempts of a node."""

    attempts: tuple[AttemptReport, ...] = ()
    address: tuple[str, int] = ("", 0)
    """Where ranks can meet: the address by which other machines reach this one, and a free port; empty if unknown."""
    ended: bool = False
    """True if the agent was asked to end, and nothing runs."""
