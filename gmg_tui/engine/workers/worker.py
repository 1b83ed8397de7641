"""A worker: a job on a slot across all its attempts; it decides which attempt comes next, when, and with what."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import deque
from dataclasses import replace
from typing import Any, Protocol

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.attempts.attempt import Attempt, Life, Order, Outcome, RankActivity, Stop, StopCause
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.workers.barrier import Barrier
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.slot import EngineSlot, Workplace
from gmg_tui.model import NO_ATTEMPT, Details, Fps, GpuSample, Phase, Stacks, WorkerState
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Meeting

_log = logging.getLogger(__name__)

STARTED = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING})
"""States of a process that does not run its simulation yet."""
_UNDISTURBED = STARTED | {WorkerState.RUNNING}
_MAX_PAST = 200
"""Earlier attempts that are kept."""


class Watcher(Protocol):
    """Is called when something happens to a worker."""

    def changed(self, worker: Worker) -> None:
        """Something that is displayed has changed."""

    def began(self, worker: Worker) -> None:
        """The worker's attempt has started its process."""

    def ended(self, worker: Worker) -> None:
        """The worker's attempt has ended; the attempt's record has the outcome."""


class Worker:
    """A job on a slot, and the commands that it takes. A rank has a `barrier`; any other worker has none.

    Attributes:
        slot: Where it runs.
        task: What it runs.
        log: Path of its log in the session's folder.
        policy: When its next attempt is due; of a rank, when the group's is.
        rank: Its rank in its group; None outside a group.
        args, env: Of its next attempt, before placeholders are filled in.
        newest: Its newest attempt that has, or has had, a process.
        past: Records of the attempts before that.
        stuck: What was observed, if it counts as stuck.
        unready: Why an attempt could not be prepared, for reasons outside the script.
        failure: Why its last attempt failed by itself.
        outcome: Of its last attempt; None before, and while one goes on.
        follows_rank0: True if it runs because its group does, for which another rank reports.
        concluded: Set while it has ended: no process is left, and none follows unless the user asks for one.
    """

    def __init__(
        self,
        engine_slot: EngineSlot,
        task: Task,
        log: str,
        workplace: Workplace,
        watcher: Watcher,
        barrier: Barrier | None = None,
    ) -> None:
        self.slot = engine_slot.slot
        self.task, self.log = task, log
        self.policy = barrier.policy if barrier is not None else RestartPolicy(workplace.spec)
        self.rank = barrier.rank if barrier is not None else None
        self.args, self.env = task.args, dict(task.env)
        self.newest: Attempt | None = None
        self.past: deque[model.Attempt] = deque(maxlen=_MAX_PAST)
        self.state_since = time.monotonic()
        self.reason: str | None = None
        self.advice: str | None = None
        self.stuck: str | None = None
        self.unready: str | None = None
        self.failure: Failure | None = None
        self.outcome: Outcome | None = None
        self.raced = False
        """True if an earlier attempt failed in a way that a retry heals, such as a race with another worker."""
        self.follows_rank0 = False
        self.concluded = asyncio.Event()
        self._engine_slot, self._workplace, self._watcher, self._barrier = engine_slot, workplace, watcher, barrier
        self._attempt: Attempt | None = None
        """The attempt that goes on, from its preparation to the outcome."""
        self._rest = WorkerState.WAITING
        """The state between attempts."""
        self._displayed = WorkerState.WAITING
        self._stop_reason: str | None = None
        """Why it was stopped, if not by the user."""
        self._is_done = False
        """True if it was stopped because it has done its work."""

    # Life

    async def run(self) -> None:
        """Run attempts until cancelled; a running attempt is killed then."""
        while True:
            await (self._barrier.due() if self._barrier is not None else self.policy.due())
            try:
                await self._run_attempt()
            except Exception as error:  # an internal error must not take down the other workers
                _log.exception("%s: the attempt failed because of an internal error", self.slot.name)
                reason = f"internal error ({type(error).__name__}: {error}); see engine.log"
                self.failure = Failure(FailureKind.UNKNOWN, reason, "")
                self.outcome = Outcome(self.failure)
                if self._barrier is not None:
                    await self._barrier.conclude(self.outcome, self.waits)
                self._conclude(self._attempt, WorkerState.FAILED, reason)

    async def _run_attempt(self) -> None:
        """Run an attempt, and wait until those of the other ranks have ended too."""
        self.raced |= self.failure is not None and self.failure.kind.heals
        self.failure = self.unready = self._stop_reason = self.outcome = None
        self.follows_rank0 = self._is_done = False
        number = self.task.first_attempt
        if self.newest is not None and self._barrier is None:
            number = self.newest.order.number + 1
        if self._barrier is None and (last := self.attempt) is not None:
            self.task = replace(self.task, checkpoints=last.checkpoints)
        order = Order(self.slot, self.task, number, self.args, self.env, self.log, self.rank)
        attempt = self._attempt = self._workplace.attempt(self._engine_slot, order, self)
        self._wait()
        try:
            outcome = await attempt.run()
        finally:
            if attempt.life is not Life.ENDED:
                _log.error("%s: an attempt is left in phase %s", self.slot.name, attempt.life)
        self.unready = attempt.unready
        if self._barrier is not None:
            if attempt is self.newest:
                self._enter(WorkerState.STOPPING)
            self.failure = await self._barrier.conclude(outcome, self.waits)
        else:
            self.failure = outcome.failure
            self._plan(outcome)
        self.outcome = outcome
        self._conclude(attempt, *self._end_of(outcome))

    def _plan(self, outcome: Outcome) -> None:
        """Decide whether another attempt follows."""
        if outcome.final:
            self.policy.never()
        elif outcome.again:
            self.policy.again()
        # A job that could not be prepared goes back to its queue.
        elif not outcome.by_user and not (outcome.unprepared and self.task.job is not None):
            self.policy.after(outcome.failure, had_progress=outcome.had_progress, running_s=outcome.running_s)

    def _end_of(self, outcome: Outcome) -> tuple[WorkerState, str | None]:
        """The state that an attempt with this outcome has ended in, and the reason."""
        if outcome.by_user and self.failure is None:  # else another rank had failed before
            return WorkerState.FINISHED if self._is_done else WorkerState.STOPPED, self._stop_reason
        if self.failure is not None:
            return WorkerState.FAILED, self.failure.reason
        if not outcome.by_group:
            return WorkerState.FINISHED, None
        if self.unready is not None:
            return WorkerState.FAILED, self.unready
        return WorkerState.STOPPED, self._stop_reason or "ended with the group"

    def _conclude(self, attempt: Attempt | None, state: WorkerState, reason: str | None) -> None:
        """An attempt has ended: record that, and enter its state, or wait for the next attempt."""
        self._attempt, self.stuck = None, None
        if attempt is not None and attempt is self.newest:
            attempt.conclude(state, reason)
            self._watcher.ended(self)
        advice = self.failure.advice or None if state is WorkerState.FAILED and self.failure is not None else None
        pending = self._barrier.pending if self._barrier is not None else self.policy.pending
        self._enter(WorkerState.RESTARTING if pending else state, reason, advice)

    def _wait(self) -> None:
        """Enters the state before an attempt."""
        self._enter(WorkerState.WAITING if self.newest is None else WorkerState.RESTARTING)

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        """Change the state between attempts."""
        self._rest, self.reason, self.advice = state, reason, advice
        is_over = state.ended and self._attempt is None
        (self.concluded.set if is_over else self.concluded.clear)()
        self.changed()

    # From its attempt

    def waits(self, reason: str | None) -> None:
        """Show what the next attempt, or the end of this one, waits for."""
        if reason != self.reason and not self.state.ended:
            self.reason = reason
            self.changed()

    def changed(self) -> None:
        """Something that is displayed has changed."""
        if (state := self.state) is not self._displayed:
            self._displayed, self.state_since = state, time.monotonic()
        self._watcher.changed(self)

    def begins(self) -> None:
        """Its attempt is prepared, and has a process next: another one that was wanted until now is this one."""
        if self._barrier is None:
            self.policy.begun()
        if self.newest is not None:
            self.past.append(self.newest.record())
        self.newest = self._attempt
        self._engine_slot.take_attempt(self._attempt)
        self.reason = None
        self.changed()

    def began(self) -> None:
        """Its attempt has a process."""
        self._watcher.began(self)

    def leader_ended(self, exit_code: int) -> None:
        """The first process of its attempt has ended."""
        if self._barrier is not None:
            self._barrier.leader_ended(exit_code)

    def idle(self, why: str | None) -> None:
        """Its attempt shows no sign of life; an idle rank may wait for the others, and its group is judged as a whole."""
        if self._barrier is None:
            self.set_stuck(why, replace=self._workplace.spec.restart_stuck)

    async def meet(self) -> Meeting | None:
        """Waits until all ranks of its group are ready. Returns None outside a group, or if the group's attempt is off."""
        return await self._barrier.meet(self.waits) if self._barrier is not None else None

    # Commands

    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt; one that waits starts at once."""
        self.policy.now()
        if self._attempt is None:
            self._wait()
        elif self._attempt.life is Life.PREPARING:
            self._attempt.hurry()
        else:
            self._attempt.stop(Stop())

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        self.args, self.env = args, dict(env)
        if self._attempt is not None and self._attempt.life is Life.PREPARING:
            self._attempt.stop(Stop())
        self.restart()

    def stop(self, *, kill: bool = False, reason: str | None = None, is_done: bool = False) -> None:
        """End the process, gracefully or at once, and start no other; `reason` is None if the user asked for it.

        With `is_done` its work is done, and it counts as finished.
        """
        self._is_done |= is_done
        self.obey(Stop(kill=kill, reason=reason))

    def obey(self, stop: Stop) -> None:
        """Stop the attempt, or cancel the next one, and start no other."""
        self.policy.never()
        self._stop_reason = stop.reason or self._stop_reason
        was_preparing = self._attempt is not None and self._attempt.life is Life.PREPARING
        if self._attempt is not None:
            self._attempt.stop(stop)
        elif not self._rest.ended:
            was_preparing, is_command = True, stop.cause is StopCause.COMMAND
            self.outcome = Outcome(by_user=is_command, by_group=not is_command, unprepared=is_command)
            self._enter(WorkerState.STOPPED, self._stop_reason)
        if was_preparing and self._barrier is not None:
            self._barrier.call_off()

    def end_with_group(self) -> None:
        """End its process, or do not start it, as another rank of its group has failed."""
        if self._attempt is not None:
            self._attempt.stop(Stop(StopCause.GROUP))

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process if that handles it. Returns True if it does."""
        return self._attempt is not None and self._attempt.pass_on(number)

    def set_stuck(self, why: str | None, *, replace: bool = False) -> None:
        """Mark it as stuck, for what was observed, or (None) clear the mark.

        With `replace` another attempt follows, if one is left.
        """
        was_stuck, self.stuck = self.stuck, why
        if (was_stuck is None) == (why is None):
            return
        _log.info("%s: %s", self.slot.name, f"stuck: {why}" if why is not None else "no longer stuck")
        self.changed()
        if why is not None and replace and self._attempt is not None and self.policy.replace_stuck():
            self._attempt.stop(Stop(StopCause.STUCK, reason=f"stuck: {why}"))

    def follow_rank0(self) -> None:
        """Another rank reports for all: this one runs too, whatever it prints."""
        if not self.follows_rank0 and not self.fps_of_group and self.state in _UNDISTURBED:
            self.follows_rank0 = True
            self.changed()

    # State

    @property
    def state(self) -> WorkerState:
        """The state; while an attempt goes on, the attempt's."""
        attempt = self._attempt
        if attempt is None or self._rest is WorkerState.STOPPING:
            return self._rest
        state = attempt.state
        if state is WorkerState.WAITING:
            return self._rest
        return WorkerState.RUNNING if self.follows_rank0 and state in STARTED else state

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        if self.newest is None or not self.state.live:
            return Phase.NONE
        return Phase.RUNNING if self.follows_rank0 else self.newest.phase

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still reports them."""
        return self.newest.fps if self.newest is not None and self.state is WorkerState.RUNNING else None

    @property
    def attempt(self) -> model.Attempt | None:
        """The record of its newest attempt at this moment; None before the first."""
        return self.newest.record() if self.newest is not None else None

    @property
    def result(self) -> dict[str, Any]:
        """What its attempt has reported by `gmg:result` lines."""
        return self.newest.result if self.newest is not None else {}

    @property
    def sample(self) -> GpuSample | None:
        """The latest sample of its GPU."""
        return self._engine_slot.sample

    @property
    def fps_of_group(self) -> bool:
        """True if its attempt reports the rate of its whole group."""
        return (attempt := self.attempt) is not None and attempt.fps_of_group

    def activity(self) -> RankActivity:
        """What the watch of its group sees of it."""
        return self.newest.activity() if self.newest is not None else RankActivity()

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""
        at, state = self.policy.at, self.state
        if self.newest is not None:
            view = self.newest.view(now)
        else:
            newest, ring = structs.replace(NO_ATTEMPT, args=self.args), self._engine_slot.ring
            view = model.Worker(self.slot.name, index, state, newest=newest, log_lines=ring.end)
        if not state.live:
            lost_since = None if state.ended else view.lost_since
            view = structs.replace(
                view, phase_since=0.0, phase_usual_s=None, fps_silent_since=None, stopping=None, lost_since=lost_since
            )
        elif self.follows_rank0:
            view = structs.replace(view, phase_since=unix(self.state_since), phase_usual_s=None)
        raced = self.raced and self.newest is not None and view.newest.had_progress
        return structs.replace(
            view,
            index=index,
            state=state,
            state_since=unix(self.state_since),
            phase=self.phase,
            reason=self.reason,
            advice=self.advice or view.advice,
            stuck=self.stuck,
            job=self.task.job,
            job_name=self.task.name,
            group=self.rank,
            fps_in_rank_0=self.follows_rank0,
            restart_at=unix(at) if at is not None else None,
            healed=view.healed or raced,
        )

    async def details(self) -> Details:
        """What a details screen shows of it. Raises `GmgError` if that is not available."""
        if self.newest is None:
            return Details(self.slot.name, (), self._workplace.spec.cwd, {}, (), "not asked yet", ())
        details, newest = await self.newest.details(), self.newest.record()
        return structs.replace(details, attempts=(*self.past, newest), args=self.args, extra_env=self.env)

    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none. Raises `GmgError`."""
        if self._attempt is None:
            return Stacks(self.slot.name, self.rank.rank if self.rank is not None else None, error="no process runs")
        return await self._attempt.stacks()
