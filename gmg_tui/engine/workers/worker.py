"""A worker as the engine's other parts know it, wherever its processes run."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.model import Attempt, Details, Fps, GpuSample, Phase, RunSpec, Slot, Stacks, WorkerState
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Meeting

_log = logging.getLogger(__name__)

STARTED = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING})
"""States of a process that does not run its simulation yet."""
_UNDISTURBED = STARTED | {WorkerState.RUNNING}


class Watcher(Protocol):
    """Is called when something happens to a worker."""

    def changed(self, worker: Worker) -> None:
        """Something that is displayed has changed."""

    def began(self, worker: Worker) -> None:
        """The worker's attempt has started its process."""

    def ended(self, worker: Worker) -> None:
        """The worker's attempt has ended; the attempt's record has the outcome."""


class Worker(ABC):
    """A job on a slot: what schedulers decide by, what is recorded and displayed, and the commands that it takes."""

    def __init__(self, spec: RunSpec, slot: Slot, task: Task, watcher: Watcher, member: Member | None = None) -> None:
        self.slot = slot
        self.task = task
        self._member = member or Member(RestartPolicy(spec))
        self.policy = self._member.policy
        """When its next attempt is due; of a rank, when the group's is."""
        self.rank = self._member.rank
        """Its rank in its group; None where it is in none."""
        self.args = task.args
        """Before placeholders are filled in."""
        self.env = dict(task.env)
        """Before placeholders are filled in."""
        self.state_since = time.monotonic()
        self.reason: str | None = None
        self.advice: str | None = None
        self.stuck: str | None = None
        """What was observed, when it counts as stuck."""
        self.sample: GpuSample | None = None
        """The latest of its GPU."""
        self.unready: str | None = None
        """Why an attempt could not be prepared, for reasons outside the script."""
        self.failure: Failure | None = None
        """Why its last attempt failed by itself."""
        self.raced = False
        """Whether an earlier attempt failed in a way that a retry heals, such as a race with another worker."""
        self.carried = False
        """Whether it runs because its group does, for which another rank reports."""
        self.concluded = asyncio.Event()
        """Set while it has ended: no process is left, and none follows unless the user asks for one."""
        self._watcher = watcher
        self._stopped_by: str | None = None
        """Why it was stopped, if not by the user."""
        self._state = WorkerState.WAITING
        """The state that was entered last; `STARTING` while the script's output decides."""
        self._waiting: asyncio.Task[None] | None = None
        """What the worker waits for unless the user is in a hurry."""

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        """Change the state."""
        self._state, self.reason, self.advice = state, reason, advice
        self.state_since = time.monotonic()
        (self.concluded.set if state.ended else self.concluded.clear)()
        self._watcher.changed(self)

    def _wait_for(self, awaited: str | None) -> None:
        """Show what the next attempt, or the end of this one, waits for."""
        if awaited != self.reason and not self._state.ended:
            self.reason = awaited
            self._watcher.changed(self)

    async def _unless_hurried(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait, but no longer once the user is in a hurry."""
        self._waiting = asyncio.create_task(waiting)
        try:
            await asyncio.wait([self._waiting])
        finally:
            self._hurry()

    def _hurry(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    async def _part(self, outcome: Outcome) -> tuple[WorkerState, str | None]:
        """Wait until the attempts of the other ranks have ended too, and have another one follow if that is wanted.

        Returns the state that the attempt has ended in, and the reason.
        """
        failure = await self._member.part(outcome, self._wait_for)
        if outcome.by_user:
            return WorkerState.STOPPED, self._stopped_by
        self.failure = failure
        # A rank's group decides, and a job that could not be prepared goes back to its queue.
        if self.rank is None and not (outcome.unprepared and self.task.job is not None):
            self.policy.after(failure, had_progress=outcome.had_progress, running_s=outcome.running_s)
        if failure is not None:
            return WorkerState.FAILED, failure.reason
        if not outcome.by_group:
            return WorkerState.FINISHED, None
        if self.unready is not None:
            return WorkerState.FAILED, self.unready
        return WorkerState.STOPPED, self._stopped_by or "ended with the group"

    def _enter_next(self, state: WorkerState, reason: str | None) -> None:
        """An attempt has ended in a state: enter that, or wait for the next attempt."""
        advice = self.failure.advice or None if state is WorkerState.FAILED and self.failure is not None else None
        self.stuck = None
        self._enter(WorkerState.RESTARTING if self._member.pending else state, reason, advice)

    # Life and commands

    async def run(self) -> None:
        """Run attempts until cancelled; a running attempt is killed then."""
        try:
            while True:
                await self._member.wait()
                try:
                    await self._run_attempt()
                except Exception as error:  # an internal error must not take down the other workers
                    _log.exception("%s: the attempt failed because of an internal error", self.slot.name)
                    reason = f"internal error ({type(error).__name__}: {error}); see engine.log"
                    await self._break_off()
                    await self._member.part(Outcome(Failure(FailureKind.UNKNOWN, reason, "")), self._wait_for)
                    self._enter(WorkerState.FAILED, reason)
        finally:
            await asyncio.shield(self._break_off())

    async def _run_attempt(self) -> None:
        """Run an attempt, and wait until those of the other ranks have ended too."""
        self.raced |= self.failure is not None and self.failure.kind.heals
        self.failure = self.unready = self._stopped_by = None
        self.carried = False
        self._enter(WorkerState.WAITING if self.attempt is None else WorkerState.RESTARTING)
        await self._unless_hurried(self._ready())
        meeting = None if self._state.ended else await self._member.meet(self._wait_for)
        if self._state.ended or self._member.called_off:
            outcome = Outcome(by_user=self._is_cancelled(), by_group=True)
        else:
            outcome = await self._attempt(meeting)
            if self.rank is not None and self.state.live:
                self._enter(WorkerState.STOPPING)
        state, reason = await self._part(outcome)
        if not self._state.ended:
            self._record_end(state, reason)
            self._enter_next(state, reason)

    def _is_cancelled(self) -> bool:
        """Whether the user has stopped the worker before its attempt began."""
        return self._state is WorkerState.STOPPED

    @abstractmethod
    async def _ready(self) -> None:
        """Wait until an attempt may begin."""

    @abstractmethod
    async def _attempt(self, meeting: Meeting | None) -> Outcome:
        """Run an attempt, unless the user stops it before it begins. Returns how it has ended."""

    @abstractmethod
    def _record_end(self, state: WorkerState, reason: str | None) -> None:
        """Record in which state the attempt, if one has begun, has ended, and why."""

    @abstractmethod
    def _end_attempt(self, *, kill: bool = False) -> bool:
        """End the attempt for the user, gracefully or at once. Returns whether there is one."""

    @abstractmethod
    def _end_stuck(self, why: str) -> None:
        """End the attempt, which is stuck, for another one to follow."""

    @abstractmethod
    async def _break_off(self) -> None:
        """Kill what is left of an attempt."""

    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt; one that waits starts at once."""
        self.policy.now()
        self._end_attempt()

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        self.args, self.env = args, dict(env)
        self.restart()

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the process, gracefully or at once, and start no other; `reason` is None where the user asked for it."""
        self.policy.never()
        self._stopped_by = reason or self._stopped_by
        if not self._end_attempt(kill=kill) and self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._enter(WorkerState.STOPPED, self._stopped_by)
            self._member.call_off()
            self._hurry()

    def end_with_group(self) -> None:  # noqa: B027 - only a rank has a group
        """End its process, as another rank of its group has failed."""

    @abstractmethod
    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process, if that listens to it; whether it does."""

    def stick(self, why: str | None, *, replace: bool = False) -> None:
        """From now on it counts as stuck, for what was observed, or (None) not.

        With `replace` another attempt follows, if one is left.
        """
        was_stuck, self.stuck = self.stuck, why
        if (was_stuck is None) != (why is None):
            _log.info("%s: %s", self.slot.name, f"stuck: {why}" if why is not None else "no longer stuck")
            self._watcher.changed(self)
            if why is not None and replace and self.policy.replace_stuck():
                self._end_stuck(why)

    def run_with_group(self) -> None:
        """Another rank reports for all: this one runs too, whatever it prints."""
        state = self.state
        if self.carried or self.fps_of_group or state not in _UNDISTURBED:
            return
        self.carried = True
        if state is not WorkerState.RUNNING:
            self.state_since = time.monotonic()
            self._watcher.changed(self)

    # State

    @property
    @abstractmethod
    def _shown(self) -> tuple[WorkerState, Phase] | None:
        """The state and the phase that the script's output shows; None before the first attempt."""

    @property
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows the script's output."""
        if self._state is not WorkerState.STARTING or (shown := self._shown) is None:
            return self._state
        return WorkerState.RUNNING if self.carried and shown[0] in STARTED else shown[0]

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        if not self.state.live or (shown := self._shown) is None:
            return Phase.NONE
        return Phase.RUNNING if self.carried else shown[1]

    @property
    @abstractmethod
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still reports them."""

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes at the last scan, as its GPU's samples name them; none of another machine's."""
        return frozenset()

    @property
    @abstractmethod
    def attempt(self) -> Attempt | None:
        """Its newest attempt at this moment; None before the first."""

    @property
    @abstractmethod
    def result(self) -> dict[str, Any]:
        """What its attempt has reported by `gmg:result` lines."""

    @property
    def fps_of_group(self) -> bool:
        """Whether its attempt reports the rate of its whole group."""
        return (attempt := self.attempt) is not None and attempt.fps_of_group

    # Observation

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""
        self.sample = sample

    def settle(self) -> None:  # noqa: B027 - only a worker on this machine has lines
        """Write unfinished lines to the log file as far as they have come."""

    @abstractmethod
    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""
        at = self.policy.at
        return structs.replace(
            self._view(now),
            index=index,
            state=self.state,
            phase=self.phase,
            reason=self.reason,
            stuck=self.stuck,
            group=self.rank,
            fps_in_rank_0=self.carried,
            restart_at=unix(at) if at is not None else None,
        )

    @abstractmethod
    def _view(self, now: float) -> model.Worker:
        """What clients see of its attempt; `now` is monotonic seconds."""

    @abstractmethod
    async def details(self) -> Details:
        """What a details screen shows of it. Raises `GmgError` where that cannot be had."""

    @abstractmethod
    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""
