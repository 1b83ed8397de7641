"""A node of the session: the connection to its agent, the assignments of its slots, and its loss."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gmg_tui.engine import clock
from gmg_tui.engine.launchers.launcher import MAX_TROUBLE_BYTES, Connection, Launcher
from gmg_tui.engine.nodes import states
from gmg_tui.engine.nodes.logs import LogCopies
from gmg_tui.engine.nodes.plausible import check_curves, sanitize
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.model import NodeView, RunSpec, Session, Snapshot, units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import one_line
from gmg_tui.scripts.torchrun import LOOPBACK
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Bye, Lines, Update

_log = logging.getLogger(__name__)

_START_TIMEOUT_S = 75.0
"""Time limit for an agent to start, perhaps from a cold network disk or in a Ray actor."""
_MIN_RETRY_PAUSE_S = 0.5
_MAX_RETRY_PAUSE_S = 15.0
_STABLE_CONNECTION_S = 10.0
"""A connection that lasts this long resets the retry pause."""
_LAST_CONNECT_TIMEOUT_S = 2.0
"""Time limit for the last connection attempt when the session ends."""
_IDLE_END_TIMEOUT_S = 5.0
"""Time limit for an agent without attempts to report its end."""
_LOG_COPY_INTERVAL_S = 1.0
MAX_REPORT_BYTES = 256 << 20
"""Size limit of an agent's message."""
_MAX_UNREAD_BYTES = 16 << 20
"""Limit on the bytes sent that the agent has not read."""
MAX_LINE_NUMBER = 1 << 40
"""Limit on the line numbers of a slot, which count across all attempts."""
MAX_ATTEMPT_BYTES = 256 << 10
"""Size limit of an attempt: clients reject snapshots, which include all attempts, over `protocol.MAX_MESSAGE_BYTES`."""


class Node:
    """A node; calls `changed` when the display must change, and `feed` with lines of output.

    Attributes:
        session: The agent's session; None until the agent has answered.
        snapshot: The agent's last snapshot, without workers.
        expected: The slots that the node must have, as returned by `slot_kinds`; None for any.
        machine: ID of the machine or container; empty if unknown.
        received_at: Monotonic time of its last message; of the start before the first.
        lost_since: Unix time of the node's loss; None while it is not lost.
        gone: The reason the node will not return; None while it may.
        is_overdue: True if the node has not reported the end of an attempt in time.
        attempts: The attempts assigned to the node's slots, by slot.
        available: Set once the agent has answered, and cleared while the node is lost.
        answered: Result of the first connection attempt: its error, or None if it succeeded.
    """

    def __init__(
        self,
        name: str,
        spec: RunSpec,
        launcher: Launcher,
        changed: Callable[[], None],
        feed: Callable[[Lines], None],
        log_writers: dict[str, LogCopies] | None = None,
    ) -> None:
        assert spec.nodes is not None
        self.name, self.spec = name, spec
        self.session: Session | None = None
        self.snapshot = Snapshot(0.0, 0.0, ())
        self.expected: Sequence[tuple[str, str | None]] | None = None
        self.machine = ""
        self.lost_since: float | None = None
        self.gone: str | None = None
        self.is_overdue = False
        self.attempts: dict[str, RemoteAttempt] = {}
        self.available = asyncio.Event()
        self.answered: asyncio.Future[GmgError | None] = asyncio.get_running_loop().create_future()
        self._launcher, self._changed, self._feed = launcher, changed, feed
        self._lost_after_s = spec.nodes.lost_after_s
        self._late_s = self._lost_after_s / 3  # agents report every second
        self._connection: Connection | None = None
        self._client: EngineClient | None = None
        self._connected = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.received_at = time.monotonic()
        self._trouble: str | None = None
        self._unsent: set[str] = set()
        """Slots whose assignments the agent has not confirmed."""
        self._send_requested = asyncio.Event()
        self._address = ""
        self._ports: list[int] = []
        """Free ports of the node, not yet given to a group."""
        self._reported = asyncio.Event()
        self._sizes = states.Sizes()
        """Sizes in bytes of the slots' last reports, by slot and field: the last ones are kept."""
        self._logs = LogCopies(Path(spec.folder), spec.log_max_bytes, log_writers)
        self._copies_logs = False
        """True if logs must be copied: the node does not share the session's folder."""
        self._wants_lines = False
        self._ending = asyncio.Event()
        """Set when the session ends: the next connection attempt is made at once and is the last."""
        self._ended = asyncio.Event()
        """Set once the agent, asked to end, is running nothing or has disconnected."""

    # The connection

    def start(self, agent_spec: RunSpec) -> None:
        """Starts the agent with this spec, and stays connected until `end`."""
        self._tasks = [asyncio.create_task(self._run(msgspec.json.encode(agent_spec)), name=self.name)]
        self._tasks.append(asyncio.create_task(self._copy_logs()))

    async def _run(self, agent_spec: bytes) -> None:
        """Connects, and reconnects until the node is gone or the session ends."""
        pause_s = _MIN_RETRY_PAUSE_S
        while self.gone is None:
            is_last, started_at = self._ending.is_set(), time.monotonic()
            try:
                trouble = f"the connection was lost: {await self._connect(agent_spec)}"
                is_last = self._ending.is_set()
                if time.monotonic() - started_at >= _STABLE_CONNECTION_S:
                    pause_s = _MIN_RETRY_PAUSE_S
            except Exception as error:
                if not isinstance(error, GmgError):  # an internal error must not affect the other nodes
                    _log.exception("%s: an internal error", self.name)
                trouble = str(error) or type(error).__name__
                if not self.answered.done():
                    self.answered.set_result(GmgError(trouble, 1))
            if is_last:
                return
            trouble = one_line(trouble[:MAX_TROUBLE_BYTES])  # agents are not trusted
            if trouble != self._trouble and not self._ending.is_set():
                self._trouble = trouble
                self._changed()
            if self.gone is None and (reason := await self._launcher.unreachable_reason()) is not None:
                self.gone = reason
            await clock.any_of(self._ending, timeout_s=pause_s if self.gone is None else 0.0)
            pause_s = min(2 * pause_s, _MAX_RETRY_PAUSE_S)
        self._mark_lost(self.gone)

    async def _connect(self, agent_spec: bytes) -> str:
        """Starts or finds the agent and exchanges messages. Returns the reason the connection ended.

        Raises `GmgError` if the agent cannot be reached or used.
        """
        connection = await self._launcher.connect(self.name)
        try:
            try:
                async with asyncio.timeout(_START_TIMEOUT_S):
                    self.machine = str((await connection.greet(agent_spec)).get("machine", ""))
                    streams = connection.reader, connection.writer
                    client = await EngineClient.greet(streams, f"{self.name}'s agent", max_bytes=states.MAX_NODE_BYTES)
            except (OSError, EOFError, TimeoutError) as error:
                await connection.close()  # reads the rest of its error output
                prefix = f"no answer within {_START_TIMEOUT_S:.0f} s: " if isinstance(error, TimeoutError) else ""
                raise GmgError(f"{prefix}{connection.trouble or error or type(error).__name__}", 1) from error
            self._connection = connection
            self._accept(client)
            return await self._exchange(client)
        finally:
            self._client = self._connection = None
            self._connected.clear()
            await connection.close()

    def _accept(self, client: EngineClient) -> None:
        """Begins to use a connected agent. Raises `GmgError` if it cannot be used."""
        session, previous = sanitize(client.welcome.session, states.MAX_NODE_BYTES), self.session
        states.check_slots(session.slots, self.name, self.spec)
        client.max_bytes = states.MAX_NODE_BYTES + states.MAX_SLOT_BYTES
        client.max_answer_bytes = states.MAX_ANSWER_BYTES
        slots_bytes = states.MAX_SLOT_BYTES * len(session.slots)
        client.max_report_bytes = min(states.MAX_NODE_BYTES + slots_bytes, MAX_REPORT_BYTES)
        if self.expected is not None and states.slot_kinds(session.slots) != self.expected:
            self.gone = "its slots differ from the first node's, so it cannot join"
            raise GmgError(self.gone, 1)
        self.snapshot = sanitize(client.welcome.snapshot, states.MAX_NODE_BYTES)
        self.session, self._client = session, client
        self._copies_logs = session.spec.agent is not None and not session.spec.agent.logs
        self._trouble = self.lost_since = None
        self.received_at = time.monotonic()
        client.on_report = self._apply_report
        self._unsent = {slot.name for slot in session.slots}
        self.available.set()
        self._connected.set()
        if previous is not None and session.id != previous.id:
            self._ended.clear()
            self._logs.on_agent_replaced()
            _log.warning("%s is lost: its agent was replaced", self.name)
            for slot, attempt in list(self.attempts.items()):
                missing = self.missing_reason(slot)
                attempt.lose(missing or f"{self.name} is lost", final=missing is not None, replaced=True)
        if not self.answered.done():
            self.answered.set_result(None)
        else:
            _log.warning("%s %s", self.name, "has joined" if previous is None else "is connected again")
        self._changed()

    async def _exchange(self, client: EngineClient) -> str:
        """Sends assignments and handles messages until the connection ends. Returns the reason it ended."""
        sending = asyncio.create_task(self._send(client))
        try:
            async for event in client.events():
                self.received_at = time.monotonic()
                match event:
                    case Update(snapshot=snapshot):
                        self.snapshot = sanitize(snapshot, states.MAX_NODE_BYTES)
                    case Lines() if event.slot.startswith(f"{self.name}/") and 0 <= event.first < MAX_LINE_NUMBER:
                        self._feed(event)
                    case Bye(reason=reason):
                        return reason
            return "it was closed"
        finally:
            if self._ending.is_set():
                self._ended.set()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def _apply_report(self, body: msgspec.Raw) -> None:
        report = states.decode(body, states.Report)
        self._address, self._ports = report.address, list(report.ports)
        self._reported.set()
        self._sizes.check(report, self.attempts)
        for slot, slot_report in report.attempts.items():
            attempt = self.attempts.get(slot)
            if attempt is None:
                continue
            if (size := len(slot_report.attempt)) > MAX_ATTEMPT_BYTES:
                raise GmgError(f"its agent reports too much: {size:,} bytes on {slot}", 1)
            result = self._sizes.limit(slot, "result", slot_report.result)
            curves = self._sizes.limit(slot, "curves", slot_report.curves)
            update = sanitize(states.decode(slot_report.attempt, states.AttemptReport), MAX_ATTEMPT_BYTES)
            check_curves(curves)
            try:
                attempt.apply_report(update, result, curves)
            except Exception:  # an internal error in one attempt must not affect the node
                _log.exception("%s: a report cannot be applied", slot)
            if self._copies_logs:
                progress = update.key, update.view.newest.output_bytes, update.view.state, update.outcome is not None
                self._logs.schedule(attempt.task.log, progress)
        if report.ended:
            self._ended.set()

    # Logs

    async def _copy_logs(self) -> None:
        logged = ""
        while True:
            await self._connected.wait()
            try:
                await self._logs.catch_up(self.client.read_log)
            except Exception as error:  # an internal error must not end the copying
                trouble = (str(error) or type(error).__name__)[:MAX_TROUBLE_BYTES]
                if trouble != logged:
                    _log.warning("%s: a log cannot be copied: %s", self.name, trouble)
                logged = trouble
            await asyncio.sleep(_LOG_COPY_INTERVAL_S)

    # Assignments

    async def _send(self, client: EngineClient) -> None:
        """Sends changed assignments, and at intervals an unchanged one as a heartbeat."""
        any_slot = client.welcome.session.slots[0].name
        while True:
            self._send_requested.clear()
            if self._wants_lines:
                with suppress(GmgError, OSError):  # the next connection asks again
                    await client.watch(lines=True)
            due = {slot for slot in self._unsent if not self.missing_reason(slot)} or {any_slot}
            self._unsent = set()
            errors = await asyncio.gather(*(self._send_assignment(client, slot) for slot in due))
            failed = {slot: error for slot, error in zip(due, errors, strict=True) if error is not None}
            if failed:
                self._unsent |= failed.keys()
                _log.warning("%s: an assignment cannot be sent: %s", self.name, next(iter(failed.values())))
                await asyncio.sleep(_MIN_RETRY_PAUSE_S)
            await clock.any_of(self._send_requested, timeout_s=self._late_s)

    async def _send_assignment(self, client: EngineClient, slot: str) -> str | None:
        attempt = self.attempts.get(slot)
        assignment = attempt.assignment if attempt is not None else None
        try:
            await client.set_slot(slot, msgspec.Raw(msgspec.msgpack.encode(assignment)))
        except (GmgError, OSError) as error:
            return str(error)[:MAX_TROUBLE_BYTES]
        return None

    def assign(self, attempt: RemoteAttempt) -> None:
        """Schedules an attempt's current assignment for sending."""
        self.attempts[attempt.slot.name] = attempt
        self._logs.claim(attempt.task.log)
        self._unsent.add(attempt.slot.name)
        self._send_requested.set()

    def dismiss(self, attempt: RemoteAttempt) -> None:
        """Clears an attempt's slot, unless another attempt has been assigned to it."""
        slot = attempt.slot.name
        if self.attempts.get(slot) is attempt:
            del self.attempts[slot]
            self._unsent.add(slot)
            self._send_requested.set()

    async def rendezvous_address(self) -> tuple[str, int]:
        """Returns the node's address and a port for a group's rendezvous, another for each call; port 0 if unknown."""
        try:
            async with asyncio.timeout(self._lost_after_s):
                while not self._ports:  # other groups may take the ports of the next report
                    self._reported.clear()
                    await self._reported.wait()
        except TimeoutError:
            return LOOPBACK, 0
        return self._address, self._ports.pop()

    # Loss and return

    def check(self, now: float, *, delayed_s: float) -> None:
        """Marks a silent node as lost; reconnects if it is silent or does not read. This check is `delayed_s` late."""
        if delayed_s >= self._late_s:  # this engine was suspended, so messages are unread
            self.received_at = now
        silent_s = now - self.received_at
        if silent_s >= self._lost_after_s and self.unavailable is None and not self._ending.is_set():
            self.lost_since = clock.unix(self.received_at)
            self._mark_lost(f"it has been silent for {units.span(silent_s)}")
        elif self._client is None or self._client.unread_bytes <= _MAX_UNREAD_BYTES:
            return
        if self._connection is not None:
            self._connection.kill()  # `_run` reconnects

    def _mark_lost(self, reason: str) -> None:
        """Marks the node as lost: its attempts may continue, unless it is `gone`."""
        _log.warning("%s is lost: %s", self.name, reason)
        self.lost_since = self.lost_since or clock.now()
        self.available.clear()
        for attempt in list(self.attempts.values()):
            attempt.on_node_away(f"{self.name} is lost")
        self._changed()

    # For clients

    @property
    def unavailable(self) -> str | None:
        """The reason no attempt can run on the node, shown after its name; None if available."""
        if self.session is None:
            return "has not answered"
        since = self.lost_since
        return f"lost since {time.strftime('%H:%M:%S', time.localtime(since))}" if since is not None else None

    def missing_reason(self, slot: str) -> str | None:
        """Returns the reason a slot is missing, such as a GPU gone after a reboot; None if it exists."""
        exists = self.session is None or slot in {each.name for each in self.session.slots}
        return None if exists else f"{self.name} no longer has {slot.rpartition('/')[2]}"

    def view(self, now: float) -> NodeView:
        """Returns the node as clients see it; `now` is monotonic seconds."""
        silent_s = now - self.received_at
        late_s = silent_s if silent_s >= self._late_s and self.session is not None else None
        return NodeView(self.name, self._client is not None, late_s, self.lost_since, self.gone or self._trouble)

    def request_lines(self) -> None:
        """Asks the agent for lines of output, now and after each reconnection."""
        self._wants_lines = True
        self._send_requested.set()

    @property
    def client(self) -> EngineClient:
        """The client connected to the agent. Raises `GmgError` if not connected."""
        if self._client is None:
            raise GmgError(f"{self.name} is not connected: {self._trouble or 'it is being started'}", 1)
        return self._client

    # The end

    async def end(self, *, kill: bool, within_s: float) -> None:
        """Ends the agent and its workers within `within_s` of connecting, and copies their logs. Once only."""
        if self._ending.is_set():
            return
        self._ending.set()
        try:
            if self.gone is None and (self.session is not None or not self.answered.done()):
                async with asyncio.timeout(_LAST_CONNECT_TIMEOUT_S):
                    await self._connected.wait()
                async with asyncio.timeout(within_s):
                    await self.client.end(kill=kill)
                    report_s = within_s if self.attempts else _IDLE_END_TIMEOUT_S
                    await clock.any_of(self._ended, timeout_s=0.0 if self.is_overdue else report_s)
                    if self._copies_logs:
                        await self._logs.catch_up(self.client.read_log)
        except (GmgError, OSError, TimeoutError) as error:
            _log.warning("%s: its agent did not end cleanly: %s", self.name, error or "no answer")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
