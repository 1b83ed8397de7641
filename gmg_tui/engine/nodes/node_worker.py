"""A worker whose processes run on another machine: each attempt is run there by the node's agent, and judged here."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from msgspec import structs

from gmg_tui import model
from gmg_tui.client import EngineClient
from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.nodes.states import Stop, Wanted, WorkerReport
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import Attempt, Details, Fps, GpuSample, Phase, RunSpec, Slot, Stacks, WorkerState

_OLD_S = 10.0
"""A rate that was reported longer ago than this is no rate of now: the node is silent."""
_keys = count(1)


class Host(Protocol):
    """The node, as its workers use it."""

    name: str
    spec: RunSpec
    lost_since: float | None
    back: asyncio.Event

    @property
    def client(self) -> EngineClient:
        """The connection to its agent. Raises `GmgError` where there is none."""

    def want(self, worker: NodeWorker) -> None:
        """Its slot is to run what this worker wants now."""

    def no_longer(self, worker: NodeWorker) -> None:
        """Its slot is to run nothing, unless it is another worker's by now."""


class NodeWorker(Worker):
    """Its state is what was reported last. The attempt of a rank or a job fails with its node; any other goes on there.

    Attributes:
        log: A path in the session's folder.
        wanted: What its slot is to run; None before the first attempt.
    """

    def __init__(
        self, slot: Slot, node: Host, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> None:
        super().__init__(slot, task, watcher, member.rank if member is not None else None)
        self.log, self.reason = log, f"for {node.name}"
        self.wanted: Wanted | None = None
        self._node = node
        self._member: Member = member or Member(RestartPolicy(task))
        self._key = next(_keys)
        self._report = self._nothing()
        self._received = 0.0
        """When the report came, monotonic seconds."""
        self._own: WorkerState | None = WorkerState.WAITING
        """The state, where that is not the reported one."""
        self._begun = self._ended = 0
        """The number of the last attempt that has begun, and of the last that has ended."""
        self._outcome: asyncio.Future[Outcome] | None = None
        """How the attempt that the agent runs, or ran last, has ended."""
        self._hurry = asyncio.Event()
        """Set when the attempt that is due is not to begin."""

    def _nothing(self) -> WorkerReport:
        """What is displayed until the agent reports: only the last attempt."""
        job, name = self.task.job, self.task.name
        last = self._report.view.current if self.wanted is not None else None
        view = model.Worker(
            self.slot.name, 0, WorkerState.WAITING, current=last, args_given=self.args, job=job, job_name=name
        )
        return WorkerReport(0, 0, view)

    # Attempts

    async def run(self) -> None:
        """Have the node's agent run one attempt after another until cancelled; what runs then is killed there."""
        try:
            while True:
                await self._member.policy.wait()
                await self._run_attempt()
        finally:
            self._node.no_longer(self)

    async def _run_attempt(self) -> None:
        """Have one attempt run, once the node is there and the other ranks are ready, and wait until all have ended."""
        member, policy = self._member, self._member.policy
        await self._node_or_hurry()
        meeting = await member.meet(self._wait_for)
        begins = not (self._hurry.is_set() or member.called_off)
        outcome = await self._attempt(meeting) if begins else Outcome(by_user=self._own is WorkerState.STOPPED)
        if begins and self.rank is not None:
            self._enter(WorkerState.STOPPING, None)
        self.failure = failure = await member.part(outcome, self._wait_for)
        if self._ended_early:
            return
        self.stuck = None
        state, reason = WorkerState.FINISHED, None
        if outcome.by_user:
            state, reason = WorkerState.STOPPED, self._stop_reason
        elif failure is not None:
            state, reason = WorkerState.FAILED, failure.reason
        elif self.unready is not None:
            state, reason = WorkerState.FAILED, self.unready
        elif not begins or (self.wanted is not None and self.wanted.ends_with_group):
            state, reason = WorkerState.STOPPED, "ended with the group"
        if begins:
            self._end_record(state, reason)
            if not (outcome.by_user or (outcome.unprepared and self.task.job is not None)):
                policy.after(failure, had_progress=outcome.had_progress, running_s=outcome.running_s)
        self._enter(WorkerState.RESTARTING if policy.pending else state, reason)
        if state is WorkerState.FAILED and failure is not None:
            own = outcome.failure is failure and self._report.view.advice
            self.advice = own or failure.advice or None

    async def _node_or_hurry(self) -> None:
        self._hurry.clear()
        self.failure = self.unready = None
        self._enter(WorkerState.RESTARTING if self._begun else WorkerState.WAITING, f"for {self._node.name}")
        waits = [asyncio.create_task(event.wait()) for event in (self._node.back, self._hurry)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _attempt(self, meeting: Meeting | None) -> Outcome:
        """Have the agent run an attempt. Returns how it has ended."""
        self._member.policy.begun()
        self._outcome = asyncio.get_running_loop().create_future()
        # The group counts the attempts of its ranks.
        first = self.task.first_attempt if self.rank is not None else max(self.task.first_attempt, self._begun + 1)
        self.task = replace(self.task, args=self.args, env=self.env, first_attempt=first)
        turn = self.wanted.turn + 1 if self.wanted is not None else 1
        self._report = self._nothing()
        self.wanted = Wanted(self._key, turn, self.task, self.log, self.rank, meeting)
        self._node.want(self)
        return await self._outcome

    def _settle(self, outcome: Outcome) -> None:
        """The attempt that is in flight has ended: no agent that has not run it begins it."""
        if self._outcome is not None and self.wanted is not None:
            self.wanted = structs.replace(self.wanted, over=True)
            self._outcome.set_result(outcome)

    def _end_record(self, state: WorkerState, reason: str | None) -> None:
        """Record the end of the attempt that ran."""
        attempt = self.attempt
        if attempt is not None and attempt.number > self._ended:
            attempt = structs.replace(attempt, state=state, ended=attempt.ended or time.time(), reason=reason)
            self._report = _with_attempt(self._report, attempt)
            self._ended = attempt.number
            self._watcher.ended(self)

    @property
    def _in_flight(self) -> bool:
        """Whether the agent runs an attempt."""
        return self._outcome is not None and not self._outcome.done()

    @property
    def _ended_early(self) -> bool:
        """Whether it was ended before its attempt began."""
        return self._own is not None and self._own.ended

    @property
    def _stop_reason(self) -> str | None:
        return self.wanted.stop.reason if self.wanted is not None and self.wanted.stop is not None else None

    def _want(self, **changes: Any) -> None:
        assert self.wanted is not None
        self.wanted = structs.replace(self.wanted, **changes)
        self._node.want(self)

    def _enter(self, state: WorkerState, reason: str | None) -> None:
        self._own, self.reason, self.advice, self.state_since = state, reason, None, time.monotonic()
        (self.concluded.set if state.ended else self.concluded.clear)()
        self._watcher.changed(self)

    def _wait_for(self, awaited: str | None) -> None:
        if not self._ended_early and awaited != self.reason:
            self.reason = awaited
            self._watcher.changed(self)

    # From the node

    def lose(self, reason: str, *, for_good: bool = False, replaced: bool = False) -> None:
        """Its node is lost, `for_good` or not, or it is there again with an agent that has `replaced` the one that ran it.

        The attempt of a job or a rank fails, and a job goes back to its queue. Any other goes on when the node is back.
        """
        is_job, is_rank = self.task.job is not None, self.rank is not None
        stopped = self.wanted is not None and self.wanted.stop is not None
        if self.concluded.is_set():
            return
        if is_job or for_good:
            self.unready = reason
        if for_good and not is_rank:
            self._member.policy.never()
        if not self._in_flight:
            if self.unready is not None and self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
                self._hurry.set()
                self._member.call_off()
                if not is_rank:
                    self._enter(WorkerState.FAILED, reason)
        elif stopped or is_job or for_good or replaced or is_rank:
            if replaced and not (is_rank or is_job or stopped):
                self._member.policy.again()
            failure = None if stopped else Failure(FailureKind.DEVICE, reason, "")
            self._own = WorkerState.STOPPING  # until it is judged
            self._settle(Outcome(failure, stopped, unprepared=is_job))
            self._member.has_ended(1)
        else:
            self._enter(WorkerState.RESTARTING, f"{reason}; it goes on when that is back")

    def take(self, report: WorkerReport) -> None:
        """Apply a report of the agent; those on another attempt than the wanted one are ignored."""
        wanted = self.wanted
        if wanted is None or not self._in_flight or self._node.lost_since is not None:
            return
        if (report.key, report.turn) != (wanted.key, wanted.turn):
            return
        before, now, view, was_stuck = self._shown(), time.monotonic(), report.view, self.stuck
        if report.seen is not None:
            report = structs.replace(report, seen=report.seen.later(now))
        if view.current is None and (last := self.attempt) is not None:
            report = _with_attempt(report, last)
        self._report, self._received, self._own = report, now, None
        self.reason, self.advice = view.reason, view.advice
        self.unready, self.out_dir, self.carried = report.unready, report.out_dir, report.carried
        self.state_since = now - max(0.0, time.time() - view.state_since)
        attempt = report.view.current
        if attempt is not None and attempt.pid is not None and attempt.number > self._begun:
            self._begun = attempt.number
            self._watcher.began(self)
        if attempt is not None and attempt.exit_code is not None and attempt.number > self._ended:
            self._member.has_ended(attempt.exit_code)
        if report.outcome is not None:
            self._own = WorkerState.STOPPING
            self._settle(report.outcome)
            return
        if self.rank is None:  # a rank's group is checked as a whole
            self.stuck = view.stuck
            if self.stuck and not was_stuck and self._node.spec.restart_stuck and self._member.policy.replace_stuck():
                self._want(stop=Stop(reason=f"stuck: {self.stuck}"))
        if before != self._shown():
            self._watcher.changed(self)

    def _shown(self) -> tuple[object, ...]:
        return self.state, self.reason, self.phase, self.stuck, self._begun

    # Commands

    def restart(self) -> None:
        """As `Worker.restart`."""
        self._member.policy.now()
        if self._in_flight:
            self._want(stop=Stop())

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """As `Worker.stop`."""
        self._member.policy.never()
        if self._in_flight:
            self._want(stop=Stop(kill, reason or self._stop_reason))
            if self._node.lost_since is not None:
                self._settle(Outcome(by_user=True))
        elif self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._enter(WorkerState.STOPPED, reason)
            self._hurry.set()
            self._member.call_off()

    def end_with_group(self) -> None:
        """As `Worker.end_with_group`."""
        self._hurry.set()
        if self._in_flight:
            self._want(ends_with_group=True)

    def pass_on(self, number: signal.Signals) -> bool:
        """As `Worker.pass_on`; whether it has a handler is unknown here."""
        if self.wanted is not None and self.state.live:
            self._want(signals=(*self.wanted.signals, number.value))
        return self.state.live

    def run_with_group(self) -> None:
        """As `Worker.run_with_group`."""
        if self.wanted is not None and not (self.wanted.carried or self.carried or self.reports_for_all):
            self._want(carried=True)

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Keep the sample; the agent measures by its own."""
        self.sample = sample

    # Look

    @property
    def state(self) -> WorkerState:
        """As it was reported last, or between two attempts and while its node is lost as that makes it."""
        return self._own or self._report.view.state

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        return self._report.view.phase if self._own is None else Phase.NONE

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still reports it."""
        view = self._report.view
        current = self.state is WorkerState.RUNNING and view.fps_silent_since is None
        return view.fps if current and time.monotonic() - self._received < _OLD_S else None

    @property
    def attempt(self) -> Attempt | None:
        """Its newest attempt at this moment; None before the first."""
        return self._report.view.current

    @property
    def result(self) -> dict[str, Any]:
        """What its attempt has reported."""
        return self._report.result

    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""
        return self._report.seen if self._report.seen is not None and self._own is None else RankSeen()

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it."""
        view, lost_since, at = self._report.view, self._node.lost_since, self._member.policy.at
        if self._own is not None:
            view = structs.replace(view, state_since=unix(self.state_since), fps_silent_since=None, stopping=None)
        elif view.fps is not None and now - self._received >= _OLD_S:
            view = structs.replace(view, fps_silent_since=unix(self._received))
        return structs.replace(
            view,
            index=index,
            state=self.state,
            phase=self.phase,
            reason=self.reason,
            advice=self.advice,
            stuck=self.stuck,
            group=self.rank,
            restart_at=unix(at) if at is not None else None,
            lost_since=lost_since if not self.state.ended else None,
        )

    async def details(self) -> Details:
        """As the agent gives them. Raises `GmgError`."""
        return await self._node.client.details(self.slot.name)

    async def stacks(self) -> Stacks:
        """As the agent gives them. Raises `GmgError`."""
        return (await self._node.client.stacks(self.slot.name))[0]


def _with_attempt(report: WorkerReport, attempt: Attempt) -> WorkerReport:
    return structs.replace(report, view=structs.replace(report.view, current=attempt))
