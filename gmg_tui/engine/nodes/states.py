"""The messages between a session's engine and a node's agent: what a slot is to run, and what the node's workers do.

Both are complete states: the next message replaces one that is lost, and repeating one changes nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gmg_tui import model
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.workers.member import Outcome, RankSeen
from gmg_tui.model import Rank
from gmg_tui.scripts.torchrun import Meeting


class Stop(Struct, frozen=True, omit_defaults=True):
    """The arguments of `Worker.stop`."""

    kill: bool = False
    reason: str | None = None


class Assignment(Struct, frozen=True, omit_defaults=True):
    """What a slot is to run: one attempt of a worker. The session's engine decides whether another follows."""

    key: int
    """The worker's, unique in the session. An assignment with another key replaces the worker."""
    serial: int
    """Counts the attempts that were assigned to this worker, from 1."""
    task: Task
    """With the arguments and the environment of this attempt."""
    log: str
    """A path in the session's folder or, where the node does not see that, in the agent's."""
    rank: Rank | None = None
    meeting: Meeting | None = None
    """Where a rank meets the others of its group."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """The signals to pass on to the process, in their order."""
    ends_with_group: bool = False
    """Whether another rank of its group has failed (`Worker.end_with_group`)."""
    ended: bool = False
    """Whether the attempt has ended: an agent that has not run it must not start it."""


class WorkerReport(Struct, frozen=True, omit_defaults=True):
    """A worker at one moment; `key` and `serial` are those of its `Assignment`."""

    key: int
    serial: int
    view: model.Worker
    result: dict[str, Any] = {}
    """As `Worker.result`."""
    unready: str | None = None
    seen: RankSeen | None = None
    """Of a rank only. Moments are seconds before the report."""
    outcome: Outcome | None = None
    """How the attempt has ended; None before."""


class Report(Struct, frozen=True, omit_defaults=True):
    """All workers of a node."""

    workers: tuple[WorkerReport, ...] = ()
    address: tuple[str, int] = ("", 0)
    """Where ranks can meet: the address by which other machines reach this one, and a free port; 0 for none."""
    ended: bool = False
    """Whether the agent was asked to end, and nothing runs."""
