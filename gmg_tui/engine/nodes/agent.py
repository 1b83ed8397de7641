"""An agent as the session's engine meets it: takes its orders, reports, and ends when nobody leads it any more."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import structs

from gmg_tui import protocol
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.agent_scheduler import AgentScheduler, Assigned
from gmg_tui.engine.nodes.messages import Lead, Numbered, Piece, Port, Ready, Report, WorkerReport
from gmg_tui.engine.workers.meeting_place import free_port
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis import caches
from gmg_tui.genesis.interpreter import genesis_versions
from gmg_tui.model import RunSpec, Snapshot
from gmg_tui.protocol import Answer, FromAgent, Update

_log = logging.getLogger(__name__)

CACHE_NAME = ".gmg-tui-cache"
"""In a mesh cache: a random name by which nodes see that they share it."""
_FIRST_S = 60.0
"""How long it waits for the first at least: the launcher may take its time."""
_SILENT_S = 60.0
"""How much longer an agent waits for an engine whose connection stands: the network may have stalled."""
_EARLIER = 8
"""Attempts before the current one that are reported."""
_LOOK_S = 1.0
_PART_BYTES = 1 << 20


class Agent:
    """`end` is called, with the reason, when its workers are to end because nobody leads it any more."""

    def __init__(
        self,
        spec: RunSpec,
        agent_id: str,
        allowed: tuple[frozenset[str], ...],
        scheduler: AgentScheduler,
        gate: Gate,
        end: Callable[[str], None],
    ) -> None:
        assert spec.agent is not None
        self._spec, self._about, self._agent_id, self._allowed = spec, spec.agent, agent_id, allowed
        self._scheduler, self._gate = scheduler, gate
        self._end = end
        self.collected = bool(spec.agent.logs)
        """Whether all of its workers' logs are in the session's folder."""
        self._taken = 0
        self._leads = 0
        self._was_led = False
        self._heard_at = time.monotonic()
        self._orphaned = False

    async def run(self) -> None:
        """Watch, until cancelled, whether anybody leads it."""
        while True:
            await asyncio.sleep(_LOOK_S)
            wait_s = self._about.orphan_wait_s + (_SILENT_S if self._leads else 0.0)
            if not self._was_led:
                wait_s = max(wait_s, _FIRST_S)
            if not self._orphaned and time.monotonic() - self._heard_at >= wait_s:
                self._orphaned = True
                self._end(f"the session's engine has not been heard of for {wait_s:.0f} s")

    # Connections

    def connection(self) -> Led:
        """A client has connected, which may be the session's engine."""
        return Led(self)

    def led(self, by: int) -> None:
        """A connection of the session's engine has begun (1) or ended (-1)."""
        self._leads += by
        self._was_led = True
        self._heard_at = time.monotonic()

    def heard(self) -> None:
        """The session's engine lives."""
        self._heard_at = time.monotonic()

    def take(self, body: msgspec.Raw) -> messages.FromAgent | None:
        """Take a message; the answer, if there is one. Raises `GmgError` if it cannot be done."""
        self.heard()
        try:
            message = messages.to_agent(body)
        except msgspec.MsgspecError as error:
            raise GmgError(f"not an order: {error}", 1) from error
        match message:
            case Lead(session_id=session_id):
                if session_id != self._about.session_id:
                    raise GmgError("this agent is another session's", 1)
                return self._ready()
            case messages.Fetch(ask=ask, path=path, offset=offset):
                return Piece(ask, *_part(Path(self._spec.folder), path, offset))
            case messages.Collected():
                self.collected = True
            case Numbered(order=messages.FreePort(ask=ask)):
                return _port(ask)
            case Numbered(number=number, order=order):
                if number > self._taken:
                    self._taken = number
                    self._scheduler.take(order)
        return None

    def _ready(self) -> Ready:
        return Ready(
            self._agent_id,
            self._taken,
            tuple(tuple(sorted(names)) for names in self._allowed),
            genesis_versions(self._spec.python),
            _cache_name(caches.mesh_cache({**os.environ, **self._spec.env})),
            time.time(),
            not self._about.logs,
        )

    def report(self, sent: dict[int, bytes]) -> Report:
        """The workers that are not as they were `sent` last, by key, which is updated."""
        now = time.monotonic()
        reports, keys = [], set()
        for one in self._scheduler.assigned:
            report = self._report(one, now)
            data = msgspec.msgpack.encode(report)
            keys.add(one.key)
            if sent.get(one.key) != data:
                sent[one.key] = data
                reports.append(report)
        for gone in sent.keys() - keys:
            del sent[gone]
        return Report(now, self._taken, self._gate.is_open, tuple(reports))

    def _report(self, one: Assigned, now: float) -> WorkerReport:
        worker, member, memory = one.worker, one.member, one.worker.memory
        assert isinstance(worker, Worker)
        kept: tuple[str | None, str | None, str | None, str | None] = (None, None, None, None)
        if memory is not None and worker.state.ended:
            kept = (
                memory.awaited(),
                memory.awaited(shared=True),
                memory.still_taken(),
                memory.still_taken(shared=True),
            )
        return WorkerReport(
            one.key,
            worker.view(worker.task.index, now),
            worker.args,
            worker.env,
            worker.reported(),
            tuple(attempt for attempt, _ in list(worker.past)[-_EARLIER:]),
            worker.first_started,
            worker.failure,
            worker.unready,
            worker.out_dir,
            worker.concluded.is_set(),
            worker.carried,
            worker.fps_of_group,
            worker.progress,
            tuple(sorted(worker.pids)),
            kept,
            worker.seen() if member is not None else None,
            worker.blocks(0) if self._spec.tune is not None else None,
            member.arrived if member is not None else 0,
            member.parted if member is not None else 0,
            member.outcome if member is not None else None,
            tuple(member.exit_codes) if member is not None else (),
            member.calls_off if member is not None else 0,
        )


def _part(folder: Path, path: str, offset: int) -> tuple[bytes, int]:
    """A part of a file of the folder, and its inode; empty at its end, and where there is none."""
    file = (folder / path).resolve()
    if not file.is_relative_to(folder.resolve()):
        return b"", 0
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(_PART_BYTES), os.fstat(stream.fileno()).st_ino
    except OSError:
        return b"", 0


def _port(ask: int) -> Port:
    try:
        return Port(ask, _address(), free_port())
    except OSError as error:
        _log.warning("no port for a group: %s", error)
        return Port(ask, "", 0)


def _address() -> str:
    """The address by which other machines reach this one, as its own name is resolved; the loopback's where that fails."""
    with suppress(OSError):
        found = socket.gethostbyname(socket.gethostname())
        if not found.startswith("127."):
            return found
    return "127.0.0.1"


def _cache_name(folder: Path) -> str:
    """The random name of a cache, made where there is none; its path where it cannot be written."""
    path = folder / CACHE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), path.open("x") as file:
            file.write(os.urandom(8).hex())
        return path.read_text()
    except OSError:
        return f"{socket.gethostname()}:{folder}"


class Led:
    """What a connection has to do with the agent that the engine is; nothing before it leads."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._leads = False
        self._said: deque[messages.FromAgent] = deque()
        self._sent: dict[int, bytes] = {}
        """The last report on each worker, by its key."""

    def take(self, request: protocol.ToAgent) -> Answer:
        """Take a message of the session's engine; its answer."""
        try:
            said = self._agent.take(request.body)
        except GmgError as error:
            return Answer(request.id, error=str(error))
        if isinstance(said, Ready) and not self._leads:
            self._leads = True
            self._agent.led(1)
        if said is not None:
            self._said.append(said)
        return Answer(request.id)

    def heard(self) -> None:
        """Something has come on the connection."""
        if self._leads:
            self._agent.heard()

    def said(self) -> bytes:
        """The frames of what is to be said at once."""
        frames = b"".join(protocol.frame(FromAgent(messages.encode(one))) for one in self._said)
        self._said.clear()
        return frames

    def update(self, snapshot: Snapshot) -> bytes:
        """The frames that tell the newest state."""
        if not self._leads:
            return protocol.frame(Update(snapshot))
        report = protocol.frame(FromAgent(messages.encode(self._agent.report(self._sent))))
        # The reports say more of the workers.
        return protocol.frame(Update(structs.replace(snapshot, workers=(), groups=()))) + report

    def close(self) -> None:
        """The connection has ended."""
        if self._leads:
            self._agent.led(-1)
