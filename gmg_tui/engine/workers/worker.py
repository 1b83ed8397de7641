"""A worker: a job on a slot, across all its attempts; decides when the next one starts, and with which arguments."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.kinds import action_for
from gmg_tui.engine.attempts.attempt import Life, Outcome, RankActivity, Stop, StopCause, Task, outcome_without_process
from gmg_tui.engine.clock import unix
from gmg_tui.engine.workers.failed_starts import FailedStarts
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.model import NO_ATTEMPT, Alert, AlertAction, Details, Phase, Stacks, WorkerState
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Rendezvous

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Attempt, Workplace
    from gmg_tui.engine.records.recorder import Recorder
    from gmg_tui.engine.workers.group import Group

_log = logging.getLogger(__name__)

_MAX_RECORDS = 200


class Worker:
    """A job on a slot, and the commands for it; `group` is the group of a rank, if this engine manages it.

    Attributes:
        task: The task of the current attempt, unless edited since, and of the next.
        policy: Decides when the next attempt is due; shared by the ranks of a group.
        newest: The newest prepared attempt; None before the first.
        past: Records of earlier attempts, oldest first.
        stuck: The reason that it counts as stuck; None if it does not.
        failure: The failure of the last attempt or its group; None if there is none.
        outcome: The outcome of the last attempt; None before the first, and during an attempt.
        follows_rank0: True if rank 0 reports progress for it.
        concluded: Set while no attempt is running and none will follow unless the user requests one.
    """

    def __init__(
        self,
        engine_slot: EngineSlot,
        task: Task,
        workplace: Workplace,
        recorder: Recorder,
        group: Group | None = None,
    ) -> None:
        self.slot = engine_slot.slot
        self.task, self.rank = task, task.rank
        self.policy = RestartPolicy(workplace.spec)
        if group is not None:
            self.policy = group.policy
            group.workers.append(self)
        self.newest: Attempt | None = None
        self.past: deque[model.Attempt] = deque(maxlen=_MAX_RECORDS)
        self.state_since = time.monotonic()
        self.reason: str | None = None
        self.advice: str | None = None
        self.stuck: str | None = None
        self.failure: Failure | None = None
        self.outcome: Outcome | None = None
        self.race: FailureKind | None = None
        """The kind of race with another worker that ended an earlier attempt; None if none did."""
        self.follows_rank0 = False
        self.concluded = asyncio.Event()
        self._engine_slot, self._workplace, self._recorder, self._group = engine_slot, workplace, recorder, group
        self._attempt: Attempt | None = None
        """The current attempt, from its preparation to the outcome."""
        self._idle_state = self._reported_state = WorkerState.WAITING
        self._failed_starts = FailedStarts()
        self._stop_reason: str | None = None
        """The reason it was stopped; None if by the user."""
        self._is_done = False
        """True if it was stopped by an alert that its work is done."""

    # Lifecycle

    async def run(self) -> None:
        """Runs attempts until cancelled; cancelling kills a running one."""
        while True:
            await (self.policy.wait_until_due() if self._group is None else self._group.wait_until_due(self._rank))
            try:
                await self._run_attempt()
            except Exception as error:  # an internal error must not affect the other workers
                _log.exception("%s: the attempt failed because of an internal error", self.slot.name)
                reason = f"internal error ({type(error).__name__}: {error}); see engine.log"
                self.failure = Failure(FailureKind.UNKNOWN, reason, "")
                self.outcome = Outcome(self.failure)
                if self._group is not None:
                    await self._group.conclude(self._rank, self.outcome, self.set_wait_reason)
                self._conclude(self._attempt, WorkerState.FAILED, reason)

    async def _run_attempt(self) -> None:
        """Runs an attempt, then waits for any other ranks to end."""
        if self.failure is not None and self.failure.kind.is_race:
            self.race = self.failure.kind
        failure, self.failure, self._stop_reason, self.outcome = self.failure, None, None, None
        self.follows_rank0 = self._is_done = False
        if self._group is None and self.newest is not None and (last := self.attempt) is not None:
            number = self.newest.task.first_attempt + 1
            usable, left_out = self._failed_starts.usable_after(last, failure)
            self.task = replace(self.task, checkpoints=usable, left_out=left_out, first_attempt=number)
        attempt = self._attempt = self._workplace.create_attempt(self._engine_slot, self)
        self._enter_waiting()
        outcome = await attempt.run()
        if self._group is not None:
            if attempt is self.newest:
                self._enter(WorkerState.STOPPING)
            self.failure = await self._group.conclude(self._rank, outcome, self.set_wait_reason)
        else:
            self.failure = outcome.failure
            self._schedule_next(outcome)
        self.outcome = outcome
        self._conclude(attempt, *self._final_state(outcome))

    def _schedule_next(self, outcome: Outcome) -> None:
        if outcome.final:
            self.policy.cancel()
        elif outcome.retry:
            self.policy.schedule_lost(running_s=outcome.running_s)
        # A job that could not be prepared returns to its queue.
        elif not outcome.by_user and not (outcome.unready is not None and self.task.job is not None):
            failure = None if outcome.crashed_at_exit else outcome.failure
            had_progress, running_s, is_unready = outcome.had_progress, outcome.running_s, outcome.unready is not None
            self.policy.schedule(failure, had_progress=had_progress, running_s=running_s, is_unready=is_unready)

    def _final_state(self, outcome: Outcome) -> tuple[WorkerState, str | None]:
        """Returns the final state of an attempt with this outcome, and the reason, if any."""
        if outcome.by_user and self.failure is None:  # otherwise another rank failed first
            return WorkerState.FINISHED if self._is_done else WorkerState.STOPPED, self._stop_reason
        if self.failure is not None:
            return WorkerState.FAILED, self.failure.reason
        if not outcome.by_group:
            return WorkerState.FINISHED, None
        if outcome.unready is not None:
            return WorkerState.FAILED, outcome.unready
        return WorkerState.STOPPED, self._stop_reason or "ended with the group"

    def _conclude(self, attempt: Attempt | None, state: WorkerState, reason: str | None) -> None:
        """Records the end of an attempt, then enters its final state, or waits for the next one."""
        self.stuck = None
        if attempt is not None and attempt is self.newest:
            attempt.end = state, reason
            _log.info("%s: attempt %d %s %s", self.slot.name, attempt.record().number, state, reason or "")
            now = time.monotonic()
            self._recorder.faults.guard("alerts", self._diagnose, state, now)
            self._attempt = None  # only now: its last alerts may still affect the next attempt
            self._recorder.ended(self)
        self._attempt = None
        advice = self.failure.advice or None if state is WorkerState.FAILED and self.failure is not None else None
        pending = self.policy.pending if self._group is None else self._group.pending(self._rank)
        self._enter(WorkerState.RESTARTING if pending else state, reason, advice)

    def _diagnose(self, state: WorkerState, now: float) -> None:
        """Raises the alerts of an attempt that ended in `state` at `now`, monotonic seconds."""
        view = structs.replace(self.view(self.task.index), state=state)
        self._engine_slot.diagnose(view, now, self)

    def _enter_waiting(self) -> None:
        """Enters the state before an attempt."""
        self._enter(WorkerState.WAITING if self.newest is None else WorkerState.RESTARTING)

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        """Enters a state that applies while no process is running."""
        self._idle_state, self.reason, self.advice = state, reason, advice
        is_over = state.ended and self._attempt is None
        (self.concluded.set if is_over else self.concluded.clear)()
        self.changed()

    # Called by its attempt

    def set_wait_reason(self, reason: str | None) -> None:
        """Shows a wait reason, or (None) removes it; the reason of an ended state stays."""
        if reason != self.reason and not self.state.ended:
            self.reason = reason
            self.changed()

    def changed(self) -> None:
        """Reports a change that clients should see."""
        if is_new_state := (state := self.state) is not self._reported_state:
            self._reported_state, self.state_since = state, time.monotonic()
        self._recorder.changed(self, is_new_state=is_new_state)

    def on_prepared(self) -> None:
        """Handles the end of its attempt's preparation: the attempt fulfils all earlier requests."""
        if self.newest is not None:
            self.past.append((self.attempt or self.newest.record()).brief())
        self.newest = self._attempt
        self._engine_slot.attach(self._attempt)
        if self.runs_attempt if self._group is None else self._group.all_run_attempt:
            self.policy.clear_request()
        self.reason = None
        self.changed()

    async def reserve(self, number: int) -> None:
        """Records the number of a job's attempt before its start, so that it is not reused if the engine is killed."""
        if self.task.job is not None:
            self._recorder.amend(self, reserved=number)
            await self._recorder.flush()

    def on_started(self) -> None:
        """Records the start of its attempt's process."""
        self._recorder.began(self)

    def on_leader_exit(self, exit_code: int) -> None:
        """Ends the group if the first process of its attempt has failed."""
        if self._group is not None and exit_code != 0:
            self._group.fail(self._rank)

    def set_stuck(self, reason: str | None) -> None:
        """Marks the worker as stuck, or (None) clears the mark, unless it is a rank: groups are checked as a whole."""
        if self.rank is None:
            self.stuck = reason

    async def rendezvous(self) -> Rendezvous | None:
        """Returns its rendezvous, once all ranks of a group managed here are ready; None if the attempt is ending."""
        if self._group is None:
            return self.task.rendezvous
        return await self._group.rendezvous(self._rank, self.set_wait_reason)

    # Commands

    def restart(self) -> None:
        """Stops any process gracefully, then starts the next attempt; a waiting attempt starts at once."""
        self.policy.request()
        if self._attempt is None:
            self._enter_waiting()
        elif self._attempt.life is Life.PREPARING:
            self._attempt.skip_waits()
        else:
            self._attempt.stop(Stop())

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restarts with other arguments and environment."""
        self.task = replace(self.task, args=args, env=env)
        if self._attempt is not None and self._attempt.life is Life.PREPARING:
            self._attempt.stop(Stop())
        self.restart()

    def stop(self, stop: Stop, *, is_done: bool = False) -> None:
        """Stops the attempt, or cancels the next one, and starts no other; with `is_done` it counts as finished."""
        self._is_done |= is_done
        self.policy.cancel()
        self._stop_reason = stop.reason or self._stop_reason
        was_preparing = self._attempt is not None and self._attempt.life is Life.PREPARING
        if self._attempt is not None:
            self._attempt.stop(stop)
        elif not self._idle_state.ended:
            was_preparing, self.outcome = True, outcome_without_process(stop)
            self._enter(WorkerState.STOPPED, self._stop_reason)
        if was_preparing and self._group is not None:
            self._group.end()

    def end_with_group(self) -> None:
        """Stops its attempt because its group's attempt is ending."""
        if self._attempt is not None:
            self._attempt.stop(Stop(StopCause.GROUP))

    def forward_signal(self, number: signal.Signals) -> bool:
        """Forwards a signal to its first process if that has a handler. Returns True if sent."""
        return self._attempt is not None and self._attempt.forward_signal(number)

    def respond(self, alert: Alert) -> None:
        """Applies the action of `--on` to a new alert."""
        action, attempt = action_for(alert, self._workplace.spec.on), self._attempt
        by_group, is_restarted = alert.kind == "stuck" and self.rank is not None, False
        if action is AlertAction.RESTART:
            may_restart = attempt is not None and not by_group and self.policy.replace(running_s=self.running_s)
            is_restarted = may_restart or (by_group and self.policy.pending)
        self._recorder.alerted(self, alert, action, is_restarted=is_restarted)
        if action is AlertAction.STOP and not (attempt is None and self.state.ended):
            self.stop(Stop(reason=alert.headline), is_done=alert.kind == "done")
        elif is_restarted and attempt is not None and not by_group:
            attempt.stop(Stop(StopCause.ALERT, reason=alert.headline))

    @property
    def running_s(self) -> float:
        """Seconds since it entered the running phase; 0 outside it."""
        return time.monotonic() - self.state_since if self.state is WorkerState.RUNNING else 0.0

    def follow_rank0(self) -> None:
        """Shows the worker as running, because rank 0 reports for all ranks."""
        if not self.follows_rank0 and not self.fps_of_group and self.state.active:
            self.follows_rank0 = True
            self.changed()

    # State

    @property
    def _rank(self) -> int:
        return 0 if self.rank is None else self.rank.rank

    @property
    def state(self) -> WorkerState:
        """The worker's state; during an attempt, the attempt's."""
        attempt = self._attempt
        if attempt is None or self._idle_state is WorkerState.STOPPING:
            return self._idle_state
        state = attempt.state
        if state is WorkerState.WAITING:
            return self._idle_state
        return WorkerState.RUNNING if self.follows_rank0 and state.starting_up else state

    @property
    def runs_attempt(self) -> bool:
        """True if its attempt is running and no stop was requested."""
        return (attempt := self._attempt) is not None and attempt.life is Life.ALIVE and attempt.stopped is None

    @property
    def attempt(self) -> model.Attempt | None:
        """The current record of its newest attempt; None before the first."""
        return structs.replace(self.newest.record(), alerts=self.alerts) if self.newest is not None else None

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts of its newest attempt and its GPU."""
        return self._engine_slot.alerts_of(self)

    @property
    def result(self) -> dict[str, Any]:
        """The values reported by `gmg:result` lines."""
        return self.newest.result if self.newest is not None else {}

    @property
    def fps_of_group(self) -> bool:
        """True if its attempt reports the rate of its whole group."""
        return self.newest is not None and self.newest.fps_of_group

    @property
    def unready(self) -> str | None:
        """The reason its last attempt could not start or was lost, if the script was not the cause; None otherwise."""
        return self.outcome.unready if self.outcome is not None else None

    def activity(self) -> RankActivity:
        """Returns the rank's activity, which its group checks."""
        return self.newest.activity() if self.newest is not None else RankActivity()

    def view(self, index: int) -> model.Worker:
        """Returns the worker as clients see it; `index` is its slot's number."""
        due_at, state = self.policy.due_at, self.state
        if self.newest is not None:
            view = self.newest.view()
        else:
            newest, ring = structs.replace(NO_ATTEMPT, args=self.task.args), self._engine_slot.ring
            view = model.Worker(self.slot.name, index, state, newest=newest, log_lines=ring.end)
        if not state.live:
            lost_since = None if state.ended else view.lost_since
            no_phase = structs.replace(view, phase=Phase.NONE, phase_since=0.0, phase_usual_s=None)
            view = structs.replace(no_phase, stopping=None, lost_since=lost_since)
        elif self.follows_rank0:
            view = structs.replace(view, phase=Phase.RUNNING, phase_since=unix(self.state_since), phase_usual_s=None)
        return structs.replace(
            view,
            index=index,
            state=state,
            state_since=unix(self.state_since),
            reason=self.reason,
            advice=self.advice,
            alerts=self.alerts,
            job=self.task.job,
            job_name=self.task.name,
            group=self.rank,
            fps_in_rank_0=self.follows_rank0,
            restart_at=unix(due_at) if due_at is not None else None,
        )

    async def details(self) -> Details:
        """Returns the content of its details page. Raises `GmgError` if a node does not send it."""
        if self.newest is None:
            return Details(self.slot.name, (), self._workplace.spec.cwd, {}, (), "unknown before the first attempt", ())
        details, newest = await self.newest.details(), self.newest.record()
        return structs.replace(
            details, attempts=(*self.past, newest), args=self.task.args, extra_env=dict(self.task.env)
        )

    async def stacks(self) -> Stacks:
        """Returns the Python stacks of its process, or the reason that there are none. Raises `GmgError`."""
        if self._attempt is None:
            return Stacks(self.slot.name, self._rank if self.rank is not None else None, error="no process is running")
        return await self._attempt.stacks()
