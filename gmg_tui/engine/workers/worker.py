"""A worker as the engine's other parts know it, wherever its processes run."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from abc import ABC, abstractmethod
from typing import Any, Protocol

from gmg_tui import model
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import Attempt, Details, Fps, GpuSample, Phase, Slot, Stacks, WorkerState

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

    def __init__(self, slot: Slot, task: Task, watcher: Watcher, member: Member | None = None) -> None:
        self.slot = slot
        self.task = task
        self._member = member or Member(RestartPolicy(task))
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
        """The job's own folder, absolute, once it exists."""
        self.carried = False
        """Whether it runs because its group does, for which another rank reports."""
        self.concluded = asyncio.Event()
        """Set while it has ended: no process is left, and none follows unless the user asks for one."""
        self._watcher = watcher
        self._stopped_by: str | None = None
        """Why it was stopped, if not by the user."""
        self._state: WorkerState | None = WorkerState.WAITING
        """The state that was entered last; None while its node reports it."""

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        """Change the state."""
        self._state, self.reason, self.advice = state, reason, advice
        self.state_since = time.monotonic()
        (self.concluded.set if state.ended else self.concluded.clear)()
        self._watcher.changed(self)

    def _wait_for(self, awaited: str | None) -> None:
        """Show what the next attempt, or the end of this one, waits for."""
        if awaited != self.reason and not (self._state is not None and self._state.ended):
            self.reason = awaited
            self._watcher.changed(self)

    async def _part(self, outcome: Outcome, *, by_group: bool = False) -> tuple[WorkerState, str | None]:
        """Wait until the attempts of the other ranks have ended too, and have another one follow if that is wanted.

        `by_group` is whether it was ended, or not begun, because of another rank. Returns the state that the attempt has
        ended in, and the reason.
        """
        failure = await self._member.part(outcome, self._wait_for)
        if outcome.by_user:
            return WorkerState.STOPPED, self._stopped_by
        self.failure = failure
        if not (outcome.unprepared and self.task.job is not None):  # such a job goes back to its queue
            self.policy.after(failure, had_progress=outcome.had_progress, running_s=outcome.running_s)
        if failure is not None:
            return WorkerState.FAILED, failure.reason
        if by_group:
            return WorkerState.STOPPED, self._stopped_by or "ended with the group"
        return WorkerState.FINISHED, None

    def _enter_next(self, state: WorkerState, reason: str | None) -> None:
        """An attempt has ended in a state: enter that, or wait for the next attempt."""
        advice = self.failure.advice or None if state is WorkerState.FAILED and self.failure is not None else None
        self.stuck = None
        self._enter(WorkerState.RESTARTING if self.policy.pending else state, reason, advice)

    # Life and commands

    async def run(self) -> None:
        """Run attempts until cancelled; a running attempt is killed then."""
        try:
            while True:
                await self.policy.wait()
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

    @abstractmethod
    async def _run_attempt(self) -> None:
        """Run an attempt, and wait until those of the other ranks have ended too."""

    @abstractmethod
    async def _break_off(self) -> None:
        """Kill what is left of an attempt."""

    @abstractmethod
    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt; one that waits starts at once."""

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        self.args, self.env = args, dict(env)
        self.restart()

    @abstractmethod
    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the process, gracefully or at once, and start no other; `reason` is None where the user asked for it."""

    def end_with_group(self) -> None:  # noqa: B027 - only a rank has a group
        """End its process, as another rank of its group has failed."""

    @abstractmethod
    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process, if that listens to it; whether it does."""

    def stick(self, why: str | None) -> None:
        """From now on it counts as stuck, for what was observed, or (None) not."""
        was_stuck, self.stuck = self.stuck, why
        if (was_stuck is None) != (why is None):
            self._watcher.changed(self)

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
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows the script's output."""

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""

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

    @property
    def reports_for_all(self) -> bool:
        """Whether it runs, and reports what its whole group does."""
        return self.state is WorkerState.RUNNING and self.fps_of_group

    # Observation

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""
        self.sample = sample

    def settle(self) -> None:  # noqa: B027 - only a worker on this machine has lines
        """Write unfinished lines to the log file as far as they have come."""

    @abstractmethod
    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""

    @abstractmethod
    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""

    @abstractmethod
    async def details(self) -> Details:
        """What a details screen shows of it. Raises `GmgError` where that cannot be had."""

    @abstractmethod
    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""
