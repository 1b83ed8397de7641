"""The messages between client and engine, and their framing on the socket.

A frame is its length, four bytes, big-endian, then one message in MessagePack. The client sends the first message, `Hello`;
the engine answers with `Welcome` and from then on sends `Update` when something changed, `Lines` for the followed
workers, and one `Answer` to each `Numbered` question. The engine keeps no queue for a client that does not
read: it misses snapshots and lines (visible as a gap in the line numbers), and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gmg_tui.model import Curve, JobRecord, QueueAction, Series, Session, Snapshot
from gmg_tui.model.encoding import encoded

VERSION = 7
"""Both sides must have the same."""
MAX_REQUEST_BYTES = 1 << 20
"""A longer message from a client ends its connection."""
MAX_MESSAGE_BYTES = 64 << 20
"""A longer message from an engine ends the connection."""
_LENGTH_BYTES = 4

_T = TypeVar("_T")


class Action(StrEnum):
    """The user's actions on workers."""

    RESTART = "restart"
    """Stop the process gracefully, if there is one, then start the next attempt."""
    STOP = "stop"
    """SIGINT, then SIGTERM, then SIGKILL, each after its wait."""
    KILL = "kill"
    """SIGKILL at once."""


class Topic(StrEnum):
    """Topics of a question, and the type of the answer's value."""

    DETAILS = "details"
    """`Details` of a worker."""
    SERIES = "series"
    """`Series` of a worker over its whole life."""
    CURVES = "curves"
    """`Curve`s of a worker's newest attempt by name: of one metric, or of all in at most `count` points each."""
    QUEUE = "queue"
    """`JobRecord`s, a part of the queue."""
    TRIED = "tried"
    """`Tried`, all that was tried in the session."""
    SPEED = "speed"
    """`SpeedFacts` of a worker; they take a second."""
    EVENTS = "events"
    """`Occurrence`s, the newest of the session."""


class Hello(Struct, frozen=True, tag=True):
    """The first message of a client."""

    version: int
    program: str = ""
    """`gmg_tui.__version__` of the client."""
    session: str = ""
    """The id of the session that is meant; empty for whatever session it is."""
    readonly: bool = False
    """True for a read-only connection: the engine then refuses every change."""


class Follow(Struct, frozen=True, tag=True):
    """From now on send the lines of these workers, and of no others."""

    slots: tuple[str, ...]
    tail: int = 0
    """With how many of the existing lines to begin."""


class Seen(Struct, frozen=True, omit_defaults=True):
    """The state of a slot that the user saw; by the time the request arrives, something else may run there."""

    job: int | None = None
    """The job's number; None if no job held the slot, and in a plain run."""
    attempt: int | None = None
    """The attempt's number; None for any."""


class Act(Struct, frozen=True, tag=True):
    """Act on workers."""

    action: Action
    slots: tuple[str, ...]
    seen: dict[str, Seen] = {}
    """By slot; a slot without an entry is meant with whatever is on it."""


class Edit(Struct, frozen=True, tag=True):
    """Give workers other arguments and environment (placeholders not filled in), and restart them."""

    slots: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    seen: dict[str, Seen] = {}
    """As in `Act`."""


class Ask(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answer with what is known about a `topic`."""

    topic: Topic
    slot: str = ""
    """The worker's; unused for `QUEUE` and `TRIED`."""
    first: int = 0
    """Position of the first job in the queue."""
    count: int = 0
    """Maximum number of jobs, or of points of a curve; 0 for all points."""
    name: str = ""
    """The metric's; empty for all."""

    def select(self, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """Returns the curves that the question is about."""
        return {name: each.thinned(self.count) for name, each in curves.items() if self.name in ("", name)}


class End(Struct, frozen=True, tag=True):
    """Stop all workers; the engine ends when they have, and no client is left."""

    kill: bool = False
    """At once, by SIGKILL."""


class ActOnJobs(Struct, frozen=True, tag=True):
    """Act on jobs of the queue."""

    action: QueueAction
    jobs: tuple[int, ...]
    """Their numbers."""


class AddJobs(Struct, frozen=True, tag=True):
    """Queue jobs behind all others."""

    jobs: tuple[JobRecord, ...]
    """With names that no job has; the engine numbers them."""


class UseSlot(Struct, frozen=True, tag=True):
    """Enable a slot, and its GPU's others, for jobs, or disable them; running jobs continue."""

    slot: str
    used: bool


class ReadStacks(Struct, frozen=True, tag=True):
    """Answer with the Python `Stacks` of a worker, or of all ranks of its group; it may take seconds."""

    slot: str


class FindHotSpot(Struct, frozen=True, tag=True):
    """Answer with the `HotSpot` of a worker's script, from its stacks over two seconds; None if there is none."""

    slot: str


class SetSlot(Struct, frozen=True, tag=True):
    """From the session's engine to a node's agent: what a slot is to run, replacing what was sent before."""

    slot: str
    assignment: msgspec.Raw
    """An `Assignment` of `gmg_tui.engine.nodes.states`, or None."""


class ReadLog(Struct, frozen=True, tag=True):
    """From the session's engine to a node's agent: answer with a part of a log; what is before `offset` has arrived."""

    path: str
    """In the session's folder."""
    offset: int


Command = Act | Edit | End | ActOnJobs | AddJobs | UseSlot | SetSlot
"""Requests that change something: carried out at once, in their order."""
Question = Ask | ReadStacks | FindHotSpot | ReadLog
"""Requests for what is known: answered in any order, some only after seconds."""


class Numbered(Struct, frozen=True, tag=True):
    """A command or question, and the number that its answer carries."""

    id: int
    question: Command | Question


Request = Hello | Follow | Numbered

READONLY_QUESTIONS = (Ask,)
"""The questions of read-only connections; without stacks, since the workers are sent a signal for them."""


class Welcome(Struct, frozen=True, tag=True):
    """The first message of the engine."""

    session: Session
    snapshot: Snapshot
    recent: tuple[Series, ...]
    """The last minutes of each worker."""
    readonly: bool = False
    """True if the engine refuses every change over this connection."""


class Update(Struct, frozen=True, tag=True, omit_defaults=True):
    """The state of the session."""

    snapshot: Snapshot
    partial: bool = False
    """True if `snapshot.workers` are only the changed ones; `EngineClient` adds the others."""


class Lines(Struct, frozen=True, tag=True):
    """Lines of one worker's output, cleaned (`gmg_tui.model.text.clean`), in order."""

    slot: str
    first: int
    """Number of the first, from 0, over all attempts. A gap after the last one sent means lost lines."""
    lines: tuple[str, ...]


class LogPart(Struct, frozen=True, omit_defaults=True):
    """A part of a log; empty at its end."""

    data: bytes = b""
    file: int = 0
    """Its inode: another file replaces it once its middle was cut out."""


class Answer(Struct, frozen=True, tag=True):
    """The answer to the question with this `id`."""

    id: int
    error: str | None = None
    """One line; None when it was done."""
    value: Any = None
    """The answer, decoded as plain data; `msgspec.convert` gives it the type that the request stands for."""


class Bye(Struct, frozen=True, tag=True):
    """The engine closes the connection."""

    reason: str


class SlotReports(Struct, frozen=True, tag=True):
    """From a node's agent to the session's engine, after each `Update`: all about its workers."""

    body: msgspec.Raw
    """A `Report` of `gmg_tui.engine.nodes.states`."""


Message = Welcome | Update | Lines | Answer | Bye | SlotReports

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ProtocolError(ConnectionError):
    """The other side sent something that is not a message."""


def frame(message: Request | Message) -> bytes:
    """Returns the bytes that carry `message`."""
    body = encoded(_encoder.encode, message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Returns the next message of a client.

    Raises:
        ProtocolError: It is not a request, or longer than `MAX_REQUEST_BYTES`.
        EOFError: The client has gone (`asyncio.IncompleteReadError` is one).
    """
    return await _read(reader, _requests, MAX_REQUEST_BYTES)


async def read_message(reader: asyncio.StreamReader, max_bytes: int = MAX_MESSAGE_BYTES) -> Message:
    """Returns the next message of the engine. Raises as `read_request` does, beyond `max_bytes`."""
    return await _read(reader, _messages, max_bytes)


async def _read(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[_T], limit_bytes: int) -> _T:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if length > limit_bytes:
        raise ProtocolError(f"a message of {length:,} bytes")
    body = await reader.readexactly(length)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:  # the latter from thousands of nested lists
        raise ProtocolError(str(error)) from error
