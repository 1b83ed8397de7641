"""A job on a slot, whose processes run here: its state through all its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from gmg_tui import model, units
from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.context import Context, Launch
from gmg_tui.engine.attempts.failure import failure_of, of_gpu, of_preparation
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.processes.process import KILL, TERMINATED, Step
from gmg_tui.engine.workers import worker_view
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.stacks import stacks_of
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.errors import GmgError
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Attempt, Details, Fps, GpuSample, Phase, Stacks, WorkerState

_log = logging.getLogger(__name__)

_MOMENT_S = 2.0
"""How much later the session may be ended: a job manager sends SIGTERM to all processes of a job at once."""


class LocalWorker(Worker):
    """Runs one attempt after another on a slot; a `member` of a group with the others."""

    def __init__(
        self, context: Context, slot_state: SlotState, task: Task, log: str, watcher: Watcher, member: Member | None
    ) -> None:
        super().__init__(slot_state.slot, task, watcher, member)
        self.log, self.ring = context.open_log(log), slot_state.ring
        self._slot_state = slot_state
        self.running: RunningAttempt | None = None
        """Its newest attempt, which may have ended."""
        self.past: deque[Attempt] = deque(maxlen=200)
        self.before: Attempt | None = None
        """The attempt to compare with since the last edit: the newest that has a rate and has not failed."""
        self.context = context
        self.memory_kept: str | None = None
        """Set when an attempt was started before the GPU's memory had been released."""
        self.raced = False
        """Whether an earlier attempt failed by a race with another worker."""
        self._state: WorkerState = WorkerState.WAITING
        self._read = (WorkerState.STARTING, Phase.IMPORTING)
        """The state and the phase that its output showed last."""
        self._waiting: asyncio.Task[None] | None = None
        """What the worker waits for unless the user is in a hurry."""
        self._changed = partial(watcher.changed, self)
        self._measured = asyncio.Event()
        """Set by each sample of its GPU."""

    @property
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows the script's output."""
        if self._state is WorkerState.STARTING and self.running is not None:
            return WorkerState.RUNNING if self.carried else self.running.reader.state
        return self._state

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        if self.running is None or not self.state.live:
            return Phase.NONE
        return Phase.RUNNING if self.carried else self.running.reader.phase

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running and still reports it."""
        if self.running is None or self.state is not WorkerState.RUNNING:
            return None
        return self.running.fps if self.running.fps_silent_s(time.monotonic()) is None else None

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes at the last scan."""
        return self.running.activity.pids if self.running is not None and self.state.live else frozenset()

    @property
    def attempt(self) -> Attempt | None:
        """Its newest attempt at this moment; None before the first."""
        return self.running.record() if self.running is not None else None

    @property
    def result(self) -> dict[str, Any]:
        """What its attempt has reported by `gmg:result` lines."""
        return dict(self.running.reported.values) if self.running is not None else {}

    def _on_output(self) -> None:
        """The script has printed something that is displayed; only a new state or phase is worth an early snapshot."""
        assert self.running is not None
        read = (self.running.reader.state, self.running.reader.phase)
        if read == self._read:
            return
        if read[0] is not self._read[0] and self._state is WorkerState.STARTING and not self.carried:
            self.state_since = time.monotonic()
        self._read = read
        self.context.gate.reached(self.slot.name, self.phase)
        self._changed()

    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt; one that waits starts at once."""
        self.policy.now()
        self._hurry()
        if self.state.live:
            self._stop_for_user()

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        attempts = [self.attempt, *reversed(self.past)]
        rated = (each for each in attempts if each and each.state is not WorkerState.FAILED and each.rate is not None)
        self.before = next(rated, self.before)
        super().edit(args, env)

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the process, gracefully or at once, and start no other; `reason` is None where the user asked for it."""
        self.policy.never()
        self._stopped_by = reason or self._stopped_by
        self._hurry()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self.context.gate.left(self.slot.name)
            self._enter(WorkerState.STOPPED, self._stopped_by)
            self._member.call_off()
        elif self.state.live:
            self._stop_for_user(KILL if kill else None)

    def _stop_for_user(self, steps: Sequence[Step] | None = None) -> None:
        assert self.running is not None
        lives = self.running.ended_clock is None
        self.running.by_user |= lives or self.running.exit_code in TERMINATED
        if lives:
            self._stop_process(steps)

    def replace_stuck(self) -> None:
        """Restart it as one that is stuck, if a restart is left."""
        if self.policy.replace_stuck():
            self._stop_process()

    def end_with_group(self) -> None:
        """End its process, as another rank of its group has failed: a rank that hangs in a collective does not handle SIGINT."""
        attempt = self.running
        if attempt is not None and attempt.process.started and attempt.exit_code is None and self.state.live:
            attempt.by_group = True
            self._stop_process(self.context.group_steps)

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process, if that listens to it; whether it does."""
        return self.running is not None and self.state.live and self.running.process.pass_on(number)

    def _stop_process(self, steps: Sequence[Step] | None = None, reason: str | None = None) -> None:
        """Send the signals of `steps`, by default those that the run's options ask for."""
        assert self.running is not None
        self.running.process.stop(steps or self.context.stop_steps(self.task))
        if self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING, reason)

    async def _break_off(self) -> None:
        self.context.gate.left(self.slot.name)
        attempt = self.running
        if attempt is not None and attempt.process.started and attempt.ended_clock is None:
            attempt.process.stop(KILL)
            await attempt.process.wait_stopped()
            attempt.mark_ended()
        self.log.close()  # the next attempt, if there is one, opens it again

    async def _next_launch(self) -> Launch | None:
        """Wait for its turn, or the GPU's memory, and for its group, then prepare the next attempt.

        Returns None where the user has stopped the worker, or its group's attempt is called off.
        """
        task, last = self.task, self.running
        if last is None:
            self._enter(WorkerState.WAITING)
            await self._unless_hurried(self.context.gate.wait(self.slot.name, self._wait_for))
        else:
            self._enter(WorkerState.RESTARTING)
        memory, is_shared = self._slot_state.memory, self._slot_state.is_shared
        if memory is not None and not self._is_cancelled():
            await self._unless_hurried(memory.released(self._wait_for, shared=is_shared))
            self.memory_kept = memory.still_taken(shared=is_shared)
        if self._is_cancelled():
            return None
        self._wait_for(None)
        number = last.number + 1 if last is not None else task.first_attempt
        meeting = await self._member.meet(self._wait_for)
        if meeting is not None:
            number = task.first_attempt + meeting.restarts
        while not self._member.called_off:
            args, env = self.args, self.env
            launch = await self.context.prepare(self.slot, task, number, args, env, self._wait_for, meeting=meeting)
            if self._is_cancelled() or self._member.called_off:
                return None
            if (args, env) == (self.args, self.env):  # otherwise it was edited meanwhile
                return launch
        return None

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

    async def _run_attempt(self) -> None:
        self.raced |= self.failure is not None and self.failure.kind.is_race
        self.failure = None
        try:
            launch = await self._next_launch()
        except (NvmlUnavailable, GmgError) as error:
            await self._unprepared(error)
            return
        if launch is None:  # the user has stopped the worker, or its group's attempt was called off
            ended = await self._part(Outcome(by_user=self._is_cancelled()), by_group=True)
            if not self._is_cancelled():
                self._enter_next(*ended)
            return
        self.policy.begun()
        self.carried = False
        self._read = (WorkerState.STARTING, Phase.IMPORTING)
        if self.running is not None:
            self.past.append(self.running.record())
        attempt = RunningAttempt(launch, self.context, self.log, self.ring, self._on_output, self._changed)
        attempt.memory.measure(self.sample, frozenset(), live=False)
        self.running, self._slot_state.memory = attempt, attempt.memory
        self._enter(WorkerState.STARTING)
        try:
            await attempt.start(self.context.spec.cwd)
        except OSError as error:
            attempt.mark_ended()
            reason = f"cannot start {attempt.launch.command[0]}: {error.strerror}"
            self._conclude(*await self._part(Outcome(Failure(FailureKind.CONFIG, reason, ""))))
            return
        _log.info("%s: attempt %d is process %d", self.slot.name, attempt.number, attempt.process.pid)
        self.context.watchdog.began(attempt.process.pid)
        self.context.gate.began(self.slot.name, attempt.may_build)
        self._watcher.began(self)
        if self._member.called_off:
            self.end_with_group()
        exit_code = await attempt.wait(
            lambda: self._stop_process(reason=f"timed out after {units.span(self.task.timeout_s)}")
        )
        self._member.has_ended(exit_code)
        await attempt.clear_away(lambda reason: self._enter(WorkerState.STOPPING, reason))
        self.context.watchdog.ended(attempt.process.pid)
        await attempt.finish()
        await self._judge(attempt, exit_code)

    async def _unprepared(self, error: NvmlUnavailable | GmgError) -> None:
        """An attempt could not be prepared: the next worker goes first, and a job goes back to its queue."""
        self.context.gate.left(self.slot.name)
        failure, cancelled = of_preparation(error), self._is_cancelled()
        state, _ = await self._part(Outcome(None if cancelled else failure, cancelled, unprepared=True))
        if self._is_cancelled():
            return
        if isinstance(error, NvmlUnavailable):
            self.unready = failure.reason
        _log.info("%s: an attempt could not be prepared: %s", self.slot.name, failure.reason)
        self._enter_next(state, failure.reason)

    def _is_cancelled(self) -> bool:
        """Whether the user has stopped the worker before its attempt began."""
        return self._state is WorkerState.STOPPED

    async def _judge(self, attempt: RunningAttempt, exit_code: int) -> None:
        attempt.remember(exit_code)
        if exit_code in TERMINATED and not (attempt.by_user or self._state is WorkerState.STOPPING):
            await self._unless_hurried(asyncio.sleep(_MOMENT_S))
        failure = await failure_of(attempt, exit_code)
        if failure is not None and failure.kind is FailureKind.DEVICE and self.rank is not None and self.slot.gpu:
            # The next sample, which may take a second, may show that the GPU is lost; the other ranks are ended meanwhile.
            self._measured.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * self.context.spec.interval_s + 1.0):
                    await self._measured.wait()
        failure = of_gpu(failure, self.sample) if failure is not None else None
        had_progress, running_s = attempt.reader.had_progress, attempt.running_s
        if self.rank is not None and self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING)
        outcome = Outcome(failure, attempt.by_user, had_progress, running_s)
        self._conclude(*await self._part(outcome, by_group=attempt.by_group))

    def _conclude(self, state: WorkerState, reason: str | None) -> None:
        assert self.running is not None
        self.running.state, self.running.reason = state, reason
        (self.context.gate.left if self.running.by_user else self.context.gate.ended)(self.slot.name)
        self._enter_next(state, reason)
        self._watcher.ended(self)
        _log.info("%s: attempt %d %s %s", self.slot.name, self.running.number, state, reason or "")

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""
        super().measure(sample, now, sharers)
        self._slot_state.is_shared = sharers > int(self.state.live)
        if self.running is not None:
            self.running.measure(sample, self.state, now, max(1, sharers))
        elif self._slot_state.memory is not None:  # of the worker before
            self._slot_state.memory.measure(sample)
        self._measured.set()

    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come."""
        if self.running is not None and self.state.live:
            self.running.settle()

    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""
        return worker_view.seen(self)

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""
        return worker_view.view(self, index, now)

    async def details(self) -> Details:
        """What a details screen shows of it, except its GPU's processes."""
        return worker_view.details(self)

    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""
        return await stacks_of(self.running if self.state.live else None, self.slot.name, self.rank)
