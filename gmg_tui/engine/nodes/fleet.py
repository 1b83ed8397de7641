"""All nodes of a session: their agents are started together, and what they sample and print comes together here."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from gmg_tui import units
from gmg_tui.ddp import torchrun
from gmg_tui.ddp.variables import LOOPBACK
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.hardware import Hardware, grouped
from gmg_tui.engine.launchers.launcher import Launcher, Local
from gmg_tui.engine.launchers.ray import Ray
from gmg_tui.engine.launchers.slurm import Slurm
from gmg_tui.engine.launchers.ssh import Ssh
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.node_worker import NodeWorker
from gmg_tui.engine.output.lines import RingBuffer
from gmg_tui.engine.workers.member import Member
from gmg_tui.engine.workers.slot_state import SlotState, Workplace
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.errors import GmgError
from gmg_tui.model import (
    AgentSpec,
    GpuProcess,
    GpuSample,
    LauncherKind,
    NodesSpec,
    NodeView,
    RunSpec,
    Session,
    Slot,
    StartMode,
)
from gmg_tui.protocol import Lines
from gmg_tui.session import NODE_MARK

_AT_ONCE = 64
"""Agents that are being started at once: each is a process of the launcher's here."""
_NAMED = 4
_END_S = 20.0
"""How long an agent may take to end, beside its workers' timeouts."""


class Fleet:
    """The nodes; `changed`, `over` and `printed` are set before it runs.

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
        self._launcher: Launcher = _launcher(nodes, cpu=spec.cpu is not None)
        self._nodes: dict[str, Node] = {}
        self._is_over = False
        self._slot_states: Mapping[str, SlotState] = {}
        self._viewers: dict[object, tuple[str, ...]] = {}
        """The slots whose lines each of them follows."""
        self._viewers_changed = asyncio.Event()

    # The beginning

    async def gather(self, report: Callable[[str], None]) -> None:
        """Start all agents; `report` is called with the progress. Raises `GmgError` where too few answer."""
        mark = Path(self._spec.folder, NODE_MARK)
        await asyncio.to_thread(mark.write_text, self.session_id)
        names = await self._launcher.nodes()
        lost_after_s = self._about.lost_after_s
        nodes = {
            name: Node(name, self._agent(name), self._launcher, self._changed, self._lines, lost_after_s)
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
            report(f"{answered} of {units.count(len(nodes), 'node')} {'has' if answered == 1 else 'have'} answered")
            return None

        missing = [error for error in await asyncio.gather(*map(begin, nodes.values())) if error is not None]
        self._nodes = nodes
        answered_first = [node for node in nodes.values() if node.session is not None]
        try:
            self._check(answered_first, missing)
            self.hardware = self._hardware(answered_first, missing)
        except GmgError:
            await self.end(kill=True)
            raise

    def _agent(self, name: str) -> RunSpec:
        """What the agent of a node is started with."""
        spec = self._spec
        about = AgentSpec(name, spec.name, self.session_id, orphan_wait_s=self._about.orphan_wait_s)
        # Ranks wait for each other, on whichever nodes they are.
        start = StartMode.TOGETHER if spec.ddp is not None else spec.start
        return structs.replace(spec, nodes=None, agent=about, ddp=None, start=start, summary=None, notify=(), host="")

    def _check(self, answered: Sequence[Node], missing: Sequence[GmgError]) -> None:
        count = len(answered) + len(missing)
        least = self._about.least if self._about.least is not None else count
        if len(answered) < max(1, least):
            errors = "; ".join(str(error).rstrip(".") for error in missing[:_NAMED])
            more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            advice = "" if not answered else f"; --min-nodes {len(answered)} goes on without"
            raise GmgError(f"{len(missing)} of {units.count(count, 'node')} cannot be used: {errors}{more}{advice}", 1)
        installed = {
            versions.genesis: node.name
            for node in answered
            if node.session is not None
            and (versions := node.session.versions) is not None
            and versions.genesis is not None
        }
        if len(installed) > 1:
            (version, here), (other, there) = list(installed.items())[:2]
            raise GmgError(f"the nodes differ: {here} has Genesis {version}, {there} has {other}; install the same", 1)

    def _hardware(self, answered: Sequence[Node], missing: Sequence[GmgError]) -> Hardware:
        """The slots of the nodes that have answered, and of those that may join later: the same as the first has."""
        like = answered[0].session
        assert like is not None
        if not self._may_join:
            self._nodes = {node.name: node for node in answered}
        seen: set[str] = set()
        slots: list[Slot] = []
        batches: list[set[str]] = [set() for _ in like.allowed]
        for node in self._nodes.values():
            session = node.session or like
            names = {slot.name: f"{node.name}/{slot.name.rpartition('/')[2]}" for slot in session.slots}
            added = {slot.gpu.uuid for slot in session.slots if slot.gpu is not None}
            uuids = {uuid: f"{node.name}/{uuid}" for uuid in added & seen}
            seen |= added
            renamed = tuple(_renamed(slot, names[slot.name], node.name, uuids) for slot in session.slots)
            if node.session is None:
                node.unfit = _unlike(node.unfit, _kinds(renamed))
            slots += renamed
            for batch, allowed in zip(batches, session.allowed, strict=True):
                batch.update(names[name] for name in allowed)
        chosen, idle = grouped(tuple(slots), self._spec)
        return Hardware(chosen, None, tuple(map(frozenset, batches)), tuple(map(str, missing)), idle)

    @property
    def _may_join(self) -> bool:
        """Whether a node that answers late can join: not where all slots belong to one plan, as with ranks or a search."""
        return self._spec.tune is None and (self._spec.ddp is None or self._spec.sweep is not None)

    def workplace(self, session: Session, slot_states: Mapping[str, SlotState]) -> Workplace:
        """Where the workers of the session run: on these nodes."""
        self._slot_states = slot_states
        self._changed()
        return Workplace(session, self._worker, self._meeting_place)

    def _worker(self, slot_state: SlotState, task: Task, log: str, watcher: Watcher, member: Member | None) -> Worker:
        return NodeWorker(slot_state.slot, self.node(slot_state.slot), task, log, watcher, member)

    async def _meeting_place(self, slots: Sequence[str]) -> tuple[str, int]:
        """As `Workplace.meeting_place`: the node of rank 0 has reported it."""
        address, port = await self.node(self._slot_states[slots[0]].slot).meeting_place()
        return (LOOPBACK if len({slot.rpartition("/")[0] for slot in slots}) == 1 else address), port

    # Life

    async def run(self) -> None:
        """Keep all nodes connected until cancelled; those that have not answered join when they do."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            for node in self._nodes.values():
                tasks.create_task(node.run(), name=node.name)

    async def end(self, *, kill: bool = False) -> None:
        """Have all agents end, and wait for that."""
        within_s = _END_S if kill else torchrun.stop_s(self._spec) + _END_S
        await asyncio.gather(*(node.end(kill=kill, within_s=within_s) for node in self._nodes.values()))

    def _changed(self) -> None:
        for slot_state in self._slot_states.values():
            node = self._nodes[slot_state.slot.node]
            slot_state.away = f"{node.name} {node.away}" if node.away is not None else None
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

    # Views

    def views(self, now: float) -> tuple[NodeView, ...]:
        """All nodes at this moment; `now` is monotonic seconds."""
        return tuple(node.view(now) for node in self._nodes.values())

    def samples(self) -> tuple[GpuSample, ...]:
        """The newest samples of all GPUs; without metrics where the node is silent or lost."""
        samples: list[GpuSample] = []
        for node, view in zip(self._nodes.values(), self.views(time.monotonic()), strict=True):
            current = view.lost_since is None and view.silent_s is None
            for sample in node.snapshot.samples:
                uuid = self._uuid(node, sample.uuid)
                samples.append(structs.replace(sample, uuid=uuid) if current else GpuSample(uuid=uuid))
        return tuple(samples)

    def _uuid(self, node: Node, uuid: str) -> str:
        """The UUID of a node's GPU in this session: another GPU has the same UUID, or the node had not reported it yet."""
        slots = node.session.slots if node.session is not None else ()
        name = next((slot.name for slot in slots if slot.gpu is not None and slot.gpu.uuid == uuid), "")
        slot_state = self._slot_states.get(name)
        return (slot_state.gpu_uuid if slot_state is not None else None) or uuid

    def report(
        self, samples: Callable[[tuple[GpuSample, ...], str | None], None], note: Callable[[str, str | None], None]
    ) -> None:
        """Give the newest `samples`, or why there are none, and the notes on the nodes."""
        errors = [node.snapshot.nvml_error for node in self._nodes.values()]
        samples(self.samples(), f"on every node: {errors[0]}" if errors and all(errors) else None)
        for subject, text in self._notes():
            note(subject, text)

    def _notes(self) -> Iterable[tuple[str, str | None]]:
        """The note on each node, in one line; None for none."""
        for view, node in zip(self.views(time.monotonic()), self._nodes.values(), strict=True):
            notes = node.snapshot.notes
            text = view.trouble or node.snapshot.nvml_error or (notes[0] if notes else None)
            if node.away is not None:
                text = f"{node.away}{f': {text}' if text else ''}"
            yield f"node {node.name}", f"{node.name}: {text.removeprefix(f'{node.name}: ')}" if text else text

    def node(self, slot: Slot) -> Node:
        """The node of a slot."""
        return self._nodes[slot.node]

    async def end_process(self, slot: Slot, process: GpuProcess, *, kill: bool) -> None:
        """As `EngineClient.end_process`. Raises `GmgError`."""
        await self.node(slot).client.end_process(slot.name, process, kill=kill)

    def follow(self, viewer: object, slots: Sequence[str]) -> None:
        """From now on `viewer` follows the lines of these slots; nodes send the lines that anybody follows."""
        self._viewers[viewer] = tuple(slots)
        if not slots:
            del self._viewers[viewer]
        self._viewers_changed.set()

    async def _follow(self) -> None:
        while True:
            await self._viewers_changed.wait()
            self._viewers_changed.clear()
            wanted: dict[str, list[str]] = {name: [] for name in self._nodes}
            for slot in dict.fromkeys(slot for slots in self._viewers.values() for slot in slots):
                wanted[slot.rpartition("/")[0]].append(slot)
            await asyncio.gather(*(self._nodes[name].follow(names) for name, names in wanted.items()))


def _unlike(
    unfit: Callable[[Session], str | None], kinds: Sequence[tuple[str, str | None]]
) -> Callable[[Session], str | None]:
    def why(session: Session) -> str | None:
        other = "it has other slots than the first node, and can only join with the same"
        return unfit(session) or (other if _kinds(session.slots) != kinds else None)

    return why


def _kinds(slots: Sequence[Slot]) -> list[tuple[str, str | None]]:
    """What two nodes must have in common to run the same jobs: their slots' names there, and the models of their GPUs."""
    return [(slot.name.rpartition("/")[2], slot.gpu.name if slot.gpu is not None else None) for slot in slots]


def _renamed(slot: Slot, name: str, node: str, uuids: Mapping[str, str]) -> Slot:
    gpu = slot.gpu
    if gpu is not None and gpu.uuid in uuids:
        gpu = structs.replace(gpu, uuid=uuids[gpu.uuid])
    return structs.replace(slot, name=name, node=node, gpu=gpu)


def _launcher(spec: NodesSpec, *, cpu: bool) -> Launcher:
    """The launcher of a session, whose slots are the CPU's or GPUs. Raises `GmgError` where it cannot work here."""
    match spec.launcher:
        case LauncherKind.LOCAL:
            return Local(spec.where)
        case LauncherKind.SSH:
            return Ssh(spec.where)
        case LauncherKind.SLURM:
            return Slurm(spec.where)
        case LauncherKind.RAY:
            return Ray(spec.where, cpu=cpu, gone_s=max(8 * spec.lost_after_s, spec.orphan_wait_s))
