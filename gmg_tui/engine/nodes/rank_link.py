"""A rank whose worker is on a node, and its place in the group, which is here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.messages import Order, WorkerReport
from gmg_tui.engine.workers.member import Member, Outcome
from gmg_tui.genesis.output.failures import Failure, FailureKind


class RankLink:
    """Hands on what the rank tells to its group, and what the group says to the rank, by orders to its worker `key`."""

    def __init__(
        self, member: Member, key: int, order: Callable[[Order], None], say: Callable[[str | None], None]
    ) -> None:
        self._member, self._key, self._order, self._say = member, key, order, say
        self._arrived = self._parted = self._ended = self._calls_off = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        """Tell the rank each time that the group's next attempt is due."""
        while True:
            await self._member.policy.wait()
            self._order(messages.Due(self._key))

    def take(self, report: WorkerReport) -> None:
        """See what the rank has done."""
        if report.calls_off > self._calls_off:
            self._calls_off = report.calls_off
            self._member.call_off()
        if report.arrived > self._arrived:
            self._arrived = report.arrived
            self._begin(self._meet(report.arrived))
        for code in report.exit_codes[self._ended :]:
            self._ended += 1
            self._member.has_ended(code)
        if report.parted > self._parted and report.outcome is not None:
            self._parted = report.parted
            self._begin(self._part(report.parted, report.outcome))

    def lost(self, reason: str) -> None:
        """Its node is lost, and its process with it: the group's attempt fails."""
        arrived, parted = self._arrived, self._parted
        self.close()
        if arrived > parted:
            failure = Failure(FailureKind.DEVICE, reason, "")
            self._member.has_ended(1)
            self._begin(self._part(arrived, Outcome(failure)))

    def _begin(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _meet(self, number: int) -> None:
        meeting = await self._member.meet(self._say)
        self._order(messages.Met(self._key, number, meeting))

    async def _part(self, number: int, outcome: Outcome) -> None:
        failure = await self._member.part(outcome, self._say)
        self._order(messages.Parted(self._key, number, failure, self._member.policy.pending))

    def close(self) -> None:
        """The worker is dismissed, or gone."""
        self._waits.cancel()
        for task in self._tasks:
            task.cancel()
