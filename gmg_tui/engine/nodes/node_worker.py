"""A worker whose processes run on another machine: the node's agent runs each attempt, and what follows is decided here."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.nodes.states import Assignment, Stop, WorkerReport
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.model import Attempt, Details, Fps, Phase, Slot, Stacks, WorkerState
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Meeting

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.node import Node

_keys = count(1)


class NodeWorker(Worker):
    """Has the state that was reported last. The attempt of a rank or a job fails with its node; any other continues there.

    Attributes:
        log: A path in the session's folder.
        assignment: What its slot is to run; None before the first attempt.
    """

    def __init__(
        self, slot: Slot, node: Node, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> None:
        super().__init__(node.spec, slot, task, watcher, member)
        self.log, self.reason = log, f"for {node.name}"
        self.assignment: Assignment | None = None
        self._node = node
        self._key = next(_keys)
        self._report = self._empty_report()
        self._last_started = self._last_ended = 0
        """Numbers of attempts."""
        self._outcome: asyncio.Future[Outcome] | None = None
        """How the attempt that the agent runs, or ran last, has ended."""

    def _empty_report(self) -> WorkerReport:
        """What is displayed until the agent reports: only the last attempt."""
        last = self._report.view.newest if self.assignment is not None else Attempt(0, self.args)
        slot, job, name = self.slot.name, self.task.job, self.task.name
        view = model.Worker(slot, 0, WorkerState.WAITING, newest=last, job=job, job_name=name)
        return WorkerReport(0, 0, view)

    # Attempts

    async def _ready(self) -> None:
        if not self._node.available.is_set():
            self._wait_for(f"for {self._node.name}")
            await self._node.available.wait()

    async def _break_off(self) -> None:
        self._node.dismiss(self)
        if self._assigned:
            self._settle(Outcome())

    async def _attempt(self, meeting: Meeting | None) -> Outcome:
        if self.rank is None:
            self.policy.begun()
        self._outcome = asyncio.get_running_loop().create_future()
        first = self.task.first_attempt  # a group counts the attempts of its ranks
        number = first if self.rank is not None else max(first, self._last_started + 1)
        self.task = replace(self.task, args=self.args, env=self.env, first_attempt=number)
        serial = self.assignment.serial + 1 if self.assignment is not None else 1
        self._report = self._empty_report()
        self.assignment = Assignment(self._key, serial, self.task, self.log, self.rank, meeting)
        self._node.assign(self)
        return await self._outcome

    def _settle(self, outcome: Outcome) -> None:
        """The assigned attempt has ended: no agent that has not run it starts it."""
        if self._outcome is not None and self.assignment is not None:
            self.assignment = structs.replace(self.assignment, ended=True)
            self._outcome.set_result(outcome)

    def _record_end(self, state: WorkerState, reason: str | None) -> None:
        attempt = self.attempt
        if attempt is not None and attempt.number > self._last_ended:
            attempt = structs.replace(attempt, state=state, ended=attempt.ended or time.time(), reason=reason)
            self._report = _with_attempt(self._report, attempt)
            self._last_ended = attempt.number
            self._watcher.ended(self)

    @property
    def _assigned(self) -> bool:
        """Whether the agent runs an attempt."""
        return self._outcome is not None and not self._outcome.done()

    def _assign(self, **changes: Any) -> None:
        assert self.assignment is not None
        self.assignment = structs.replace(self.assignment, **changes)
        self._node.assign(self)

    # From the node

    def node_lost(self, reason: str, *, for_good: bool = False, replaced: bool = False) -> None:
        """Its node is lost, perhaps `for_good`; or it is back with an agent that has `replaced` the one that ran this.

        The attempt of a job or a rank fails, and a job goes back to its queue. Any other continues when the node is back.
        """
        is_job, is_rank = self.task.job is not None, self.rank is not None
        stopped = self.assignment is not None and self.assignment.stop is not None
        if self.concluded.is_set():
            return
        if is_job or for_good:
            self.unready = reason
        if for_good and not is_rank:
            self.policy.never()
        if not self._assigned:
            if self.unready is not None and self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
                if not is_rank:
                    self._enter(WorkerState.FAILED, reason)
                self._member.call_off()
                self._hurry()
        elif stopped or is_job or for_good or replaced or is_rank:
            if replaced and not (is_rank or is_job or stopped):
                self.policy.again()
            failure = None if stopped else Failure(FailureKind.DEVICE, reason, "")
            self._state = WorkerState.STOPPING  # until `_run_attempt` enters another
            self._settle(Outcome(failure, stopped, unprepared=is_job))
            self._member.has_ended(1)
        else:
            self._enter(WorkerState.RESTARTING, f"{reason}; it continues when that is back")

    def take_report(self, report: WorkerReport) -> None:
        """Take the agent's report; one on another attempt than the assigned one is ignored."""
        assignment = self.assignment
        if assignment is None or not self._assigned or self._node.lost_since is not None:
            return
        if (report.key, report.serial) != (assignment.key, assignment.serial):
            return
        before, now, view = self._displayed(), time.monotonic(), report.view
        if report.seen is not None:
            report = structs.replace(report, seen=report.seen.later(now))
        if not view.newest.number and (last := self.attempt) is not None:
            report = _with_attempt(report, last)
        self._report, self._state = report, WorkerState.STARTING
        self.reason, self.advice = view.reason, view.advice
        self.unready = report.unready
        if not self.carried:
            self.state_since = now - max(0.0, time.time() - view.state_since)
        attempt = report.view.newest
        if attempt.pid is not None and attempt.number > self._last_started:
            self._last_started = attempt.number
            self._watcher.began(self)
        if attempt.exit_code is not None and attempt.number > self._last_ended:
            self._member.has_ended(attempt.exit_code)
        if report.outcome is not None:
            self._state = WorkerState.STOPPING
            self._settle(report.outcome)
            return
        if self.rank is None:  # a rank's group is checked as a whole
            self.stick(view.stuck, replace=self._node.spec.restart_stuck)
        if before != self._displayed():
            self._watcher.changed(self)

    def _displayed(self) -> tuple[object, ...]:
        return self.state, self.reason, self.phase, self.stuck, self._last_started

    # Commands

    def _end_attempt(self, *, kill: bool = False) -> bool:
        if not self._assigned:
            return False
        self._assign(stop=Stop(kill, self._stopped_by))
        if self._node.lost_since is not None:
            self._settle(Outcome(by_user=True))
        return True

    def _end_stuck(self, why: str) -> None:
        self._stopped_by = f"stuck: {why}"
        self._assign(stop=Stop(reason=self._stopped_by))

    def end_with_group(self) -> None:
        """As `Worker.end_with_group`."""
        self._hurry()
        if self._assigned:
            self._assign(ends_with_group=True)

    def pass_on(self, number: signal.Signals) -> bool:
        """As `Worker.pass_on`; whether it has a handler is unknown here."""
        if self.assignment is not None and self.state.live:
            self._assign(signals=(*self.assignment.signals, number.value))
        return self.state.live

    # State

    @property
    def _shown(self) -> tuple[WorkerState, Phase] | None:
        return self._report.view.state, self._report.view.phase

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still reports it."""
        view = self._report.view
        return view.fps if self.state is WorkerState.RUNNING and view.fps_silent_since is None else None

    @property
    def attempt(self) -> Attempt | None:
        """Its newest attempt at this moment; None before the first."""
        newest = self._report.view.newest
        return newest if newest.number else None

    @property
    def result(self) -> dict[str, Any]:
        """What its attempt has reported."""
        return self._report.result

    def seen(self) -> RankSeen:
        """As `Worker.seen`."""
        return self._report.seen if self._report.seen is not None and self._is_reported else RankSeen()

    def _view(self, now: float) -> model.Worker:
        view, lost_since = self._report.view, self._node.lost_since
        if not self._is_reported:
            view = structs.replace(view, fps_silent_since=None, stopping=None)
        return structs.replace(
            view,
            state_since=view.state_since if self._is_reported and not self.carried else unix(self.state_since),
            advice=self.advice,
            lost_since=lost_since if not self.state.ended else None,
        )

    @property
    def _is_reported(self) -> bool:
        """Whether the agent determines the state."""
        return self._state is WorkerState.STARTING

    async def details(self) -> Details:
        """From the agent. Raises `GmgError`."""
        return await self._node.client.details(self.slot.name)

    async def stacks(self) -> Stacks:
        """From the agent. Raises `GmgError`."""
        return (await self._node.client.stacks(self.slot.name))[0]


def _with_attempt(report: WorkerReport, attempt: Attempt) -> WorkerReport:
    return structs.replace(report, view=structs.replace(report.view, newest=attempt))
