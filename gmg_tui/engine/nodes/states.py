"""What a slot of a node is to run, as the session's engine wants it, and what it runs, as the node's agent reports it.

Both are whole states: what is lost on the way is sent again, and what comes twice does no harm.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gmg_tui import model
from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.workers.member import Outcome, RankSeen
from gmg_tui.model import Rank


class Stop(Struct, frozen=True, omit_defaults=True):
    """As `Worker.stop`."""

    kill: bool = False
    reason: str | None = None


class Wanted(Struct, frozen=True, omit_defaults=True):
    """What a slot is to run: one attempt of a worker. Whether another follows is the session's engine's decision."""

    key: int
    """Of the worker; no other of the session has it. It replaces one with another key."""
    turn: int
    """The number of the attempt among those that were wanted of this worker, from 1."""
    task: Task
    """With the arguments and the environment of this attempt."""
    log: str
    """A path in the session's folder, or where that is not visible in the agent's."""
    rank: Rank | None = None
    meeting: Meeting | None = None
    """Of a rank: where it meets the others."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """Those that were passed on, in their order."""
    carried: bool = False
    """As `Worker.run_with_group`."""
    ends_with_group: bool = False
    """As `Worker.end_with_group`."""
    over: bool = False
    """Whether the attempt has ended: an agent that has not run it does not begin it."""


class WorkerReport(Struct, frozen=True, omit_defaults=True):
    """A worker at one moment; `key` and `turn` are those of `Wanted`."""

    key: int
    turn: int
    view: model.Worker
    result: dict[str, Any] = {}
    """As `Worker.result`."""
    unready: str | None = None
    out_dir: str | None = None
    carried: bool = False
    seen: RankSeen | None = None
    """Of a rank only. Moments are seconds before the report."""
    outcome: Outcome | None = None
    """How the attempt has ended; None before."""


class Report(Struct, frozen=True, omit_defaults=True):
    """All workers of a node."""

    workers: tuple[WorkerReport, ...] = ()
    address: tuple[str, int] = ("", 0)
    """Where ranks may meet: the address by which other machines reach this one, and a port that is free; 0 for none."""
    ended: bool = False
    """Whether the agent was asked to end, and nothing runs."""


_encoder = msgspec.msgpack.Encoder()
_wanted: msgspec.msgpack.Decoder[Wanted | None] = msgspec.msgpack.Decoder(Wanted | None)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def encode(state: Wanted | Report | None) -> msgspec.Raw:
    """The bytes of a state."""
    return msgspec.Raw(_encoder.encode(state))


def wanted_of(body: msgspec.Raw) -> Wanted | None:
    """What a slot is to run; None for nothing. Raises `msgspec.MsgspecError`."""
    return _wanted.decode(body)


def report_of(body: msgspec.Raw) -> Report:
    """What an agent reports. Raises `msgspec.MsgspecError`."""
    return _reports.decode(body)
