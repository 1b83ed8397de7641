"""The messages between a session's engine and a node's agent: a slot's attempt, and its progress.

Both are complete states: the next message makes up for a lost one, and repeating one changes nothing.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from gmg_tui import model
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop, Task
from gmg_tui.engine.attempts.curves import MAX_NAMES as MAX_CURVES
from gmg_tui.model.jobs import MAX_NAMES

MAX_PORTS = 8
"""Ports in a report; groups that need more wait for the next report."""


class Assignment(Struct, frozen=True, omit_defaults=True):
    """One attempt for a slot to run. The session's engine decides if another follows."""

    key: int
    """ID of the attempt, unique in the session. An assignment with another key replaces it."""
    task: Task
    """The task with this attempt's arguments, environment and number."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """The signals to pass on to the process, in order."""


class AttemptReport(Struct, frozen=True, omit_defaults=True):
    """An attempt at one moment; `key` is its assignment's."""

    key: int
    view: model.Worker
    result: Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)] = {}
    """The values reported by `gmg:result` lines."""
    unready: str | None = None
    activity: RankActivity | None = None
    """Only for a rank. Moments are seconds before the report."""
    outcome: Outcome | None = None
    """None before its end."""
    curves: Annotated[dict[str, model.Curve], Meta(max_length=MAX_CURVES)] = {}
    """Its metrics over time, sent at intervals and at its end; empty in other reports."""


class Report(Struct, frozen=True, omit_defaults=True):
    """All attempts of a node."""

    attempts: tuple[AttemptReport, ...] = ()
    address: Annotated[str, Meta(pattern=r"\A[\w.:%-]{0,255}\Z")] = ""
    """This machine's address for others; empty if unknown."""
    ports: Annotated[tuple[Annotated[int, Meta(gt=0, lt=1 << 16)], ...], Meta(max_length=MAX_PORTS)] = ()
    """Free ports, each for one group's rendezvous."""
    ended: bool = False
    """True if the agent was asked to end, and nothing runs."""
