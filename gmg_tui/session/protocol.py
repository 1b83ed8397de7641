"""The messages between client and engine, and their framing on the socket.

A frame is a length (four bytes, big-endian) and a message in MessagePack. The client begins with `Hello`; the engine
answers with `Welcome`, then sends `Update` after changes, `Lines` on request, and an `Answer` to each `Numbered`
request. The engine keeps no queue for a slow client, which misses snapshots and lines (a gap in the line numbers).
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from gmg_tui.model import Curve, JobRecord, QueueAction, Series, Session, Snapshot
from gmg_tui.model.text import MAX_LINE_BYTES, encode_lossy

VERSION = 10
"""Version of the protocol, which must be the same on both sides."""
MAX_REQUEST_BYTES = 1 << 20
"""Maximum size of a client's message."""
MAX_MESSAGE_BYTES = 64 << 20
"""Maximum size of an engine's message."""
MAX_LINES = 8000
"""Maximum number of lines in a message."""
_LENGTH_BYTES = 4

_T = TypeVar("_T")


class Action(StrEnum):
    """A user's action on workers."""

    RESTART = "restart"
    """Stop the process gracefully, then start the next attempt."""
    STOP = "stop"
    """Send SIGINT, then SIGTERM, then SIGKILL, with a wait after each."""
    KILL = "kill"


class Topic(StrEnum):
    """Topics of `Ask`; `client.Source` has a method for each."""

    DETAILS = "details"
    SERIES = "series"
    CURVES = "curves"
    QUEUE = "queue"
    TRIED = "tried"
    SPEED = "speed"
    EVENTS = "events"
    STACKS = "stacks"
    HOT_SPOT = "hot spot"


class Hello(Struct, frozen=True, tag=True):
    """The first message of a client."""

    version: int
    program: str = ""
    """`gmg_tui.__version__` of the client."""
    session: str = ""
    """The expected session's id; empty for any."""
    readonly: bool = False
    """True if the engine must refuse every change."""


class Watch(Struct, frozen=True, tag=True):
    """Start workers that wait for a viewer."""

    lines: bool = False
    """True to receive the workers' lines, starting with the oldest in memory."""


class Seen(Struct, frozen=True, omit_defaults=True):
    """A slot as the user saw it; something else may be running there when the request arrives."""

    job: int | None = None
    """Number of the slot's job, if any; a plain run has none."""
    attempt: int | None = None
    """Number of the job's attempt; None for any."""


class Act(Struct, frozen=True, tag=True):
    """Act on workers."""

    action: Action
    slots: tuple[str, ...]
    seen: dict[str, Seen] = {}
    """What the user saw, by slot; a slot without an entry may be running any job."""


class Edit(Struct, frozen=True, tag=True):
    """Restart workers with other arguments and environment variables, which may contain placeholders."""

    slots: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    seen: dict[str, Seen] = {}


class Ask(Struct, frozen=True, tag=True, omit_defaults=True):
    """Answer a question about a topic."""

    topic: Topic
    slot: str = ""
    first: int = 0
    """Position of the first job in the queue."""
    count: int = 0
    """Maximum number of jobs, or of points per curve; 0 for all points."""
    name: str = ""
    """Name of the metric; empty for all."""

    @property
    def is_harmless(self) -> bool:
        """True if read-only clients may ask it; False for stacks, because reading them signals the worker."""
        return self.topic not in (Topic.STACKS, Topic.HOT_SPOT)

    def select(self, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """Returns the requested curves, thinned to `count` points."""
        return {name: curve.thinned(self.count) for name, curve in curves.items() if self.name in ("", name)}


class End(Struct, frozen=True, tag=True):
    """Stop or kill all workers; the engine exits once they have ended and its last client has detached."""

    kill: bool = False


class ActOnJobs(Struct, frozen=True, tag=True):
    """Act on jobs of the queue, by number."""

    action: QueueAction
    jobs: tuple[int, ...]


class AddJobs(Struct, frozen=True, tag=True):
    """Append jobs with new names to the queue; the engine numbers them."""

    jobs: tuple[JobRecord, ...]


class UseSlot(Struct, frozen=True, tag=True):
    """Enable or bench the GPU of a slot; running jobs continue."""

    slot: str
    used: bool


class SetSlot(Struct, frozen=True, tag=True):
    """From the session's engine to an agent: replace the assignment of a slot."""

    slot: str
    assignment: msgspec.Raw
    """An `Assignment` of `gmg_tui.engine.nodes.states`, or None."""


class ReadLog(Struct, frozen=True, tag=True):
    """From the session's engine to an agent: answer with a chunk of a log from `offset`."""

    path: str
    """Relative to the session's folder."""
    offset: int
    """Counted in all bytes ever written to the log, including those since cut out."""


Command = Act | Edit | End | ActOnJobs | UseSlot | SetSlot
"""Requests that change something, carried out in order."""
Question = Ask | ReadLog | AddJobs
"""Requests for information, or that wait for the store; answered in any order."""


class Numbered(Struct, frozen=True, tag=True):
    """A request, and the number to put in its answer."""

    id: int
    request: Command | Question


Request = Hello | Watch | Numbered


class Welcome(Struct, frozen=True, tag=True):
    """The first message of the engine."""

    session: Session
    snapshot: Snapshot
    recent: tuple[Series, ...]
    """Metrics of each worker's last few minutes."""
    readonly: bool = False
    """True if the engine refuses every change."""


class Update(Struct, frozen=True, tag=True, omit_defaults=True):
    """The state of the session."""

    snapshot: Snapshot
    partial: bool = False
    """True if `snapshot` has only the changed workers."""


class Lines(Struct, frozen=True, tag=True):
    """Lines of a worker's output, cleaned by `gmg_tui.model.text.clean`."""

    slot: str
    first: int
    """Number of the first line, from 0, over all attempts; a gap means dropped lines."""
    lines: Annotated[tuple[Annotated[str, Meta(max_length=2 * MAX_LINE_BYTES)], ...], Meta(max_length=MAX_LINES)]


class LogChunk(Struct, frozen=True, omit_defaults=True):
    """A chunk of a log; empty at the log's end."""

    data: bytes = b""
    end: int = 0
    """The chunk's end, counted like `ReadLog.offset`; bytes that were cut out are missing from `data`."""
    file: int = 0
    """The file's inode."""


NOTHING: Final = msgspec.Raw(b"\xc0")
"""None, as MessagePack."""


class Answer(Struct, frozen=True, tag=True):
    """The answer to the request with this `id`."""

    id: int
    error: str | None = None
    """One line; None if the request succeeded."""
    value: msgspec.Raw = NOTHING
    """Decoded by the caller that asked."""

    @classmethod
    def with_value(cls, number: int, value: object) -> Self:
        """Returns the answer with this value. Raises the encoder's errors if it cannot be sent."""
        return cls(number, value=msgspec.Raw(encode_lossy(_encoder.encode, value)))


class Bye(Struct, frozen=True, tag=True):
    """The engine is closing the connection."""

    reason: str


class SlotReports(Struct, frozen=True, tag=True):
    """From an agent to the session's engine, after each `Update`: the state of its workers."""

    body: msgspec.Raw
    """A `Report` of `gmg_tui.engine.nodes.states`."""


Message = Welcome | Update | Lines | Answer | Bye | SlotReports

_encoder = msgspec.msgpack.Encoder()
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_report_decoder = msgspec.msgpack.Decoder(SlotReports)


class ProtocolError(ConnectionError):
    """The other side sent an invalid message."""


def frame(message: Request | Message) -> bytes:
    """Encodes a message as a frame."""
    body = encode_lossy(_encoder.encode, message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Returns the next message of a client. Raises `ProtocolError` if it is invalid, and `EOFError` at the end."""
    return _decode(_request_decoder, await _read_body(reader, MAX_REQUEST_BYTES))


async def read_message(
    reader: asyncio.StreamReader, max_bytes: int = MAX_MESSAGE_BYTES, max_report_bytes: int = 0
) -> Message:
    """Returns the next message of the engine, of up to `max_bytes`, or `max_report_bytes` for a `SlotReports`.

    Raises the same errors as `read_request`.
    """
    body = await _read_body(reader, max(max_bytes, max_report_bytes))
    return _decode(_message_decoder, body) if len(body) <= max_bytes else _decode(_report_decoder, body)


async def _read_body(reader: asyncio.StreamReader, limit_bytes: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if length > limit_bytes:
        raise ProtocolError(f"a message of {length:,} bytes")
    return await reader.readexactly(length)


def _decode(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:  # RecursionError: thousands of nested lists
        raise ProtocolError(str(error)) from error
