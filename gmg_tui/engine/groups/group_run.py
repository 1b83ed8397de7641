"""Starts, ends and restarts the ranks of a group as one, as torchrun's agent does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.groups.rank_policy import RankPolicy
from gmg_tui.engine.workers.meeting_place import FindPlace, own_machine
from gmg_tui.engine.workers.member import Outcome
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import Rank, Session, WorkerState
from gmg_tui.session import RANKS, TRACE

_log = logging.getLogger(__name__)

_PORTS = 5
"""How many ports in a row may turn out to be taken before that counts as a failure of the group."""
_SYMPTOMS = frozenset({FailureKind.PEER})
"""Failures that only say that another rank is gone."""


class Companion(Protocol):
    """A rank's worker, as its group sees it."""

    def end_with_group(self) -> None:
        """End its process, if there is one: the group's attempt is over."""


class GroupRun:
    """A group's attempts, one after another.

    `task` says how often it may be tried.

    Attributes:
        id: Its name: `g0`, `g1` …
        slots: Where its ranks run, by rank.
        members: Its ranks, in their order.
        restarts: How often it has been restarted.
    """

    def __init__(
        self, name: str, slots: Iterable[str], task: Task, session: Session, find_place: FindPlace = own_machine
    ) -> None:
        self.id = name
        self.restarts = 0
        self._policy = RestartPolicy(task)
        self._task = task
        self._session = session
        self._find_place = find_place
        self._attempts = 0
        self._ports_taken = 0
        self.slots = tuple(slots)
        size = len(self.slots)
        self.members = tuple(RankMember(self, Rank(name, rank, size), slot) for rank, slot in enumerate(self.slots))
        self._round = _Round(self.members)
        self.stuck: str | None = None
        """Why it counts as stuck, in one line."""
        self.state_since = time.monotonic()
        """When its state began, monotonic seconds."""
        self._state: tuple[WorkerState, int] | None = None
        """Its state and attempt when they were last looked at."""

    def enter(self, state: WorkerState, changed_at: float) -> None:
        """Note its state; `changed_at` is when the state of a rank last changed, monotonic seconds.

        Where the group's is another than before, that was the change which made it so.
        """
        if (state, self._attempts) != self._state:
            self._state, self.state_since = (state, self._attempts), changed_at

    @property
    def policy(self) -> RestartPolicy:
        """When the group's next attempt is due."""
        return self._policy

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The ranks that are not ready to start while others are."""
        return self._round.absent if self._round.ready else ()

    @property
    def cause(self) -> str | None:
        """Which rank failed first in the current or last attempt, and of what, in one line; None where none did."""
        found = self._round.cause()
        if found is None:
            return f"stuck: {self._round.stuck}" if self._round.stuck is not None else None
        return _named(*found)

    @property
    def first_failed(self) -> str | None:
        """The slot of the rank whose failure is the cause; None where none has failed."""
        found = self._round.cause()
        return self.slots[found[0]] if found is not None else None

    @property
    def traces(self) -> str:
        """Where torch's flight recorder writes its dumps: the beginning of their paths; empty where it does not."""
        return self._round.traces

    @property
    def called_off(self) -> bool:
        """Whether the attempt is being ended."""
        return self._round.called_off

    async def run(self) -> None:
        """Begin an attempt of all ranks whenever one is due, until cancelled."""
        while True:
            await self._policy.wait()
            self._round = _Round(self.members)
            for member in self.members:
                member.policy.begin()
            await self._round.over.wait()

    def end(self) -> None:
        """End all ranks of the attempt that runs."""
        self._round.call_off()

    def replace(self, stuck: str) -> None:
        """End the attempt that runs, which is stuck: `stuck` says why. The policy has another one ready."""
        self._round.stuck = stuck
        self._round.call_off()

    # From the ranks

    async def meet(self, member: RankMember, say: Callable[[str | None], None]) -> Meeting | None:
        """Wait until all ranks are ready. None: the attempt is called off."""
        current = self._round
        current.arrive(member.rank.rank)
        if not current.absent and not current.called_off:
            self._attempts += 1
            self.restarts = self._attempts - 1
            self._policy.begun()
            address, port = await self._find_place(self.slots)
            current.release(self._attempts, address, port)
        while not current.settled:
            say(f"for {self._described(current.absent)}")
            await current.news()
        say(None)
        if current.called_off:
            return None
        return self._meeting(member, current)

    def _meeting(self, member: RankMember, current: _Round) -> Meeting:
        session, ddp = self._session, self._session.spec.ddp
        attempt = self._task.first_attempt + current.number - 1
        folder = Path(session.spec.folder, RANKS, f"{self.id}-{attempt}-rank{member.rank.rank}")
        recorded = ddp is not None and ddp.flight_recorder
        nodes = [_node_of(slot) for slot in self.slots]
        node, machines = nodes[member.rank.rank], list(dict.fromkeys(nodes))
        current.traces = str(folder.with_name(f"{self.id}-{attempt}") / TRACE) if recorded else ""
        return Meeting(
            member.rank.rank,
            member.rank.world_size,
            current.port,
            current.number - 1,
            self._task.max_restarts,
            f"{session.id}-{self.id}",
            str(folder / "error.json"),
            str(folder / "stacks.txt"),
            current.traces,
            current.address,
            nodes[: member.rank.rank].count(node),
            nodes.count(node),
            machines.index(node),
            len(machines),
            virtual_local_rank=ddp is not None and ddp.virtual_local_rank,
        )

    def has_ended(self, member: RankMember, exit_code: int) -> None:
        """A rank's process has ended: where it failed, the others are ended at once."""
        if exit_code != 0:
            self._round.failed_first(member.rank.rank)
            self._round.call_off()

    async def part(self, member: RankMember, outcome: Outcome, say: Callable[[str | None], None]) -> Failure | None:
        """Wait until all ranks have ended, and say why this one failed."""
        current = self._round
        if outcome.failure is not None or outcome.by_user:
            current.failed_first(member.rank.rank)
            current.call_off()
        current.leave(member.rank.rank, outcome)
        if not current.remaining:
            self._judge(current)
        while not current.over.is_set():
            say(f"for {self._described(current.remaining)} to end")
            await current.news()
        say(None)
        return current.failure_of(member.rank.rank)

    def _judge(self, current: _Round) -> None:
        """All ranks have ended: decide what comes next."""
        found = current.cause()
        outcomes = current.outcomes.values()
        failure = found[1] if found is not None else None
        taken = failure is not None and failure.kind is FailureKind.PORT
        self._ports_taken = self._ports_taken + 1 if taken else 0
        if taken and self._ports_taken < _PORTS and not any(outcome.by_user for outcome in outcomes):
            _log.info("%s: the port %d was taken; the group takes another", self.id, current.port)
            self._policy.again()
        elif self._task.job is not None and any(outcome.unprepared for outcome in outcomes):
            _log.info("%s: goes back to the queue", self.id)
        elif not any(outcome.by_user for outcome in outcomes):
            had_progress = any(outcome.had_progress for outcome in outcomes)
            running_s = max(outcome.running_s for outcome in outcomes)
            self._policy.after(failure, had_progress=had_progress, running_s=running_s)
        current.end()

    def _described(self, ranks: Iterable[int]) -> str:
        names = [f"{rank} ({self.members[rank].slot})" for rank in ranks]
        return ("rank " if len(names) == 1 else "ranks ") + ", ".join(names)


class RankMember:
    """A rank's place in its group."""

    def __init__(self, group: GroupRun, rank: Rank, slot: str) -> None:
        self.rank = rank
        self.slot = slot
        self.policy = RankPolicy(group.policy)
        self.companion: Companion | None = None
        """Its worker."""
        self.group = group

    @property
    def called_off(self) -> bool:
        """As `Member.called_off`."""
        return self.group.called_off

    async def meet(self, say: Callable[[str | None], None]) -> Meeting | None:
        """As `Member.meet`."""
        return await self.group.meet(self, say)

    def call_off(self) -> None:
        """As `Member.call_off`."""
        self.group.end()

    def has_ended(self, exit_code: int) -> None:
        """As `Member.has_ended`."""
        self.group.has_ended(self, exit_code)

    async def part(self, outcome: Outcome, say: Callable[[str | None], None]) -> Failure | None:
        """As `Member.part`."""
        return await self.group.part(self, outcome, say)


class _Round:
    """One attempt of a group: all ranks arrive, are released together, and leave."""

    def __init__(self, members: tuple[RankMember, ...]) -> None:
        self.over = asyncio.Event()
        self.called_off = False
        self.stuck: str | None = None
        """Why it was ended, if it was stuck."""
        self.number = 0
        """The attempt's, from 1; 0 before the ranks are released."""
        self.address = ""
        self.port = 0
        self.traces = ""
        """Where torch's flight recorder writes its dumps: the beginning of their paths; empty where it does not."""
        self.outcomes: dict[int, Outcome] = {}
        """By rank, in the order in which they left."""
        self._members = members
        self._arrived: set[int] = set()
        self._failed: list[int] = []
        """The ranks that failed, the first one first."""
        self._news = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether some ranks are ready, and wait for others."""
        return bool(self._arrived) and not self.settled

    @property
    def absent(self) -> tuple[int, ...]:
        """The ranks that have not arrived."""
        return tuple(m.rank.rank for m in self._members if m.rank.rank not in self._arrived)

    @property
    def remaining(self) -> tuple[int, ...]:
        """The ranks that have not left."""
        return tuple(m.rank.rank for m in self._members if m.rank.rank not in self.outcomes)

    @property
    def settled(self) -> bool:
        """Whether those that have arrived may go on."""
        return self.number > 0 or self.called_off

    async def news(self) -> None:
        """Wait for any change."""
        await self._news.wait()

    def arrive(self, rank: int) -> None:
        """A rank is ready to start."""
        self._arrived.add(rank)
        self._tell()

    def release(self, number: int, address: str, port: int) -> None:
        """All ranks may start: the group's attempt `number`, whose store opens `port` at the address."""
        self.number, self.address, self.port = number, address, port
        self._tell()

    def failed_first(self, rank: int) -> None:
        """A rank has failed; the order of these calls tells which was first."""
        if rank not in self._failed:
            self._failed.append(rank)

    def call_off(self) -> None:
        """End the others, and let nobody start."""
        if self.called_off:
            return
        self.called_off = True
        for member in self._members:
            if member.companion is not None:
                member.companion.end_with_group()
        self._tell()

    def leave(self, rank: int, outcome: Outcome) -> None:
        """A rank has ended."""
        self.outcomes[rank] = outcome
        self._tell()

    def end(self) -> None:
        """All have left, and what comes next is decided."""
        self.over.set()
        self._tell()

    def cause(self) -> tuple[int, Failure] | None:
        """The rank that failed first, and of what; one that only noticed that another is gone comes last."""
        found = [(rank, failure) for rank in self._failed if (failure := self._own(rank)) is not None]
        return next((one for one in found if one[1].kind not in _SYMPTOMS), found[0] if found else None)

    def _own(self, rank: int) -> Failure | None:
        outcome = self.outcomes.get(rank)
        return outcome.failure if outcome is not None else None

    def failure_of(self, rank: int) -> Failure | None:
        """Why a rank failed: by itself, or with its group."""
        cause = self.cause()
        if cause is None:
            return Failure(FailureKind.GROUP, f"the group was stuck: {self.stuck}", "") if self.stuck else None
        if cause[0] == rank:
            return cause[1]
        return Failure(FailureKind.GROUP, f"ended with the group: {_named(*cause)}", cause[1].advice)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _node_of(slot: str) -> str:
    """The node of a slot; empty on the engine's own machine."""
    return slot.rpartition("/")[0]


def _named(rank: int, failure: Failure) -> str:
    return f"rank {rank}: {failure.reason}"
