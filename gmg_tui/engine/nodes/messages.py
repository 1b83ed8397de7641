"""What the session's engine and an agent say to each other, within the frames of `gmg_tui.protocol`."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gmg_tui import model
from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.workers.member import Outcome
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.model import Attempt, AttemptReport, Progress, Rank

# To an agent. A worker is named by its key, which no other worker of the session has.


class Assign(Struct, frozen=True, tag=True, omit_defaults=True):
    """Make a worker on a slot, in place of the one that was there."""

    key: int
    slot: str
    task: Task
    log: str
    """A path in the session's folder, or where that is not seen in the agent's."""
    rank: Rank | None = None
    memory_kept: str | None = None


class Dismiss(Struct, frozen=True, tag=True):
    """Nobody needs the worker any more; what still runs is killed."""

    key: int


class Restart(Struct, frozen=True, tag=True):
    """As `SlotWorker.restart`."""

    key: int


class Edit(Struct, frozen=True, tag=True):
    """As `SlotWorker.edit`."""

    key: int
    args: tuple[str, ...]
    env: dict[str, str]


class Stop(Struct, frozen=True, tag=True, omit_defaults=True):
    """As `SlotWorker.stop`."""

    key: int
    kill: bool = False
    reason: str | None = None


class PassOn(Struct, frozen=True, tag=True):
    """As `SlotWorker.pass_on`."""

    key: int
    number: int


class EndWithGroup(Struct, frozen=True, tag=True):
    """As `SlotWorker.end_with_group`."""

    key: int


class RunWithGroup(Struct, frozen=True, tag=True):
    """As `SlotWorker.run_with_group`."""

    key: int


class Due(Struct, frozen=True, tag=True):
    """The next attempt of the rank's group is due."""

    key: int


class Met(Struct, frozen=True, tag=True):
    """The rank's group has met for the `number`th time, from 1; None: the attempt was called off."""

    key: int
    number: int
    meeting: Meeting | None


class Parted(Struct, frozen=True, tag=True):
    """All ranks of the group have ended for the `number`th time: why this one has failed, and whether another follows."""

    key: int
    number: int
    failure: Failure | None
    pending: bool


class CalledOff(Struct, frozen=True, tag=True):
    """The attempt of the rank's group is being ended."""

    key: int


class FreePort(Struct, frozen=True, tag=True):
    """Find a port at which a group's store may listen, and the address by which other nodes reach it."""

    ask: int
    """To be named in the answer."""


class Fetch(Struct, frozen=True, tag=True):
    """Send a part of a log, a path in the agent's folder, from `offset` bytes on."""

    ask: int
    """To be named in the answer."""
    path: str
    offset: int


class Collected(Struct, frozen=True, tag=True):
    """The session has all of the agent's logs: its folder goes with it."""


Order = (
    Assign
    | Dismiss
    | Restart
    | Edit
    | Stop
    | PassOn
    | EndWithGroup
    | RunWithGroup
    | Due
    | Met
    | Parted
    | CalledOff
    | FreePort
)


class Lead(Struct, frozen=True, tag=True):
    """The first message on a connection: who speaks is the session's engine."""

    session_id: str


class Numbered(Struct, frozen=True, tag=True):
    """An order, numbered from 1; an agent takes each once."""

    number: int
    order: Order


ToAgent = Lead | Numbered | Fetch | Collected

# From an agent.


class Ready(Struct, frozen=True, tag=True):
    """The answer to `Lead`."""

    agent_id: str
    """Another one means that the agent is another, and knows of nothing."""
    taken: int
    """The number of the last order that was taken; 0 for none."""
    allowed: tuple[tuple[str, ...], ...]
    """In a sweep, for each batch the slots that its jobs may use."""
    genesis: str
    """The versions of Genesis and its compiler, where they can be told."""
    cache: str
    """Names the mesh cache: the same for nodes that share it."""
    clock_s: float
    """Unix time."""
    keeps_logs: bool = False
    """Whether its workers' logs are in a folder of its own, as it does not see the session's."""


class WorkerReport(Struct, frozen=True, omit_defaults=True):
    """A worker at one moment."""

    key: int
    view: model.Worker
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    attempt: AttemptReport | None = None
    earlier: tuple[Attempt, ...] = ()
    """The last attempts before that one, the oldest first."""
    first_started: float | None = None
    failure: Failure | None = None
    unready: str | None = None
    out_dir: str | None = None
    concluded: bool = False
    carried: bool = False
    fps_of_group: bool = False
    progress: Progress | None = None
    pids: tuple[int, ...] = ()
    memory: tuple[str | None, str | None, str | None, str | None] = (None, None, None, None)
    """`KeptMemory.awaited` and `still_taken`, each for a GPU that is not shared and for one that is."""
    seen: RankSeen | None = None
    """Of a rank only."""
    blocks: Blocks | None = None
    """As `SlotWorker.blocks` gives them since 0; in a tuning only."""
    arrived: int = 0
    """How often the rank was ready to meet its group."""
    parted: int = 0
    """How often it has ended."""
    outcome: Outcome | None = None
    """Of the last time."""
    exit_codes: tuple[int, ...] = ()
    """Of the processes that have ended since the worker was assigned, where it is a rank."""
    calls_off: int = 0
    """How often the user has ended the rank before it had a process."""


class Report(Struct, frozen=True, tag=True, omit_defaults=True):
    """The workers that are not as they were in the last report on this connection."""

    now: float
    """The agent's monotonic clock, seconds."""
    taken: int
    """The number of the last order that was taken."""
    gate_open: bool = False
    """Whether all of the node's workers may build scenes."""
    workers: tuple[WorkerReport, ...] = ()


class Port(Struct, frozen=True, tag=True):
    """The answer to `FreePort`; port 0 where there is none."""

    ask: int
    address: str
    port: int


class Piece(Struct, frozen=True, tag=True):
    """The answer to `Fetch`; empty at the file's end, and where there is no such file."""

    ask: int
    data: bytes
    file: int = 0
    """Its inode: another one stands in the file's place, as where its middle was cut out."""


FromAgent = Ready | Report | Port | Piece

_encoder = msgspec.msgpack.Encoder()
_orders: msgspec.msgpack.Decoder[ToAgent] = msgspec.msgpack.Decoder(ToAgent)
_reports: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


def encode(message: ToAgent | FromAgent) -> msgspec.Raw:
    """The bytes of a message."""
    return msgspec.Raw(_encoder.encode(message))


def to_agent(body: msgspec.Raw) -> ToAgent:
    """What the session's engine says. Raises `msgspec.MsgspecError`."""
    return _orders.decode(body)


def from_agent(body: msgspec.Raw) -> FromAgent:
    """What an agent says. Raises `msgspec.MsgspecError`."""
    return _reports.decode(body)
