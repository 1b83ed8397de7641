"""A worker whose processes run on another machine, as its agent reports it."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.messages import WorkerReport
from gmg_tui.engine.nodes.place import Place, ToldMemory
from gmg_tui.engine.nodes.rank_link import RankLink
from gmg_tui.engine.workers.member import Member
from gmg_tui.engine.workers.slot_worker import KeptMemory, SlotWorker, Watcher
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.model import (
    Attempt,
    AttemptReport,
    Details,
    Fps,
    GpuSample,
    Phase,
    Progress,
    Rank,
    Slot,
    Stacks,
    WorkerState,
)

_NOTHING = Blocks(0, 0, ())
_OLD_S = 10.0
"""A rate that was reported longer ago than this is no rate of now: the node is silent."""


class NodeWorker(SlotWorker):
    """Its state is what was reported last; while its node is lost it waits for that, and a job's worker has failed."""

    def __init__(
        self, slot: Slot, place: Place, task: Task, log: str, watcher: Watcher, member: Member | None = None
    ) -> None:
        self.slot, self.task = slot, task
        self.args, self.env = task.args, dict(task.env)
        self.key = place.next_key()
        self.state_since = time.monotonic()
        self.reason: str | None = f"for {place.name}"
        self.advice = self.stuck = self.memory_kept = self.dump = self.unready = self.out_dir = None
        self.sample: GpuSample | None = None
        self.failure = None
        self.carried = False
        self.concluded = asyncio.Event()
        self._place, self._log, self._watcher, self._member = place, log, watcher, member
        self._link: RankLink | None = None
        self._report: WorkerReport | None = None
        self._received = 0.0
        """When the report came, monotonic seconds."""
        self._seen_ahead_s = 0.0
        """How far the clock here is ahead of the one that `RankSeen` has."""
        self._own: WorkerState | None = WorkerState.WAITING
        """The state, where that is not the reported one."""
        self._begun = self._ended = 0
        """The number of the last attempt that has begun, and of the last that has ended."""
        self._stopped_by: str | None = None
        self._is_to_stop = False
        self._carries = False

    # Life

    async def run(self) -> None:
        """Have the node's agent run it until cancelled; what runs then is killed there."""
        self._place.took(self)
        try:
            await self._place.may_start(self._wait_for)
            self._assign()
            await asyncio.Event().wait()
        finally:
            self._place.order(messages.Dismiss(self.key))
            self._place.left(self)
            if self._link is not None:
                self._link.close()

    def _assign(self) -> None:
        if self._own is WorkerState.STOPPED:  # by the user meanwhile
            return
        first = self.task.first_attempt
        if self._member is None:  # a rank's attempts are counted by its group
            first = max(first, self._begun + 1)
        self.task = replace(self.task, args=self.args, env=self.env, first_attempt=first)
        self._wait_for(f"for {self._place.name}")
        self._place.order(messages.Assign(self.key, self.slot.name, self.task, self._log, self.rank, self.memory_kept))
        if self._member is not None:
            self._link = RankLink(self._member, self.key, self._place.order, self._wait_for)

    def _wait_for(self, awaited: str | None) -> None:
        if self._own is not WorkerState.STOPPED and awaited != self.reason:
            self.reason = awaited
            self._watcher.changed(self)

    def lose(self, *, for_good: bool = False) -> None:
        """Its node is lost: a job goes back to its queue; any other worker waits for the node, unless it is `for_good`."""
        reason = f"{self._place.name} is lost"
        if self.concluded.is_set():
            return
        self._end_record(reason)
        if self._link is not None:
            self._link.lost(reason)
            self._link = None
        if self._is_to_stop:
            self._enter(WorkerState.STOPPED, self._stopped_by)
        elif self.task.job is not None or for_good:
            self.unready = reason
            self._enter(WorkerState.FAILED, reason)
        else:
            self._enter(WorkerState.RESTARTING, f"{reason}; it starts again when that is back")

    def _end_record(self, reason: str) -> None:
        """Record the end of the attempt that ran."""
        report = self._report
        attempt = report.attempt if report is not None else None
        if report is None or attempt is None or attempt.record.ended is not None:
            return
        record = structs.replace(attempt.record, state=WorkerState.FAILED, ended=time.time(), reason=reason)
        self._report = structs.replace(report, attempt=structs.replace(attempt, record=record))
        self._ended = record.number
        self._watcher.ended(self)

    def come_back(self) -> None:
        """Its node is there again, with an agent that knows nothing of it."""
        if self.task.job is None and not self.concluded.is_set():
            self.key = self._place.next_key()
            self._place.took(self)
            self._report = None
            self._own = WorkerState.RESTARTING
            self._assign()

    def _enter(self, state: WorkerState | None, reason: str | None) -> None:
        self._own, self.reason = state, reason
        self.state_since = time.monotonic()
        if self.state.ended:
            self.concluded.set()
        else:
            self.concluded.clear()
        self._watcher.changed(self)

    # From the agent

    def take(self, report: WorkerReport, ahead_s: float) -> None:
        """The agent reports; the monotonic clock here is `ahead_s` ahead of its."""
        said = (self.state, self.reason, self.phase, self.stuck, self.attempt_started)
        now = time.monotonic()
        self._report, self._received, self._seen_ahead_s = report, now, ahead_s
        if not self._waits_for_node:
            self._own = None
            view = report.view
            self.args, self.env = report.args, report.env
            self.reason, self.advice, self.stuck = self._reason(report), view.advice, view.stuck or self._group_stuck
            self.failure, self.unready, self.out_dir = report.failure, report.unready, report.out_dir
            self.carried = report.carried
            self.state_since = now - view.state_s
        if self._link is not None:
            self._link.take(report)
        self._record_attempts(report)
        if report.concluded and not self._waits_for_node:
            self.concluded.set()
        elif not report.concluded:
            self.concluded.clear()
        if said != (self.state, self.reason, self.phase, self.stuck, self.attempt_started):
            self._watcher.changed(self)

    @property
    def _waits_for_node(self) -> bool:
        return self._place.lost_since is not None

    def _reason(self, report: WorkerReport) -> str | None:
        if report.view.state is WorkerState.STOPPED:
            return self._stopped_by or report.view.reason
        if self._link is not None and report.view.reason is None and report.view.state in _WAITING:
            return self.reason  # what the group has said
        return report.view.reason

    def _record_attempts(self, report: WorkerReport) -> None:
        """Tell the watcher of each attempt that has begun or ended since the last report."""
        attempt = report.attempt
        for record in report.earlier:
            if record.number > self._ended:
                self._report = structs.replace(report, attempt=AttemptReport(record))
                self._tell(record)
        self._report = report
        if attempt is not None:
            self._tell(attempt.record)

    def _tell(self, record: Attempt) -> None:
        if record.pid is not None and record.number > self._begun:
            self._begun, self._carries = record.number, False
            self._watcher.began(self)
        if record.ended is not None and record.state.ended and record.number > self._ended:
            self._begun = self._ended = record.number
            self._watcher.ended(self)

    # Commands

    def restart(self) -> None:
        """As `SlotWorker.restart`."""
        if self._member is not None:
            self._member.policy.now()
        self._stopped_by, self._is_to_stop = None, False
        if self._own is WorkerState.STOPPED:  # before it was assigned, or while its node was lost
            self._enter(WorkerState.RESTARTING, f"for {self._place.name}")
            if self._place.lost_since is None:
                self._report = None
                self._assign()
            return
        self._place.order(messages.Restart(self.key))

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """As `SlotWorker.edit`."""
        self.args, self.env = args, dict(env)
        if self._member is not None:
            self._member.policy.now()
        if self._waits_for_node or self._own is WorkerState.STOPPED:
            self.restart()
        else:
            self._place.order(messages.Edit(self.key, args, dict(env)))

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """As `SlotWorker.stop`."""
        self._stopped_by, self._is_to_stop = reason or self._stopped_by, True
        if self._member is not None:
            self._member.policy.never()
        if self.state.ended:
            return
        self._place.order(messages.Stop(self.key, kill, reason))
        if self._report is None or self._waits_for_node:
            if self._member is not None:
                self._member.call_off()
            self._enter(WorkerState.STOPPED, self._stopped_by)

    def end_with_group(self) -> None:
        """As `SlotWorker.end_with_group`."""
        self._place.order(messages.CalledOff(self.key))
        self._place.order(messages.EndWithGroup(self.key))

    def pass_on(self, number: signal.Signals) -> bool:
        """As `SlotWorker.pass_on`; whether it listens is not known here."""
        if self.state.live:
            self._place.order(messages.PassOn(self.key, number.value))
        return self.state.live

    def stick(self, why: str | None) -> None:
        """As `SlotWorker.stick`."""
        was_stuck, self.stuck = self.stuck, why
        if (was_stuck is None) != (why is None):
            self._watcher.changed(self)

    @property
    def _group_stuck(self) -> str | None:
        return self.stuck if self._member is not None else None

    def run_with_group(self) -> None:
        """As `SlotWorker.run_with_group`."""
        if not self._carries and not self.carried and not self.reports_for_all:
            self._carries = True
            self._place.order(messages.RunWithGroup(self.key))

    # Look

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Keep the sample; the agent measures by its own."""
        self.sample = sample

    def settle(self) -> None:
        """The agent does."""

    @property
    def state(self) -> WorkerState:
        """As it was reported last, or while its node is lost as that makes it."""
        if self._own is not None or self._report is None:
            return self._own or WorkerState.WAITING
        return self._report.view.state

    @property
    def rank(self) -> Rank | None:
        """Its place in its group; None where it is no rank."""
        return self._member.rank if self._member is not None else None

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        return self._report.view.phase if self._report is not None and self._own is None else Phase.NONE

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still says so."""
        report = self._report
        if report is None or self.state is not WorkerState.RUNNING or report.view.fps_silent_s is not None:
            return None
        if time.monotonic() - self._received >= _OLD_S:
            return None
        return report.view.fps

    @property
    def fps_of_group(self) -> bool:
        """Whether its attempt tells the rate of its whole group."""
        return self._report is not None and self._report.fps_of_group

    @property
    def progress(self) -> Progress | None:
        """How far its attempt is, if that says so."""
        return self._report.progress if self._report is not None else None

    @property
    def attempt_started(self) -> int | None:
        """The number of its attempt once that has a process; None before."""
        attempt = self._report.attempt if self._report is not None else None
        return attempt.record.number if attempt is not None and attempt.record.pid is not None else None

    @property
    def first_started(self) -> float | None:
        """When the first of its attempts that are kept has started, Unix seconds; None before."""
        started = self._report.first_started if self._report is not None else None
        return started - self._place.skew_s if started is not None else None

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes, as the node counts them."""
        return frozenset(self._report.pids) if self._report is not None else frozenset()

    @property
    def memory(self) -> KeptMemory | None:
        """The GPU memory of its attempt; None if none has run."""
        return ToldMemory(self._report.memory) if self._report is not None else None

    def reported(self) -> AttemptReport | None:
        """All about its newest attempt at this moment, by the clock here; None before the first."""
        attempt = self._report.attempt if self._report is not None else None
        if attempt is None or not (skew_s := self._place.skew_s):
            return attempt
        record = attempt.record
        ended = record.ended - skew_s if record.ended is not None else None
        return structs.replace(attempt, record=structs.replace(record, started=record.started - skew_s, ended=ended))

    def blocks(self, mark: int) -> Blocks:
        """The blocks of its loop that were closed since `mark`."""
        known = self._report.blocks if self._report is not None else None
        if known is None:
            return _NOTHING
        count = known.mark - max(mark, known.begun)
        return known._replace(blocks=known.blocks[-count:] if count > 0 else ())

    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""
        seen = self._report.seen if self._report is not None and self._own is None else None
        return seen.later(self._seen_ahead_s) if seen is not None else RankSeen()

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it."""
        report, since = self._report, self._place.lost_since
        if report is None:
            shown = model.Worker(
                self.slot.name, index, self.state, args=self.args, job=self.task.job, job_name=self.task.name
            )
        else:
            shown = structs.replace(report.view, index=index)
        late_s = now - self._received if report is not None and self._own is None else 0.0
        if late_s >= _OLD_S and shown.fps is not None:
            shown = structs.replace(shown, fps_silent_s=late_s)
        shown = structs.replace(
            shown,
            state=self.state,
            attempt=shown.attempt or self._begun,
            state_s=now - self.state_since,
            phase=self.phase,
            phase_s=shown.phase_s + late_s,
            reason=self.reason,
            stuck=self.stuck,
            group=self.rank,
            lost_since=since if since is not None and not self.state.ended else None,
            warnings=(*shown.warnings, *(text for text in (self.dump,) if text is not None)),
        )
        if self._own is None:
            return shown
        return structs.replace(shown, pid=None, fps_silent_s=None, restart_in_s=None, stopping=None)

    async def details(self) -> Details:
        """As the agent gives them. Raises `GmgError`."""
        return await self._place.details(self.slot.name)

    async def stacks(self) -> Stacks:
        """As the agent gives them. Raises `GmgError`."""
        return await self._place.stacks(self.slot.name)


_WAITING = frozenset({WorkerState.WAITING, WorkerState.RESTARTING})
