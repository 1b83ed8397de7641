"""A client's connection: its requests, the answers, and the lines and snapshots sent to it.

Each snapshot is made once for all clients, and sent with only the workers that have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import accumulate

from msgspec import structs

from gmg_tui.engine.observer import Observer
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.model import Snapshot
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Answer, Command, Hello, Lines, Message, Question, Topic, Update, Watch, Welcome

_log = logging.getLogger(__name__)

_MAX_OPEN_REQUESTS = 256
"""Limit on a client's open questions and unread answers."""
_MAX_LINES_BYTES = 1 << 20
"""Size limit of the lines in a message; beyond it, the oldest are left out."""
_READ_ONLY = "this connection is read-only"


class Client:
    """A client's connection. States are not queued: once a message is sent, the newest state follows.

    Commands run in order as they are read, and never wait for a question;
    questions are answered concurrently.

    Attributes:
        readonly: True if the client cannot change anything.
        wake: Set when there is something to send.
        snapshot_due: True if a snapshot is to be sent.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        observer: Observer,
        updates: Updates,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        watched: asyncio.Event | None,
    ) -> None:
        """`watched` is set once the client watches; None for a read-only connection."""
        self._reader, self.writer = streams
        self.readonly = watched is None
        self.wake = asyncio.Event()
        self.snapshot_due = False
        self._last_sent: Snapshot | None = None
        self._supervisor, self._observer, self._updates = supervisor, observer, updates
        self._watched = watched
        self._answers: deque[Answer] = deque()
        self._next_line: dict[str, int] = {}
        """Number of the first unsent line, by slot; empty if the client does not want lines."""
        self._agent = supervisor.agent

    @property
    def has_unsent_lines(self) -> bool:
        """True if the client wants lines, and some are unsent."""
        slots = self._supervisor.slots
        return any(slots[slot].ring.end > number for slot, number in self._next_line.items())

    async def serve(self) -> None:
        """Answers requests and sends updates until the client disconnects."""
        supervisor = self._supervisor
        recent = tuple(slot.history.recent(name) for name, slot in supervisor.slots.items())
        snapshot, readonly = self._observer.snapshot(), self.readonly
        self.writer.write(_encode_fitting(snapshot, lambda fit: Welcome(supervisor.session, fit, recent, readonly)))
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self._send())
            answering: set[asyncio.Task[None]] = set()
            try:
                await self._read_requests(tasks, answering)
            finally:
                if self._agent is not None:
                    self._agent.on_disconnect(self)
                for task in (sending, *answering):
                    task.cancel()

    async def _read_requests(self, tasks: asyncio.TaskGroup, answering: set[asyncio.Task[None]]) -> None:
        while True:
            message = await protocol.read_request(self._reader)
            if isinstance(message, Hello):
                raise protocol.ProtocolError("a second hello")
            if self._agent is not None:
                self._agent.on_message(self)
            if isinstance(message, Watch):
                self._watch(lines=message.lines)
            elif self.readonly and not (isinstance(message.request, protocol.Ask) and message.request.is_harmless):
                self._reply(Answer(message.id, error=_READ_ONLY))
            elif isinstance(message.request, Command):
                self._run_command(message.id, message.request)
            else:
                task = tasks.create_task(self._answer(message.id, message.request))
                answering.add(task)
                task.add_done_callback(answering.discard)
            if len(answering) + len(self._answers) > _MAX_OPEN_REQUESTS:
                raise protocol.ProtocolError("too many unread answers")

    def _reply(self, answer: Answer) -> None:
        self._answers.append(answer)
        self.wake.set()

    def _watch(self, *, lines: bool) -> None:
        if self._watched is not None:
            self._watched.set()
        if lines:
            self._next_line = dict.fromkeys(self._supervisor.slots, 0) | self._next_line
            self.wake.set()
            if self._supervisor.fleet is not None:
                self._supervisor.fleet.request_lines()

    async def _answer(self, request_id: int, question: Question) -> None:
        try:
            self._reply(Answer.with_value(request_id, await self._find_answer(question)))
        except Exception as error:
            self._reply(_error_answer(request_id, error))

    async def _find_answer(self, question: Question) -> object:
        """Returns the answer to a question; None once jobs are added. Raises `GmgError` if there is none."""
        observer = self._observer
        match question:
            case protocol.Ask(topic=Topic.DETAILS, slot=slot):
                return await observer.details(slot)
            case protocol.Ask(topic=Topic.SERIES, slot=slot):
                return self._supervisor.engine_slot(slot).history.overall(slot)
            case protocol.Ask(topic=Topic.CURVES, slot=slot, name=name, count=count):
                return await observer.curves(slot, name, count)
            case protocol.Ask(topic=Topic.QUEUE, first=first, count=count):
                return self._supervisor.jobs.view(first, count)
            case protocol.Ask(topic=Topic.TRIED):
                return observer.tried()
            case protocol.Ask(topic=Topic.EVENTS):
                return tuple(observer.recorder.notifications.events)
            case protocol.Ask(topic=Topic.SPEED, slot=slot):
                return await observer.speed(slot)
            case protocol.Ask(topic=Topic.HOT_SPOT, slot=slot):
                return await observer.hot_spot(slot)
            case protocol.Ask(topic=Topic.STACKS, slot=slot):
                return await observer.stacks(slot)
            case protocol.AddJobs(jobs=jobs):
                self._check_not_concluded()
                await self._supervisor.jobs.add(jobs)
                return None
            case protocol.ReadLog(path=path, offset=offset) if self._agent is not None:
                return await self._agent.logs.read(path, offset)
        raise GmgError("only a node's agent can be asked for this", 1)

    def _run_command(self, request_id: int, command: Command) -> None:
        try:
            self._apply(command)
            self._reply(Answer(request_id))
        except Exception as error:
            self._reply(_error_answer(request_id, error))

    def _apply(self, command: Command) -> None:
        """Applies a command. Raises `GmgError` if that is not possible."""
        supervisor = self._supervisor
        if not isinstance(command, protocol.End):
            self._check_not_concluded()
        match command:
            case protocol.Act(action=action, slots=slots, seen=seen):
                supervisor.act(action, slots, seen)
            case protocol.Edit(slots=slots, args=args, env=env, seen=seen):
                supervisor.edit(slots, args, env, seen)
            case protocol.ActOnJobs(action=queue_action, jobs=jobs):
                supervisor.jobs.act(queue_action, jobs)
            case protocol.UseSlot(slot=slot, used=used):
                supervisor.jobs.use(slot, used=used)
            case protocol.SetSlot():
                if self._agent is None:
                    raise GmgError("this engine is not an agent", 1)
                self._agent.assign(self, command)
            case protocol.End(kill=kill):
                supervisor.end(kill=kill)

    def _check_not_concluded(self) -> None:
        if self._supervisor.concluded:
            raise GmgError("the session has ended", 1)

    async def _send(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self._answers:
                self.writer.write(encode_answer(self._answers.popleft()))
            frames = self._encode_state() if self.snapshot_due else b""
            for slot in self._next_line:  # lines from before the snapshot arrive first
                await self._send_lines(slot)
            self.writer.write(frames)
            await self.writer.drain()

    def _encode_state(self) -> bytes:
        """Returns frames with the newest state."""
        self.snapshot_due = False
        frames = self._agent.encode_state(self, self._updates.snapshot) if self._agent is not None else None
        if frames is None:
            frames, self._last_sent = self._updates.encode(self._last_sent), self._updates.snapshot
        return frames

    async def _send_lines(self, slot: str) -> None:
        ring, number = self._supervisor.slots[slot].ring, self._next_line[slot]
        first, raw = ring.lines_from(number)
        if not raw:
            return
        end, fitting = first + len(raw), _newest_fitting(raw)
        self._next_line[slot] = end
        self.writer.write(protocol.frame(Lines(slot, end - len(fitting), tuple(map(clean, fitting)))))
        await self.writer.drain()


def _error_answer(request_id: int, error: Exception) -> Answer:
    """Returns the answer to a failed request; logs an internal error, which does not end the connection."""
    if isinstance(error, GmgError):
        return Answer(request_id, error=str(error))
    _log.error("a request failed because of an internal error", exc_info=error)
    return Answer(request_id, error=f"internal error ({type(error).__name__}: {error}); see engine.log")


def encode_answer(answer: Answer) -> bytes:
    """Returns an answer's frame, or the frame of an error if the answer is too long."""
    data = protocol.frame(answer)
    if len(data) > protocol.MAX_MESSAGE_BYTES:
        return protocol.frame(Answer(answer.id, error=f"the engine's answer is too long: {len(data):,} bytes"))
    return data


def _encode_fitting(snapshot: Snapshot, make: Callable[[Snapshot], Message]) -> bytes:
    """Returns the frame of a message with a snapshot, without many details if it is too long: a client must be able to stop."""
    data = protocol.frame(make(snapshot))
    if len(data) <= protocol.MAX_MESSAGE_BYTES:
        return data
    workers = (
        structs.replace(worker, newest=worker.newest.brief(), alerts=(), reason=None, advice=None, last_line="")
        for worker in snapshot.workers
    )
    return protocol.frame(make(structs.replace(snapshot, workers=tuple(workers), samples=(), occurred=(), alerts=())))


def _newest_fitting(lines: list[bytes]) -> list[bytes]:
    """Returns the newest of `lines`, at most `_MAX_LINES_BYTES` in total, but at least one."""
    sizes = accumulate(len(line) for line in reversed(lines))
    return lines[-max(1, sum(1 for size in sizes if size <= _MAX_LINES_BYTES)) :]


class Updates:
    """Encodes snapshots, made by `make_snapshot`, for each client as changes since its last snapshot."""

    def __init__(self, make_snapshot: Callable[[], Snapshot]) -> None:
        self._make_snapshot = make_snapshot
        self._snapshot: Snapshot | None = None
        """The current snapshot; None after `expire` until it is needed."""
        self._frames: dict[int, bytes] = {}
        """Frames of the current snapshot, by the identity of the client's last snapshot."""

    def expire(self, newest: Snapshot | None = None) -> None:
        """Replaces the current snapshot with `newest`; if None, a new one is made when needed."""
        self._snapshot = newest
        self._frames.clear()

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot, made once for all clients."""
        if self._snapshot is None:
            self._snapshot = self._make_snapshot()
        return self._snapshot

    def encode(self, last: Snapshot | None) -> bytes:
        """Returns a frame with the changes since a client's last snapshot, or with everything if `last` is None."""
        if (frame := self._frames.get(id(last))) is None:
            snapshot = self.snapshot
            if last is not None:
                pairs = zip(snapshot.workers, last.workers, strict=True)
                changed = tuple(worker for worker, earlier in pairs if worker != earlier)
                snapshot = structs.replace(snapshot, workers=changed)
            frame = _encode_fitting(snapshot, lambda fit: Update(fit, partial=last is not None))
            self._frames[id(last)] = frame
        return frame
