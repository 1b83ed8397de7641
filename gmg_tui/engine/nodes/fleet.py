"""Starts the agents of a session's nodes, and merges the nodes' slots, samples, notes and output."""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import structs

import gmg_tui
from gmg_tui.engine.hardware import Hardware, group_slots
from gmg_tui.engine.launchers.agent_script import agent_script
from gmg_tui.engine.launchers.launcher import Launcher, Local, Slurm, Ssh
from gmg_tui.engine.launchers.ray import Ray
from gmg_tui.engine.nodes.logs import LogCopies
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.engine.nodes.states import STALL_GRACE_S, orphan_end_s, slot_kinds
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.machine.address import is_reachable
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.folders import homes, write_own
from gmg_tui.machine.ownership import marks, owners
from gmg_tui.model import AgentSpec, GpuSample, NodesSpec, NodeView, RunSpec, Session, Slot, StartMode, units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import one_line
from gmg_tui.scripts import interpreter, torchrun
from gmg_tui.scripts.torchrun import LOOPBACK
from gmg_tui.session import NODE_MARK
from gmg_tui.session.protocol import Lines

_NODE_NAME = re.compile(r"[\w:][\w .@:+-]{0,127}", re.ASCII)
"""Valid node names: the cluster chooses them, and folders are named after them."""
_MAX_NAMED_ERRORS = 4
_MAX_NOTE_CHARS = 1000
_MAX_EARLIER = 16
"""Maximum number of earlier engines whose agents may still be running."""
_MAX_PEERS = 3
"""Maximum number of other nodes that an agent looks up to find its own address."""
_END_GRACE_S = 20.0
"""Time limit for an agent to end, in addition to its workers' timeouts."""
_CHECK_INTERVAL_S = 1.0
_GIVE_UP_S = 3600.0
"""Time limit for all awaited nodes together to be back; longer with a longer `--orphan-wait`."""


class Fleet:
    """The nodes of a session. Set `changed`, `on_all_gone` and `on_output` before running it.

    Attributes:
        session_id: ID of this engine, by which agents recognise it.
        changed: Called when the display must change.
        on_all_gone: Called with the reason once every awaited node is gone for good, or lost for too long.
        on_output: Called when the ring buffers have new lines.
    """

    hardware: Hardware
    session: Session

    def __init__(self, spec: RunSpec, nodes: NodesSpec) -> None:
        self.session_id = os.urandom(8).hex()
        self.changed: Callable[[], None] = lambda: None
        self.on_all_gone: Callable[[str], None] = lambda _: None
        self.on_output: Callable[[], None] = lambda: None
        self.spec = spec
        self._launcher = _make_launcher(nodes, cpu=spec.cpu is not None)
        self._nodes: dict[str, Node] = {}
        self._are_all_gone = False
        self._awaited_since: dict[str, float] = {}
        """The nodes that the session waits for or uses, each with the monotonic time since which it does."""
        self._replaces: tuple[str, ...] = ()
        """IDs of the session's earlier engines, newest first."""
        self._owners: tuple[str, ...] = ()
        self._cwd_owners: tuple[str, ...] = ()
        self._slots: Mapping[str, EngineSlot] = {}
        self._line_offsets: dict[str, tuple[str, int]] = {}
        """The ID of each slot's agent, and the ring buffer's number for that agent's first line."""

    # Start

    async def start(self, report: Callable[[str], None]) -> None:
        """Starts all agents; `report` is called with the progress. Nodes that do not answer in time may join later.

        Raises `GmgError` if no node is usable; a tuning, or a plain run with groups, needs all. Call `end` even then.
        """
        names = await self._launcher.list_nodes()
        if invalid := [name for name in names if not _NODE_NAME.fullmatch(name)]:
            raise GmgError(f"{invalid[0][:128]!r} is not a usable node name; rename the node", 1)
        if not names:
            raise GmgError("--nodes: no node is listed", 1)
        self._replaces = await in_daemon_thread(_write_mark, Path(self.spec.folder, NODE_MARK), self.session_id)
        await in_daemon_thread(self._find_owners)
        await in_daemon_thread(agent_script)  # is kept: a disk may hang when a node reconnects
        log_writers: dict[str, LogCopies] = {}
        for name in names:
            callbacks = self._on_change, self._append_lines
            self._nodes[name] = Node(name, self.spec, self._launcher, *callbacks, log_writers)

        async def start_node(node: Node) -> str | None:
            node.start(self._agent_spec(node.name))
            error = await asyncio.shield(node.answered)
            answered = sum(each.session is not None for each in self._nodes.values())
            report(
                f"{answered} of {units.count(len(self._nodes), 'node')} {'has' if answered == 1 else 'have'} answered"
            )
            return f"{node.name}: {error}" if error is not None else None

        results = await asyncio.gather(*map(start_node, self._nodes.values()))
        errors = [error for error in results if error is not None]
        self._check_answers(errors)
        self.hardware = self._merge_hardware(errors)

    def _find_owners(self) -> None:
        """Finds the owners of the workers' script and interpreter, and of the folder they start in."""
        spec = self.spec
        self._owners = tuple(marks(owners(*interpreter.code_paths(spec))))
        self._cwd_owners = tuple(marks(owners(spec.cwd, *homes())))  # a node without the folder uses the home folder

    def _agent_spec(self, node: str) -> RunSpec:
        spec = self.spec
        assert spec.nodes is not None
        peers = tuple(islice((name for name in self._nodes if name != node), _MAX_PEERS))
        orphan_wait_s, moves_jobs = spec.nodes.orphan_wait_s, spec.sweep is not None and spec.tune is None
        agent = AgentSpec(
            *(node, spec.name, self.session_id, gmg_tui.__version__),
            orphan_wait_s=orphan_wait_s,
            max_hang_s=orphan_wait_s + STALL_GRACE_S if moves_jobs else None,
            peers=peers,
            replaces=self._replaces,
            owners=self._owners,
            cwd_owners=self._cwd_owners,
        )
        # Ranks on different nodes wait for each other, so no agent may delay its own.
        start = StartMode.TOGETHER if spec.ddp is not None else spec.start
        spec = structs.replace(spec, nodes=None, agent=agent, ddp=None, start=start, summary=None, notify=(), host="")
        return structs.replace(spec, max_restarts=0, on={})  # the session's engine decides what follows an attempt

    def _check_answers(self, errors: Sequence[str]) -> None:
        """Raises `GmgError` if too few nodes have answered, or two are the same machine."""
        spec, names_by_machine = self.spec, dict[str, str]()
        for node in self._nodes.values() if isinstance(self._launcher, Ssh) else ():
            other = names_by_machine.setdefault(node.machine or node.name, node.name)
            if other != node.name:
                raise GmgError(
                    f"{other} and {node.name} are the same machine; name it once, as one agent runs all its slots", 1
                )
        needs_all = spec.tune is not None or (spec.ddp is not None and spec.sweep is None)
        if len(errors) == len(self._nodes) or (needs_all and errors):
            named = "; ".join(error.rstrip(".") for error in errors[:_MAX_NAMED_ERRORS])
            more = f"; and {len(errors) - _MAX_NAMED_ERRORS} more" if len(errors) > _MAX_NAMED_ERRORS else ""
            count = units.count(len(self._nodes), "node")
            raise GmgError(f"{len(errors)} of {count} cannot be used: {named}{more}", 1)

    def _merge_hardware(self, errors: Sequence[str]) -> Hardware:
        """Returns the nodes' hardware; a node that has not answered is expected to match the first that has."""
        first = next(node.session for node in self._nodes.values() if node.session is not None)
        uuids: set[str] = set()
        slots: list[Slot] = []
        for node in self._nodes.values():
            session = node.session or first
            added = [_with_node(slot, node.name, uuids) for slot in session.slots]
            if node.session is None:
                node.expected = slot_kinds(added)
            uuids.update(slot.gpu.uuid for slot in added if slot.gpu is not None)
            slots += added
        chosen, idle = group_slots(tuple(slots), self.spec)
        return Hardware(chosen, None, tuple(errors), idle)

    def begin(self, session: Session, slots: Mapping[str, EngineSlot]) -> None:
        """Begins to serve as the workplace of the session's workers."""
        self.session, self._slots = session, slots
        self._on_change()

    def create_attempt(self, engine_slot: EngineSlot, worker: Worker) -> RemoteAttempt:
        """Returns a new attempt of a worker's task on its slot's node."""
        return RemoteAttempt(self._nodes[engine_slot.slot.node], worker)

    async def rendezvous_address(self, slots: Sequence[str]) -> tuple[str, int]:
        """Returns the address of rank 0's node and a port there. Raises `GmgError` if other nodes cannot reach it."""
        names = {self._slots[slot].slot.node for slot in slots}
        first = self._slots[slots[0]].slot.node
        address, port = await self._nodes[first].rendezvous_address()
        if len(names) > 1 and not is_reachable(address) and not isinstance(self._launcher, Local):
            raise GmgError(f"the ranks cannot connect: {first} has reported no address that other nodes can reach", 1)
        return (LOOPBACK if len(names) == 1 else address), port

    # Running

    async def run(self) -> None:
        """Checks for lost nodes until cancelled."""
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            now = time.monotonic()
            for node in self._nodes.values():
                node.check(now, delayed_s=now - checked_at - _CHECK_INTERVAL_S)
            checked_at = now
            self._check_any_left(now)

    def _check_any_left(self, now: float) -> None:
        """Reports once that no node is left: none of those that the session waits for has answered in time."""
        is_queue = self.spec.sweep is not None
        awaited = {
            slot.slot.node
            for slot in self._slots.values()
            if (not slot.drained if is_queue else slot.worker is not None and not slot.worker.state.ended)
        }
        self._awaited_since = {name: self._awaited_since.get(name, now) for name in awaited}
        limit_s, nodes = max(_GIVE_UP_S, orphan_end_s(self.spec)), self._nodes
        given_up = [
            nodes[name]
            for name, since in self._awaited_since.items()
            if nodes[name].gone or now - max(since, nodes[name].received_at) >= limit_s
        ]
        gone = [node for node in nodes.values() if node.gone]
        is_any_left = len(gone) < len(nodes) and not (awaited and len(given_up) == len(awaited))
        if self._slots and not is_any_left and not self._are_all_gone:
            self._are_all_gone, node = True, (given_up or gone)[0]
            self.on_all_gone(f"no node is left: {node.gone or f'{node.name} {node.unavailable}'}")

    def left_s(self, slots: Iterable[str], left_at: float) -> float:
        """Returns the seconds for which a job may still run on these slots, where an engine left it at a Unix time.

        0 if their nodes have answered: the earlier agents there have ended. Nodes that this engine does not use never do.
        """
        nodes = (self._nodes.get(slot.partition("/")[0]) for slot in slots if "/" in slot)
        are_away = any(node is None or node.session is None for node in nodes)
        return max(0.0, orphan_end_s(self.spec) - max(0.0, time.time() - left_at)) if are_away else 0.0

    async def end(self, *, kill: bool = False) -> None:
        """Ends all agents, and waits for them."""
        within_s = _END_GRACE_S if kill else torchrun.stop_timeout_s(self.spec) + _END_GRACE_S
        await asyncio.gather(*(node.end(kill=kill, within_s=within_s) for node in self._nodes.values()))

    def _on_change(self) -> None:
        for engine_slot in self._slots.values():
            node = self._nodes[engine_slot.slot.node]
            reason = node.unavailable
            missing_reason = node.missing_reason(engine_slot.slot.name)
            engine_slot.away = f"{node.name} {reason}" if reason is not None else missing_reason
        self.changed()

    # Lines of output

    def request_lines(self) -> None:
        """Asks all agents for lines of output, on behalf of a client."""
        for node in self._nodes.values():
            node.request_lines()

    def _append_lines(self, lines: Lines) -> None:
        """Appends the lines from a node that the ring buffer does not have yet."""
        engine_slot = self._slots.get(lines.slot)
        if engine_slot is None:
            return
        ring, session = engine_slot.ring, self._nodes[engine_slot.slot.node].session
        agent_id, offset = self._line_offsets.get(lines.slot, ("", 0))
        if session is not None and session.id != agent_id:  # a new agent counts from 0 again
            offset = ring.end
            self._line_offsets[lines.slot] = session.id, offset
        first = offset + lines.first
        texts = lines.lines[max(0, ring.end - first) :]
        if first > ring.end:
            ring.skip_to(first)
        if texts:
            ring.feed("".join(f"{one_line(text)}\n" for text in texts).encode(errors="surrogateescape"))
            self.on_output()

    # Views

    def views(self, now: float) -> tuple[NodeView, ...]:
        """Returns all nodes as clients see them; `now` is monotonic seconds."""
        return tuple(node.view(now) for node in self._nodes.values())

    def report(
        self,
        update_samples: Callable[[float, tuple[GpuSample, ...], str | None], None],
        note: Callable[[str, str | None], None],
    ) -> None:
        """Passes on the newest samples, with the reason if there are none, and a note on each node."""
        now, nodes = time.monotonic(), list(self._nodes.values())
        views = self.views(now)
        newest = [
            sample
            for node, view in zip(nodes, views, strict=True)
            for sample in self._samples(node, current=view.lost_since is None and view.silent_s is None)
        ]
        errors = [node.snapshot.nvml_error for node in nodes]
        update_samples(now, tuple(newest), f"on every node: {errors[0]}" if errors and all(errors) else None)
        for node, view in zip(nodes, views, strict=True):
            alert_text = next((alert.text for alert in node.snapshot.alerts), None)
            text = view.trouble or node.snapshot.nvml_error or alert_text
            text = text and text[:_MAX_NOTE_CHARS]
            if node.unavailable is not None:
                text = f"{node.unavailable}{f': {text}' if text else ''}"
            note(f"node {node.name}", f"{node.name}: {text}" if text else None)

    def _samples(self, node: Node, *, current: bool) -> Iterable[GpuSample]:
        """Yields a node's newest samples with this session's UUIDs; without metrics unless `current`."""
        slots = node.session.slots if node.session is not None else ()
        uuids = {
            slot.gpu.uuid: self._slots[slot.name].gpu_uuid
            for slot in slots
            if slot.gpu is not None and slot.name in self._slots
        }
        for sample in node.snapshot.samples:
            if (uuid := uuids.get(sample.uuid)) is not None:
                yield structs.replace(sample, uuid=uuid) if current else GpuSample(uuid=uuid)


def _write_mark(mark: Path, session_id: str) -> tuple[str, ...]:
    """Writes this engine's ID into the file `mark`, before the IDs of earlier engines, which it returns.

    An engine that reached no node has ended no earlier agent, so more than one ID is kept.
    """
    earlier: tuple[str, ...] = ()
    with suppress(OSError), open_for_reading(mark) as file:
        earlier = tuple(file.read(_MAX_EARLIER * (len(session_id) + 1)).decode(errors="replace").split())
    write_own(mark, "\n".join((session_id, *earlier)).encode())
    return earlier


def _with_node(slot: Slot, node: str, uuids: set[str]) -> Slot:
    """Returns the slot with its node in its name; its GPU's UUID is changed if it is in `uuids`."""
    gpu = slot.gpu
    while gpu is not None and gpu.uuid in uuids:
        gpu = structs.replace(gpu, uuid=f"{node}/{gpu.uuid}")
    return structs.replace(slot, name=f"{node}/{slot.name.rpartition('/')[2]}", node=node, gpu=gpu)


def _make_launcher(spec: NodesSpec, *, cpu: bool) -> Launcher:
    """Returns the session's launcher, for GPU or CPU slots. Raises `GmgError` if it does not work here."""
    kind, _, where = spec.where.partition(":")
    match kind:
        case "local":
            return Local(where)
        case "ssh":
            return Ssh(where)
        case "slurm":
            return Slurm()
        case _:
            return Ray(where, cpu=cpu)
