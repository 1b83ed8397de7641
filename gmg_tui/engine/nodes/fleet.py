"""All nodes of a session: their agents are started together, and what they sample and print comes together here."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from gmg_tui import units
from gmg_tui.ddp.variables import LOOPBACK
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.hardware import Hardware, grouped
from gmg_tui.engine.launchers.find import launcher_of
from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.node_worker import NodeWorker
from gmg_tui.engine.nodes.turns import Turns
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.workers.member import Member
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.slot_worker import SlotWorker, Watcher
from gmg_tui.engine.workers.workplace import Workplace
from gmg_tui.errors import GmgError
from gmg_tui.model import AgentSpec, GpuSample, NodesSpec, NodeView, RunSpec, Session, Slot, StartMode
from gmg_tui.protocol import Brought, Lines
from gmg_tui.session import NODE_MARK

_log = logging.getLogger(__name__)

_AT_ONCE = 64
"""Agents that are being started at once: each is a process of the launcher's here."""
_NAMED = 4
_BRING_S = 2.0
"""After how long who asks for a log hears how much of it has come."""
_END_S = 20.0
"""How long an agent may take to end, beside its workers' own timeouts."""


class Fleet:
    """The nodes; `changed` and `lines` are set before it runs.

    Attributes:
        session_id: Of the session's engine, which agents know it by.
        changed: Called when something that is displayed has changed.
        over: Called with the reason when no node will be back.
        printed: Called when lines that are followed have come.
        hardware: The slots of all nodes.
    """

    hardware: Hardware

    def __init__(self, spec: RunSpec, nodes: NodesSpec) -> None:
        self.session_id = os.urandom(8).hex()
        self.changed: Callable[[], None] = lambda: None
        self.over: Callable[[str], None] = lambda _: None
        self.printed: Callable[[], None] = lambda: None
        self._spec, self._about = spec, nodes
        self._launcher: Launcher = launcher_of(nodes, cpu=spec.cpu is not None)
        self._nodes: dict[str, Node] = {}
        self._turns = Turns()
        self._is_over = False
        self._slot_states: Mapping[str, SlotState] = {}
        self._viewers: dict[object, tuple[str, ...]] = {}
        """The slots whose lines each of them looks at."""
        self._looked = asyncio.Event()
        self._uuids: dict[str, dict[str, str]] = {}
        """By node, how GPUs are called here whose UUID another node has, too."""

    # The beginning

    async def gather(self, say: Callable[[str], None]) -> None:
        """Start all agents; `say` is told how far that is. Raises `GmgError` where too few answer."""
        mark = Path(self._spec.folder, NODE_MARK)
        await asyncio.to_thread(mark.write_text, self.session_id)
        try:
            names = await self._launcher.nodes()
        except GmgError:
            await self._launcher.close()
            raise
        nodes = {
            name: Node(name, self._agent(name), self._launcher, self._changed, self._lines, self._turns.wait)
            for name in names
        }
        at_once, answered = asyncio.Semaphore(_AT_ONCE), 0

        async def begin(node: Node) -> GmgError | None:
            nonlocal answered
            async with at_once:
                try:
                    await node.begin()
                except GmgError as error:
                    return error
            answered += 1
            say(f"{answered} of {units.count(len(nodes), 'node')} {'has' if answered == 1 else 'have'} answered")
            return None

        errors = dict(zip(names, await asyncio.gather(*map(begin, nodes.values())), strict=True))
        self._nodes = {name: node for name, node in nodes.items() if errors[name] is None}
        missing = [error for error in errors.values() if error is not None]
        try:
            self._check(missing, len(names))
            self.hardware = self._hardware(missing)
        except GmgError:
            await self.end(kill=True)
            raise
        self._turns.begin(self._nodes)

    @property
    def at_last(self) -> Sequence[str]:
        """The command that ends what the launcher has, should this engine be killed."""
        return self._launcher.at_last

    def _agent(self, name: str) -> RunSpec:
        """What the agent of a node is started with."""
        spec = self._spec
        about = AgentSpec(name, spec.name, self.session_id, orphan_wait_s=self._about.orphan_wait_s)
        # Ranks wait for each other, on whichever nodes they are.
        start = StartMode.TOGETHER if spec.ddp is not None else spec.start
        return structs.replace(spec, nodes=None, agent=about, ddp=None, start=start, summary=None, notify=(), host="")

    def _check(self, missing: Sequence[GmgError], count: int) -> None:
        least = self._about.least if self._about.least is not None else count
        if len(self._nodes) < max(1, least):
            said = "; ".join(str(error).rstrip(".") for error in missing[:_NAMED])
            more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            advice = "" if not self._nodes else f"; --min-nodes {len(self._nodes)} goes on without"
            raise GmgError(f"{len(missing)} of {units.count(count, 'node')} cannot be used: {said}{more}{advice}", 1)
        versions = {node.ready.genesis: node.name for node in self._nodes.values() if node.ready.genesis}
        if len(versions) > 1:
            (one, here), (other, there) = list(versions.items())[:2]
            raise GmgError(
                f"the nodes have different versions: {here} has {one}, {there} has {other}; install the same", 1
            )

    def _hardware(self, missing: Sequence[GmgError]) -> Hardware:
        seen: set[str] = set()
        slots: list[Slot] = []
        for node in self._nodes.values():
            own = {slot.gpu.uuid for slot in node.slots if slot.gpu is not None}
            renamed = self._uuids[node.name] = {uuid: f"{node.name}/{uuid}" for uuid in own & seen}
            seen |= own
            node.slots = tuple(_renamed(slot, renamed) for slot in node.slots)
            slots += node.slots
        batches = max((len(node.ready.allowed) for node in self._nodes.values()), default=0)
        allowed = tuple(
            frozenset(name for node in self._nodes.values() for name in node.ready.allowed[batch])
            for batch in range(batches)
        )
        chosen, idle = grouped(tuple(slots), self._spec)
        return Hardware(chosen, None, allowed, tuple(map(str, missing)), idle)

    def workplace(self, session: Session) -> Workplace:
        """Where the workers of the session run: on these nodes."""
        return OnNodes(session, self)

    # Life

    async def run(self, slot_states: Mapping[str, SlotState]) -> None:
        """Keep all nodes connected until cancelled."""
        self._slot_states = slot_states
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            for node in self._nodes.values():
                tasks.create_task(node.run(), name=node.name)

    async def end(self, *, kill: bool = False) -> None:
        """Have all agents end, and wait for that."""
        within_s = _END_S if kill else self._spec.sigint_wait_s + self._spec.sigterm_wait_s + _END_S
        if not kill:
            await asyncio.gather(*map(self._collect, self._nodes.values()))
        await asyncio.gather(*(node.end(kill=kill, within_s=within_s) for node in self._nodes.values()))
        await self._launcher.close()

    async def _collect(self, node: Node) -> None:
        try:
            await node.collect()
        except (GmgError, OSError) as error:
            _log.warning("%s keeps its logs: %s", node.name, error)

    def _changed(self) -> None:
        for slot_state in self._slot_states.values():
            since = self._nodes[slot_state.slot.node].lost_since
            moment = time.strftime("%H:%M:%S", time.localtime(since))
            slot_state.away = f"{slot_state.slot.node} is lost since {moment}" if since is not None else None
        gone = {node.gone for node in self._nodes.values()}
        if gone and None not in gone and not self._is_over:
            self._is_over = True
            self.over(f"no node is left: {next(filter(None, gone))}")
        self.changed()

    def _lines(self, lines: Lines) -> None:
        """Lines of a worker have come: they continue its ring, or after a gap begin it anew."""
        slot_state = self._slot_states.get(lines.slot)
        if slot_state is None:
            return
        ring: RingBuffer = slot_state.ring
        texts = lines.lines[max(0, ring.end - lines.first) :] if lines.first < ring.end else lines.lines
        if lines.first > ring.end:
            ring.skip_to(lines.first)
        if texts:
            ring.feed("".join(f"{text}\n" for text in texts).encode(errors="surrogateescape"))
            self.printed()

    # Look

    def views(self, now: float) -> tuple[NodeView, ...]:
        """All nodes at this moment; `now` is monotonic seconds."""
        return tuple(node.view(now) for node in self._nodes.values())

    def samples(self) -> tuple[GpuSample, ...]:
        """The newest samples of all GPUs; of a node that is silent or lost nothing is known."""
        found: list[GpuSample] = []
        for node, view in zip(self._nodes.values(), self.views(time.monotonic()), strict=True):
            known = view.lost_since is None and view.silent_s is None
            for sample in node.snapshot.samples:
                uuid = self._uuids[node.name].get(sample.uuid, sample.uuid)
                found.append(structs.replace(sample, uuid=uuid) if known else GpuSample(uuid=uuid))
        return tuple(found)

    @property
    def nvml_error(self) -> str | None:
        """Why no node has metrics of any GPU; None where one has."""
        errors = [node.snapshot.nvml_error for node in self._nodes.values()]
        return f"on every node: {errors[0]}" if errors and all(errors) else None

    def notes(self) -> Iterable[tuple[str, str | None]]:
        """What the user should know of each node, in one line; None for nothing."""
        for view, node in zip(self.views(time.monotonic()), self._nodes.values(), strict=True):
            said = node.snapshot.notes
            text = view.trouble or node.snapshot.nvml_error or (said[0] if said else None)
            if view.lost_since is not None:
                since = time.strftime("%H:%M:%S", time.localtime(view.lost_since))
                text = f"lost since {since}{f': {text}' if text else ''}"
            yield f"node {view.name}", f"{view.name}: {text.removeprefix(f'{view.name}: ')}" if text else text

    def tell(
        self, samples: Callable[[tuple[GpuSample, ...], str | None], None], note: Callable[[str, str | None], None]
    ) -> None:
        """Give the newest `samples`, or why there are none, and the notes on the nodes."""
        samples(self.samples(), self.nvml_error)
        for subject, text in self.notes():
            note(subject, text)

    async def bring_log(self, path: str) -> Brought:
        """Bring more of a log from the nodes that keep it, for some seconds. Raises `GmgError`."""
        size, more = 0, False
        for node in self._nodes.values():
            if node.ready.keeps_logs and path in node.logs:
                try:
                    there, left = await node.logs.bring(path, _BRING_S)
                except OSError as error:
                    raise GmgError(f"{path} cannot be written: {error.strerror}", 1) from error
                size, more = size + there, more or left
        return Brought(size, more)

    def node(self, slot: Slot) -> Node:
        """The node of a slot."""
        return self._nodes[slot.node]

    def look(self, viewer: object, slots: Sequence[str]) -> None:
        """From now on `viewer` looks at the lines of these slots; those that somebody looks at come from their nodes."""
        self._viewers[viewer] = tuple(slots)
        if not slots:
            del self._viewers[viewer]
        self._looked.set()

    async def _follow(self) -> None:
        while True:
            await self._looked.wait()
            self._looked.clear()
            wanted: dict[str, list[str]] = {name: [] for name in self._nodes}
            for slot in dict.fromkeys(slot for slots in self._viewers.values() for slot in slots):
                wanted[slot.rpartition("/")[0]].append(slot)
            await asyncio.gather(*(self._nodes[name].follow(names) for name, names in wanted.items()))


class OnNodes(Workplace):
    """Its workers' processes run on the nodes of `fleet`."""

    def __init__(self, session: Session, fleet: Fleet) -> None:
        super().__init__(session)
        self._fleet = fleet

    def worker(
        self, slot: Slot, ring: RingBuffer, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> SlotWorker:
        """As `Workplace.worker`."""
        return NodeWorker(slot, self._fleet.node(slot), task, log, watcher, member)

    async def meeting_place(self, slots: Sequence[str]) -> tuple[str, int]:
        """As `Workplace.meeting_place`: rank 0's node is asked."""
        first = self.session.slot(slots[0])
        assert first is not None
        try:
            port = await self._fleet.node(first).free_port()
        except GmgError as error:
            _log.warning("no port for a group: %s", error)
            return LOOPBACK, 0
        alone = len({slot.rpartition("/")[0] for slot in slots}) == 1
        return (LOOPBACK if alone else port.address), port.port


def _renamed(slot: Slot, uuids: Mapping[str, str]) -> Slot:
    if slot.gpu is None or slot.gpu.uuid not in uuids:
        return slot
    return structs.replace(slot, gpu=structs.replace(slot.gpu, uuid=uuids[slot.gpu.uuid]))
