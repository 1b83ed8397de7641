"""A job on a slot: its state through all its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import structs

from gmg_tui import model, units
from gmg_tui.ddp.torchrun import ranks_of
from gmg_tui.ddp.variables import Meeting
from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.launch import Launch, Launcher, NoRoomError
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.gpus.indices import DriverSilentError
from gmg_tui.engine.output.log_writer import Log
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process import Step
from gmg_tui.engine.processes.termination import KILL, TERMINATED
from gmg_tui.engine.workers import stacks, worker_view
from gmg_tui.engine.workers.comparison import best_to_compare
from gmg_tui.engine.workers.member import Member, Outcome
from gmg_tui.engine.workers.slot_worker import Watcher
from gmg_tui.engine.workers.worker_status import WorkerStatus
from gmg_tui.errors import GmgError
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.genesis.phase_times import FindPhaseTimes
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Details, GpuSample, Phase, Slot, Stacks, WorkerState

_log = logging.getLogger(__name__)

_SAMPLE_S = 1.0
"""How long a sample of a GPU may take beyond two intervals before a failure is explained without it."""

_MOMENT_S = 2.0
"""How much later the session may be ended: a job manager sends SIGTERM to all processes of a job at once."""


class Worker(WorkerStatus):
    """Runs one attempt after another on a slot, and tells `watcher` what happens; a `member` of a group with the others."""

    def __init__(
        self,
        slot: Slot,
        launcher: Launcher,
        task: Task,
        log: Log,
        ring: RingBuffer,
        phase_times: FindPhaseTimes,
        watcher: Watcher,
        member: Member | None = None,
    ) -> None:
        super().__init__(slot, launcher, task, log, ring, member)
        self._phase_times = phase_times
        self._watcher = watcher
        self._stopped_by: str | None = None
        """Why it was stopped, if not by the user."""
        self._was_idle = False
        """Whether its processes were idle for long at the last scan."""
        self._hurry = asyncio.Event()
        """Set when the user does not want the next attempt to wait for anything."""
        self._measured = asyncio.Event()
        """Set by each sample of its GPU."""

    def _changed(self) -> None:
        self._watcher.changed(self)

    # Commands

    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt.

        An attempt that waits starts at once, and one that is held goes on.
        """
        if self.attempt is None or not self.attempt.held.release():
            self._restart()

    def _restart(self) -> None:
        self._restart_policy.now()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._hurry.set()
        if self.state.live:
            self._end_for_user(self._launcher.stop_steps(self.task))

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        if self.attempt is not None:
            earlier = (one for one, _ in reversed(self.past))
            self.before = best_to_compare(self.attempt.record(), *earlier) or self.before
        self.args, self.env = args, dict(env)
        self._restart()

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the process, gracefully or at once, and start no other; `reason` says why if it was not the user."""
        self._restart_policy.never()
        self._stopped_by = reason or self._stopped_by
        self._hurry.set()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._launcher.gate.left(self.slot.name)
            self._enter(WorkerState.STOPPED, self._stopped_by)
            self._member.call_off()
        elif self.state.live:
            self._end_for_user(KILL if kill else self._launcher.stop_steps(self.task))

    def _end_for_user(self, steps: Sequence[Step]) -> None:
        assert self.attempt is not None
        if self.attempt.ended is None:
            self.attempt.by_user = True
            self._end(steps)
        elif self.attempt.exit_code in TERMINATED:
            self.attempt.by_user = True

    def end_with_group(self) -> None:
        """End its process, as another rank of its group has failed: one that hangs in a collective hears no SIGINT."""
        attempt = self.attempt
        if attempt is not None and attempt.process.started and attempt.exit_code is None and self.state.live:
            attempt.by_group = True
            self._end(self._launcher.group_steps)

    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process, if that listens to it; whether it does."""
        return self.attempt is not None and self.state.live and self.attempt.process.pass_on(number)

    def _end(self, steps: Sequence[Step]) -> None:
        assert self.attempt is not None
        self.attempt.held.release()
        self.attempt.termination.begin(steps)
        if self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING)

    # Life

    async def run(self) -> None:
        """Run attempts until cancelled; a running attempt is killed then."""
        try:
            while True:
                await self._restart_policy.wait()
                try:
                    await self._run_attempt()
                except DriverSilentError as error:
                    await self._unprepared(FailureKind.DRIVER, error)
                except NvmlUnavailable as error:
                    await self._unprepared(FailureKind.DEVICE, error)
                except GmgError as error:
                    await self._unprepared(FailureKind.CONFIG, error)
                except Exception as error:  # an internal error must not take down the other workers
                    _log.exception("%s: the attempt failed because of an internal error", self.slot.name)
                    self._launcher.gate.left(self.slot.name)
                    reason = f"gmg-tui: {type(error).__name__}: {error}"
                    await self._member.part(Outcome(Failure(FailureKind.UNKNOWN, reason, "")), self._wait_for)
                    self._enter(WorkerState.FAILED, reason)
        finally:
            if self.attempt is not None and self.attempt.process.started and self.attempt.ended is None:
                await asyncio.shield(self.attempt.process.end(KILL, lambda *_: None))
            self.log.close()

    async def _run_attempt(self) -> None:
        self.failure = None
        attempt = await self._next_attempt()
        if attempt is None:
            await self._part_unstarted()
            return
        self.misplaced = None
        self.carried = False
        self._said = (WorkerState.STARTING, Phase.IMPORTING)
        if self.attempt is not None:
            self.past.append((self.attempt.record(), self.attempt.settings))
        self.attempt = attempt
        self._enter(WorkerState.STARTING)
        try:
            await attempt.start(self._launcher.spec.cwd)
        except OSError as error:
            attempt.mark_ended()
            reason = f"cannot start {attempt.command[0]}: {error.strerror}"
            await self._member.part(Outcome(Failure(FailureKind.CONFIG, reason, "")), self._wait_for)
            self._conclude(WorkerState.FAILED, reason)
            return
        _log.info("%s: attempt %d is process %d", self.slot.name, attempt.number, attempt.process.pid)
        self._launcher.watchdog.began(attempt.process.pid)
        self._launcher.gate.began(self.slot.name, lambda: self.pids)
        self._watcher.began(self)
        if self._member.called_off:
            self.end_with_group()
        exit_code = await attempt.wait(self._time_out, self._launcher.spec.stuck_after_s)
        attempt.held.release()
        self._member.has_ended(exit_code)
        await attempt.clear_away(lambda reason: self._enter(WorkerState.STOPPING, reason))
        self._launcher.watchdog.ended(attempt.process.pid)
        await attempt.finish()
        await self._judge(attempt, exit_code)

    async def _part_unstarted(self) -> None:
        """No attempt has begun: the user has stopped the worker, or its group's attempt was called off."""
        failure = await self._member.part(Outcome(by_user=self._is_cancelled()), self._wait_for)
        if not self._is_cancelled():
            self.failure = failure
            reason = failure.reason if failure is not None else None
            ended = WorkerState.FAILED if failure is not None else WorkerState.STOPPED
            self._enter(WorkerState.RESTARTING if self._restart_policy.pending else ended, reason)

    async def _unprepared(self, kind: FailureKind, error: Exception) -> None:
        """An attempt could not be prepared: the next worker goes first, and a job goes back to its queue."""
        self._launcher.gate.left(self.slot.name)
        reason = str(error)
        cancelled = self._is_cancelled()
        failure = None if cancelled else Failure(kind, reason, "")
        await self._member.part(Outcome(failure, cancelled, unprepared=True), self._wait_for)
        if self._is_cancelled():
            return
        if isinstance(error, NvmlUnavailable | NoRoomError):
            self.unready = reason
        if self.task.job is None:
            self._restart_policy.after(Failure(kind, reason, ""), had_progress=False, running_s=0.0)
        _log.info("%s: an attempt could not be prepared: %s", self.slot.name, reason)
        self._enter(WorkerState.RESTARTING if self._restart_policy.pending else WorkerState.FAILED, reason)

    def _time_out(self) -> None:
        self._end(self._launcher.stop_steps(self.task))
        self.reason = f"timed out after {units.span(self.task.timeout_s)}"

    async def _next_attempt(self) -> RunningAttempt | None:
        """Wait until the next attempt may start, and prepare it; None when the user has stopped it meanwhile."""
        self._hurry.clear()
        gate = self._launcher.gate
        if self.attempt is None:
            awaited = gate.enter(self.slot.name)
            self._enter(WorkerState.WAITING, awaited)
            if awaited is not None:
                await self._unless_hurried(gate.wait(self.slot.name, self._wait_for))
        else:
            self._enter(WorkerState.RESTARTING)
            memory = self.attempt.memory
            await self._unless_hurried(memory.released(self._wait_for))
            self.memory_kept = memory.still_taken()
        if self._is_cancelled():
            return None
        self._wait_for(None)
        number = self.attempt.number + 1 if self.attempt is not None else self.task.first_attempt
        meeting = await self._member.meet(self._wait_for)
        if self._member.called_off:
            return None
        if meeting is not None:
            number = self.task.first_attempt + meeting.restarts
        launch = await self._prepare(number, meeting)
        self.out_dir = launch.out_dir
        if self._is_cancelled() or self._member.called_off:
            return None
        self._restart_policy.begun()
        return RunningAttempt(
            number,
            launch,
            self.task,
            self.slot,
            sample=self.sample,
            pump=self._launcher.pump,
            children=self._launcher.children,
            scans=self._launcher.scans,
            log=self.log,
            ring=self.ring,
            gate=gate if not self._hurry.is_set() else None,
            remembered=self._phase_times(self.task.script, self.args, module=self.task.module),
            heard=self._heard,
            changed=lambda: self._changed(),
            is_rank=self.rank is not None,
            patterns=self._launcher.spec.patterns,
        )

    async def _prepare(self, number: int, meeting: Meeting | None) -> Launch:
        """Prepare attempt `number`, again if it is edited meanwhile: no process runs that would be restarted."""
        while True:
            settings = self.args, self.env
            launch = await self._launcher.prepare(
                self.slot, self.task, number, *settings, self._wait_for, meeting=meeting
            )
            if settings == (self.args, self.env):
                return launch

    def _wait_for(self, awaited: str | None) -> None:
        if awaited != self.reason and not self._is_cancelled():
            self.reason = awaited
            self._changed()

    def _is_cancelled(self) -> bool:
        """Whether the user has stopped the worker before its attempt began."""
        return self._state is WorkerState.STOPPED

    async def _unless_hurried(self, waiting: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._hurry.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _judge(self, attempt: RunningAttempt, exit_code: int) -> None:
        attempt.remember(exit_code)
        if exit_code in TERMINATED and not (attempt.by_user or self._state is WorkerState.STOPPING):
            self._hurry.clear()
            await self._unless_hurried(asyncio.sleep(_MOMENT_S))
        failure = None if attempt.by_user or attempt.by_group else await attempt.failure(exit_code)
        failure = await self._of_card(failure)
        had_progress, running_s = attempt.reader.had_progress, attempt.running_s
        if self.rank is not None and self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING)
        failure = await self._member.part(Outcome(failure, attempt.by_user, had_progress, running_s), self._wait_for)
        if attempt.by_user:
            self._conclude(WorkerState.STOPPED, self._stopped_by)
            return
        self.failure = failure
        self._restart_policy.after(failure, had_progress=had_progress, running_s=running_s)
        if failure is None and attempt.by_group:
            self._conclude(WorkerState.STOPPED, self._stopped_by or "ended with the group")
        elif failure is None:
            self._conclude(WorkerState.FINISHED, None)
        else:
            self._launcher.gpu_indices.doubt()
            self._conclude(WorkerState.FAILED, failure.reason, failure.advice or None)

    async def _of_card(self, failure: Failure | None) -> Failure | None:
        """The failure, with its GPU as the cause where the driver has lost that: CUDA only says that a call failed.

        A rank's is waited for until the next sample of the GPU, which may tell; the other ranks are ended meanwhile.
        """
        if failure is None or self.slot.gpu is None:
            return failure
        if self.rank is not None and failure.kind is FailureKind.DEVICE:
            self._measured.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * self._launcher.spec.interval_s + _SAMPLE_S):
                    await self._measured.wait()
        if self.sample is None or not self.sample.lost:
            return failure
        return Failure(
            FailureKind.DEVICE, self.sample.error or "the GPU is lost", f"the script ended with {failure.reason}"
        )

    def _conclude(self, state: WorkerState, reason: str | None, advice: str | None = None) -> None:
        assert self.attempt is not None
        self.attempt.state, self.attempt.reason = state, reason
        self.stuck = None
        gate = self._launcher.gate
        (gate.left if self.attempt.by_user else gate.ended)(self.slot.name)
        self._enter(WorkerState.RESTARTING if self._restart_policy.pending else state, reason, advice)
        self._watcher.ended(self)
        _log.info("%s: attempt %d %s %s", self.slot.name, self.attempt.number, state, reason or "")

    # Look

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """As `WorkerStatus.measure`."""
        super().measure(sample, now, sharers)
        self._measured.set()

    def inspect(self, table: process_tree.Table, now: float) -> None:
        """Update CPU, memory and the stuck warning from its processes; `now` is monotonic seconds."""
        attempt = self.attempt
        if attempt is None or not self.state.live or not attempt.process.started or attempt.ended is not None:
            return
        members, held = attempt.process.members(table), attempt.held.reason is not None
        attempt.activity.update(members, attempt.output_bytes, now, held=held)
        attempt.look(now)
        spec = self._launcher.spec
        idle = attempt.activity.idle_for_s(now) >= spec.stuck_after_s and self.state is not WorkerState.STOPPING
        if idle and not self._was_idle:
            self._launcher.gate.ended(self.slot.name)
        self._was_idle = idle
        if self.rank is not None:
            return  # an idle rank may wait for the others; its group is judged as a whole
        was_stuck = self.stuck
        self.stick(self._seen_idle(attempt, now) if idle else None)
        if self.stuck and was_stuck is None:
            _log.info("%s: stuck: %s", self.slot.name, self.stuck)
            if spec.restart_stuck and self._restart_policy.replace_stuck():
                self._end(self._launcher.stop_steps(self.task))
        elif was_stuck is not None and self.stuck is None:
            _log.info("%s: no longer stuck", self.slot.name)

    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""
        return worker_view.view(self, index, now)

    async def details(self) -> Details:
        """What a details screen shows of it, except its GPU's processes."""
        egl = self._launcher.egl_notes.get(self.slot.name, "not asked yet")
        found = worker_view.details(self, self._launcher.spec.cwd, egl)
        if not self.task.torchrun:
            return found
        return structs.replace(found, ranks=await in_daemon_thread(ranks_of, self.pids))

    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""
        return await stacks.of(self._launcher.children, self)
