"""What a client and the engine say to each other, and how a message is framed on the socket.

A frame is its length, four bytes, big-endian, then one message in MessagePack. The client speaks first, with `Hello`;
the engine answers with `Welcome` and from then on sends `Update` when something changed, `Lines` for the followed
workers, and one `Answer` to each request that carries an `id`. The engine keeps no queue for a client that does not
read: such a client misses snapshots and lines (a gap in the line numbers tells), and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum

import msgspec
from msgspec import Struct

from gmg_tui.model import Details, QueueAction, QueueView, Series, Session, Snapshot

VERSION = 2
"""Both sides must have the same."""
MAX_REQUEST_BYTES = 1 << 20
"""A longer message from a client ends its connection."""
MAX_MESSAGE_BYTES = 64 << 20
"""A longer message from an engine ends the connection."""
_LENGTH_BYTES = 4


class Action(StrEnum):
    """What a person can do to workers."""

    RESTART = "restart"
    """Stop the process if there is one, in order, then start the next attempt."""
    STOP = "stop"
    """SIGINT, then SIGTERM, then SIGKILL, each after its wait."""
    KILL = "kill"
    """SIGKILL at once."""


class Hello(Struct, frozen=True, tag=True):
    """The first message of a client."""

    version: int
    program: str = ""
    """`gmg_tui.__version__` of the client."""


class Follow(Struct, frozen=True, tag=True):
    """From now on send the lines of these workers, and of no others."""

    slots: tuple[str, ...]
    tail: int = 0
    """How many of the lines that are already there to begin with."""


class Act(Struct, frozen=True, tag=True):
    """Do something to some workers."""

    id: int
    action: Action
    slots: tuple[str, ...]


class Edit(Struct, frozen=True, tag=True):
    """Give workers other arguments and environment (placeholders not filled in), and restart them."""

    id: int
    slots: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]


class AskDetails(Struct, frozen=True, tag=True):
    """Answer with the `Details` of a worker."""

    id: int
    slot: str


class AskSeries(Struct, frozen=True, tag=True):
    """Answer with the `Series` of a worker over its whole life."""

    id: int
    slot: str


class EndProcess(Struct, frozen=True, tag=True):
    """End a process on a card that is not this session's: SIGTERM, or SIGKILL."""

    id: int
    slot: str
    """The slot whose card it is on."""
    pid: int
    kill: bool = False


class End(Struct, frozen=True, tag=True):
    """Stop all workers; the engine ends when they have, and no client is left."""

    id: int
    kill: bool = False
    """At once, by SIGKILL."""


class AskQueue(Struct, frozen=True, tag=True):
    """Answer with a part of the queue."""

    id: int
    first: int = 0
    """How many records to pass over."""
    count: int = 100


class ActOnJobs(Struct, frozen=True, tag=True):
    """Do something to jobs of the queue."""

    id: int
    action: QueueAction
    jobs: tuple[int, ...]
    """Their numbers."""


class UseSlot(Struct, frozen=True, tag=True):
    """Let jobs start on a slot, or on none of its card's any more; a job that runs there goes on."""

    id: int
    slot: str
    used: bool


Request = Hello | Follow | Act | Edit | AskDetails | AskSeries | EndProcess | End | AskQueue | ActOnJobs | UseSlot


class Welcome(Struct, frozen=True, tag=True):
    """The first message of the engine."""

    version: int
    session: Session
    snapshot: Snapshot
    recent: tuple[Series, ...]
    """The last minutes of each worker."""


class Update(Struct, frozen=True, tag=True):
    """The state of the session."""

    snapshot: Snapshot


class Lines(Struct, frozen=True, tag=True):
    """Lines of one worker's output, cleaned (`gmg_tui.text.clean`), in order."""

    slot: str
    first: int
    """Number of the first of them, from 0, over all attempts. A gap to the last one sent: lines were left out."""
    lines: tuple[str, ...]


class Answer(Struct, frozen=True, tag=True):
    """The answer to the request with this `id`."""

    id: int
    error: str | None = None
    """One line; None when it was done."""
    details: Details | None = None
    series: Series | None = None
    queue: QueueView | None = None


class Bye(Struct, frozen=True, tag=True):
    """The engine closes the connection."""

    reason: str


Message = Welcome | Update | Lines | Answer | Bye

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ProtocolError(Exception):
    """The other side said something that is no message."""


def frame(message: Request | Message) -> bytes:
    """The bytes that carry `message`."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next message of a client.

    Raises:
        ProtocolError: It is none, or longer than `MAX_REQUEST_BYTES`.
        EOFError: The client has gone (`asyncio.IncompleteReadError` is one).
    """
    body = await _read(reader, MAX_REQUEST_BYTES)
    try:
        return _requests.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:  # the latter from thousands of lists in one another
        raise ProtocolError(str(error)) from error


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message of the engine.

    Raises:
        ProtocolError: It is none, or longer than `MAX_MESSAGE_BYTES`.
        EOFError: The engine has gone (`asyncio.IncompleteReadError` is one).
    """
    body = await _read(reader, MAX_MESSAGE_BYTES)
    try:
        return _messages.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(str(error)) from error


async def _read(reader: asyncio.StreamReader, limit_bytes: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if length > limit_bytes:
        raise ProtocolError(f"a message of {length:,} bytes")
    return await reader.readexactly(length)
