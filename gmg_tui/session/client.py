"""A client's requests to a session, and the connection to an engine."""

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count as numbers_from
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import structs

import gmg_tui
from gmg_tui.model import (
    ArgumentResults,
    Curve,
    Details,
    HotSpot,
    JobRecord,
    Occurrence,
    QueueAction,
    Series,
    SpeedFacts,
    Stacks,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.model.run import Session
from gmg_tui.model.snapshot import Snapshot
from gmg_tui.session import check_peer, protocol
from gmg_tui.session.protocol import Answer, Ask, Bye, Command, Lines, Question, Topic, Update, Welcome

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ANSWER_TIMEOUT_S = 10.0
"""Timeout for an answer: engines need milliseconds, but a stopped one (SIGSTOP) never answers."""
_SNAPSHOT_TIMEOUT_S = 3.0
"""Timeout for a snapshot for `ls` or a scrape: Prometheus gives up on a scrape after 10 s."""
_CLOSE_TIMEOUT_S = 1.0
"""Timeout for sending the last message on close."""
_MISSING_SOCKET_TIMEOUT_S = 6.0
"""Timeout for a missing socket: an engine recreates a deleted one within 5 s."""
_POLL_S = 0.1


class Source(ABC):
    """A running or ended session: its requests and events. Requests raise `GmgError` if refused or unanswered.

    Attributes:
        welcome: The session, and its state when the source was opened.
        ended: True if the engine has exited, so nothing can change.
        loss: One line about the loss of the session; empty if it was not lost.
    """

    ended = False
    loss = ""

    def __init__(self, welcome: Welcome) -> None:
        self.welcome = welcome

    @abstractmethod
    def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """Yields the session's events; ends with `Bye`. Exactly one task must iterate over it."""

    @abstractmethod
    async def watch(self, *, lines: bool = False) -> None:
        """Starts workers that wait for a viewer; with `lines`, `events` also yields the workers' lines."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnects; the session continues."""

    @abstractmethod
    async def _ask(self, question: Command | Question) -> Any:
        """Returns the value of the answer."""

    async def act(self, action: protocol.Action, *slots: str, seen: Mapping[str, protocol.Seen] = {}) -> None:
        """Acts on workers; `seen` is each slot as the user saw it."""
        await self._ask(protocol.Act(action, slots, dict(seen)))

    async def edit(
        self, slots: tuple[str, ...], args: tuple[str, ...], env: dict[str, str], seen: Mapping[str, protocol.Seen] = {}
    ) -> None:
        """Changes the arguments and environment of workers, and restarts them."""
        await self._ask(protocol.Edit(slots, args, env, dict(seen)))

    async def details(self, slot: str) -> Details:
        """Returns the worker's details."""
        return _convert(Details, await self._ask(Ask(Topic.DETAILS, slot)))

    async def series(self, slot: str) -> Series:
        """Returns the worker's metrics over its whole lifetime."""
        return _convert(Series, await self._ask(Ask(Topic.SERIES, slot)))

    async def curves(self, slot: str, name: str = "", count: int = 0) -> dict[str, Curve]:
        """Returns the newest attempt's curves of all metrics or `name`, each with at most `count` points (0: all)."""
        return _convert(dict[str, Curve], await self._ask(Ask(Topic.CURVES, slot, count=count, name=name)))

    async def queue(self, first: int, count: int) -> tuple[JobRecord, ...]:
        """Returns `count` jobs from position `first`: ended ones first, by time, then running, then waiting ones."""
        return _convert(tuple[JobRecord, ...], await self._ask(Ask(Topic.QUEUE, "", first, count)))

    async def act_on_jobs(self, action: QueueAction, *jobs: int) -> None:
        """Acts on jobs of the queue."""
        await self._ask(protocol.ActOnJobs(action, jobs))

    async def add_jobs(self, *jobs: JobRecord) -> None:
        """Appends jobs to the queue."""
        await self._ask(protocol.AddJobs(jobs))

    async def use_slot(self, slot: str, *, used: bool) -> None:
        """Allows or refuses new jobs on a slot."""
        await self._ask(protocol.UseSlot(slot, used))

    async def tried(self) -> tuple[ArgumentResults, ...]:
        """Returns the results of the arguments tried, newest first."""
        return _convert(tuple[ArgumentResults, ...], await self._ask(Ask(Topic.TRIED)))

    async def occurrences(self) -> tuple[Occurrence, ...]:
        """Returns the session's past events, oldest first."""
        return _convert(tuple[Occurrence, ...], await self._ask(Ask(Topic.EVENTS)))

    async def stacks(self, slot: str) -> tuple[Stacks, ...]:
        """Returns the Python stacks of the worker, or of all ranks of its group."""
        return _convert(tuple[Stacks, ...], await self._ask(Ask(Topic.STACKS, slot)))

    async def speed(self, slot: str) -> SpeedFacts:
        """Measures for a second, and returns the facts about a worker's speed."""
        return _convert(SpeedFacts, await self._ask(Ask(Topic.SPEED, slot)))

    async def hot_spot(self, slot: str) -> HotSpot | None:
        """Samples a worker's stacks for two seconds. Returns the script's hottest function, if any."""
        answer = await self._ask(Ask(Topic.HOT_SPOT, slot))
        return None if answer is None else _convert(HotSpot, answer)

    async def end(self, *, kill: bool = False) -> None:
        """Stops or kills all workers; returns once the engine has accepted the request."""
        await self._ask(protocol.End(kill))


class EngineClient(Source):
    """A connection to an engine's socket."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: Welcome, max_bytes: int
    ) -> None:
        super().__init__(welcome)
        self.max_bytes, self.max_report_bytes, self.max_answer_bytes = max_bytes, 0, max_bytes
        """Maximum sizes of messages, of an agent's reports, and of answers."""
        self._reader, self._writer = reader, writer
        self._numbers = numbers_from(1)
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._gone_reason: str | None = None
        self._workers = welcome.snapshot.workers
        self.on_report: Callable[[msgspec.Raw], None] = lambda _: None
        """Called with an agent's report on its workers."""

    @classmethod
    async def connect(cls, path: Path, session_id: str = "", *, readonly: bool = False) -> Self:
        """Connects to the engine at `path`, which must belong to the session with the id `session_id`, if given.

        With `readonly`, the engine refuses every change. Raises `GmgError` unless its engine answers.
        """
        deadline = time.monotonic() + _MISSING_SOCKET_TIMEOUT_S
        while not os.path.exists(path) and time.monotonic() < deadline:  # noqa: ASYNC110, ASYNC240 - made by another process
            await asyncio.sleep(_POLL_S)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                streams = await asyncio.open_unix_connection(str(path))
                try:
                    check_peer(streams[1].get_extra_info("socket"))
                    return await cls.greet(streams, str(path), session_id, readonly=readonly)
                except BaseException:
                    streams[1].close()
                    raise
        except TimeoutError:
            raise GmgError(f"the engine at {path} does not answer; is it stopped (SIGSTOP)?", 1) from None
        except OSError as error:
            raise GmgError(f"no engine answers at {path}: {_error_clause(error)}", 1) from error

    @classmethod
    async def greet(
        cls,
        streams: Streams,
        name: str,
        session_id: str = "",
        *,
        readonly: bool = False,
        max_bytes: int = protocol.MAX_MESSAGE_BYTES,
    ) -> Self:
        """Greets the engine called `name` over an open connection; otherwise like `connect`, but without a timeout."""
        reader, writer = streams
        try:
            writer.write(protocol.frame(protocol.Hello(protocol.VERSION, gmg_tui.__version__, session_id, readonly)))
            await writer.drain()
            reply = await protocol.read_message(reader, max_bytes)
        except (OSError, EOFError) as error:
            raise GmgError(f"no engine answers at {name}: {_error_clause(error)}", 1) from error
        if isinstance(reply, Welcome):
            return cls(reader, writer, reply, max_bytes)
        text = f"the engine at {name} uses another protocol; update gmg-tui and try again"
        raise GmgError(reply.reason if isinstance(reply, Bye) else text, 1)

    async def events(self) -> AsyncIterator[Update | Lines | Bye]:
        """Yields the engine's events, and receives answers; ends with `Bye`, even if the connection breaks."""
        try:
            while True:
                try:
                    message = await protocol.read_message(self._reader, self.max_bytes, self.max_report_bytes)
                except (OSError, EOFError) as error:
                    message = Bye(_error_clause(error))
                match message:
                    case Answer(id=number):
                        future = self._pending.pop(number, None)
                        if future is not None and not future.done():
                            future.set_result(message)
                    case Bye(reason=reason):
                        self._fail(reason)
                        yield message
                        return
                    case protocol.SlotReports(body=body):
                        self.on_report(body)
                    case Update():
                        yield self._complete(message)
                    case Lines():
                        yield message
                    case Welcome():
                        pass  # always the first message, which greet() reads
        finally:
            self._fail("the connection to the engine was closed")

    def _complete(self, update: Update) -> Update:
        """Returns the update with its unchanged workers filled in."""
        snapshot = update.snapshot
        if update.partial:
            changed = {worker.slot: worker for worker in snapshot.workers}
            workers = tuple(changed.get(worker.slot, worker) for worker in self._workers)
            snapshot = structs.replace(snapshot, workers=workers)
        self._workers = snapshot.workers
        return Update(snapshot)

    async def watch(self, *, lines: bool = False) -> None:
        """Sends a `Watch` request, which gets no answer."""
        await self._send(protocol.Watch(lines))

    async def set_slot(self, slot: str, assignment: msgspec.Raw) -> None:
        """Assigns work to a slot of an agent."""
        await self._ask(protocol.SetSlot(slot, assignment))

    async def read_log(self, path: str, offset: int) -> protocol.LogChunk:
        """Returns a chunk of a log on an agent's node, whose `path` is relative to the session's folder."""
        return _convert(protocol.LogChunk, await self._ask(protocol.ReadLog(path, offset)))

    @property
    def unread_bytes(self) -> int:
        """Number of sent bytes that the kernel's full buffers do not yet accept, because the engine is not reading."""
        return self._writer.transport.get_write_buffer_size()

    async def close(self) -> None:
        """Disconnects; the engine keeps running."""
        self._fail("this client has disconnected")
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()  # the engine is not reading
        except OSError:
            return  # the engine closed it first

    async def _send(self, request: protocol.Request) -> None:
        if self._gone_reason is not None:
            raise GmgError(self._gone_reason, 1)
        try:
            self._writer.write(protocol.frame(request))
            await self._writer.drain()
        except OSError as error:
            raise GmgError(f"the engine is gone: {_error_clause(error)}", 1) from error

    async def _ask(self, question: Command | Question) -> Any:
        number = next(self._numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # sending may fail first
        self._pending[number] = future
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._send(protocol.Numbered(number, question))
                answer = await future
        except TimeoutError as error:
            text = f"the engine has not answered for {ANSWER_TIMEOUT_S:.0f} s; it may still carry this out later"
            raise GmgError(text, 1) from error
        finally:
            self._pending.pop(number, None)
        if answer.error is not None:
            raise GmgError(answer.error, 1)
        if len(answer.value) > self.max_answer_bytes:
            raise GmgError(f"the answer is too long: {len(answer.value):,} bytes", 1)
        return None if answer.value == protocol.NOTHING else answer.value

    def _fail(self, reason: str) -> None:
        self._gone_reason = self._gone_reason or reason
        for future in self._pending.values():
            if not future.done():
                future.set_exception(GmgError(reason, 1))
        self._pending.clear()


async def newest_snapshot(session: Session) -> Snapshot | None:
    """Returns the state of a running session from its engine; None if it does not answer in time."""
    with suppress(GmgError, TimeoutError):
        async with asyncio.timeout(_SNAPSHOT_TIMEOUT_S):
            client = await EngineClient.connect(Path(session.spec.socket), session.id, readonly=True)
            await client.close()
        return client.welcome.snapshot
    return None


@asynccontextmanager
async def answering(client: Source) -> AsyncIterator[None]:
    """Receives answers and drops events within the context; disconnects at its end."""

    async def listen() -> None:
        async for _ in client.events():
            pass

    listening = asyncio.create_task(listen())
    try:
        yield
    finally:
        listening.cancel()
        await client.close()


def _convert(kind: type[T], value: object) -> T:
    """Returns the value of an answer as `kind`. Raises `GmgError` if it does not fit."""
    try:
        return (
            msgspec.msgpack.decode(value, type=kind) if isinstance(value, msgspec.Raw) else msgspec.convert(value, kind)
        )
    except (msgspec.DecodeError, RecursionError) as error:
        raise GmgError(f"the engine sent an unexpected answer: {error}", 1) from error


def _error_clause(error: OSError | EOFError) -> str:
    """Returns a clause that describes a connection error."""
    match error:
        case ConnectionRefusedError():
            return "no process listens on its socket"
        case protocol.ProtocolError():
            return f"it sent an invalid message ({error})"
        case EOFError() | ConnectionError():
            return "it closed the connection, perhaps because it was killed"
        case _:
            return error.strerror or type(error).__name__
