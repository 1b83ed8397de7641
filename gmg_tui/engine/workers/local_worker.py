"""A job on a slot, whose processes run here: its state through all its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.context import Context, Launch
from gmg_tui.engine.attempts.failure import failure_of, of_gpu, of_preparation
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.processes.process import KILL, TERMINATED, Step
from gmg_tui.engine.processes.process_tree import Table
from gmg_tui.engine.workers.member import Member, Outcome, RankSeen
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.engine.workers.stacks import stacks_of
from gmg_tui.engine.workers.worker import Watcher, Worker
from gmg_tui.machine.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Attempt, Details, Fps, GpuSample, Phase, Stacks, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Meeting

_log = logging.getLogger(__name__)

_MOMENT_S = 2.0
"""How much later the session may be ended: a job manager sends SIGTERM to all processes of a job at once."""


class LocalWorker(Worker):
    """Runs one attempt after another on a slot; a `member` of a group with the others."""

    def __init__(
        self, context: Context, slot_state: SlotState, task: Task, log: str, watcher: Watcher, member: Member | None
    ) -> None:
        super().__init__(context.spec, slot_state.slot, task, watcher, member)
        self.log, self.ring = context.open_log(log), slot_state.ring
        self._slot_state = slot_state
        self.running: RunningAttempt | None = None
        """Its newest attempt, which may have ended."""
        self.past: deque[Attempt] = deque(maxlen=200)
        self.context = context
        self.memory_kept: str | None = None
        """Set when an attempt was started before the GPU's memory had been released."""
        self.misplaced: str | None = None
        """Set while NVML sees this worker on another GPU."""
        self._read: tuple[WorkerState, Phase] | None = None
        """The state and the phase that its output showed last."""
        self._changed = partial(watcher.changed, self)
        self._measured = asyncio.Event()
        """Set by each sample of its GPU."""

    @property
    def _shown(self) -> tuple[WorkerState, Phase] | None:
        return (self.running.reader.state, self.running.reader.phase) if self.running is not None else None

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
        before, self._read = self._read, self._shown
        if before is None or self._read is None or self._read == before:
            return
        if self._read[0] is not before[0] and self._state is WorkerState.STARTING and not self.carried:
            self.state_since = time.monotonic()
        self.context.gate.reached(self.slot.name, self.phase)
        self._changed()

    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """As `Worker.stop`; the next worker in line goes first."""
        super().stop(kill=kill, reason=reason)
        if self._is_cancelled():
            self.context.gate.left(self.slot.name)

    def _end_attempt(self, *, kill: bool = False) -> bool:
        self._hurry()
        attempt = self.running
        if attempt is None or not self.state.live:
            return False
        lives = attempt.ended_clock is None
        attempt.by_user |= lives or attempt.exit_code in TERMINATED
        if lives:
            self._stop_process(KILL if kill else None)
        return True

    def _end_stuck(self, why: str) -> None:
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
        self.running.process.stop(steps or self.context.stop_steps)
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

    async def _ready(self) -> None:
        """Wait for its turn, or the GPU's memory."""
        if self.running is None:
            await self.context.gate.wait(self.slot.name, self._wait_for)
        if (memory := self._slot_state.memory) is not None:
            await memory.released(self._wait_for)

    async def _prepare(self, meeting: Meeting | None) -> Launch | None:
        """Prepare the next attempt; None where the user stops the worker meanwhile, or its group's attempt is called off."""
        task, last = self.task, self.running
        number = last.number + 1 if last is not None else task.first_attempt
        if meeting is not None:
            number = task.first_attempt + meeting.restarts
        while True:
            args, env = self.args, self.env
            launch = await self.context.prepare(self.slot, task, number, args, env, self._wait_for, meeting=meeting)
            if self._is_cancelled() or self._member.called_off:
                return None
            if (args, env) == (self.args, self.env):  # otherwise it was edited meanwhile
                return launch

    async def _attempt(self, meeting: Meeting | None) -> Outcome:
        memory = self._slot_state.memory
        self.memory_kept = memory.still_taken() if memory is not None else None
        self._wait_for(None)
        try:
            launch = await self._prepare(meeting)
        except (NvmlUnavailable, GmgError) as error:
            return self._unprepared(error)
        if launch is None:
            return Outcome(by_user=self._is_cancelled(), by_group=True)
        if self.rank is None:
            self.policy.begun()
        if self.running is not None:
            self.past.append(self.running.record())
        attempt = RunningAttempt(launch, self.context, self.log, self.ring, self._on_output, self._changed)
        attempt.memory.measure(self.sample, frozenset(), live=False)
        self.running, self._slot_state.memory = attempt, attempt.memory
        self._read = self._shown
        self._enter(WorkerState.STARTING)
        try:
            await attempt.start(self.context.spec.cwd)
        except OSError as error:
            attempt.mark_ended()
            reason = f"cannot start {attempt.launch.command[0]}: {error.strerror}"
            return Outcome(Failure(FailureKind.CONFIG, reason, ""))
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
        return await self._judge(attempt, exit_code)

    def _unprepared(self, error: NvmlUnavailable | GmgError) -> Outcome:
        """An attempt could not be prepared: the next worker goes first, and a job goes back to its queue."""
        self.context.gate.left(self.slot.name)
        if self._is_cancelled():
            return Outcome(by_user=True, unprepared=True)
        failure = of_preparation(error)
        if isinstance(error, NvmlUnavailable):
            self.unready = failure.reason
        _log.info("%s: an attempt could not be prepared: %s", self.slot.name, failure.reason)
        return Outcome(failure, unprepared=True)

    async def _judge(self, attempt: RunningAttempt, exit_code: int) -> Outcome:
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
        had_progress, running_s = attempt.reader.had_progress, attempt.reader.running_s(time.monotonic())
        return Outcome(failure, attempt.by_user, had_progress, running_s, by_group=attempt.by_group)

    def _record_end(self, state: WorkerState, reason: str | None) -> None:
        attempt = self.running
        if attempt is None or attempt.state is not WorkerState.STARTING:
            return
        attempt.state, attempt.reason = state, reason
        (self.context.gate.left if attempt.by_user else self.context.gate.ended)(self.slot.name)
        self._watcher.ended(self)
        _log.info("%s: attempt %d %s %s", self.slot.name, attempt.number, state, reason or "")

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""
        super().measure(sample, now, sharers)
        if (memory := self._slot_state.memory) is not None:
            memory.shared = sharers > int(self.state.live)
        if self.running is not None:
            self.running.measure(sample, self.state, now, max(1, sharers))
        elif memory is not None:  # of the worker before
            memory.measure(sample)
        self._measured.set()

    def inspect(self, table: Table, now: float) -> None:
        """Update CPU, memory and whether it is stuck, from all processes at `now`, monotonic seconds."""
        attempt, spec = self.running, self.context.spec
        if attempt is None or not self.state.live or not attempt.process.started or attempt.ended_clock is not None:
            return
        activity = attempt.activity
        activity.update(attempt.process.members(table), attempt.output_bytes + attempt.counts.steps, now)
        idle = activity.idle_for_s(now) >= spec.stuck_after_s and self.state is not WorkerState.STOPPING
        if idle:
            self.context.gate.ended(self.slot.name)
        if self.rank is None:  # an idle rank may wait for the others; its group is judged as a whole
            util = self.sample.gpu_util_pct if self.sample is not None else None
            gpu = f", GPU {units.whole(util)} %" if util is not None else ""
            self.stick(f"{activity.idleness(now)}{gpu}" if idle else None, replace=spec.restart_stuck)

    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come."""
        if self.running is not None and self.state.live:
            self.running.settle()

    def _view(self, now: float) -> model.Worker:
        attempt, state = self.running, self.state
        troubles = (self.misplaced, self.memory_kept, self.log.trouble)
        common = model.Worker(
            slot=self.slot.name,
            index=0,
            state=state,
            state_since=unix(self.state_since),
            newest=attempt.record() if attempt is not None else Attempt(0, self.args),
            advice=self.advice or self._hint,
            warnings=(
                *(text for text in troubles if text is not None),
                *(attempt.warnings if attempt is not None else ()),
            ),
            log_lines=self.ring.end,
            last_line=self._last_line(),
            job=self.task.job,
            job_name=self.task.name,
        )
        if attempt is None:
            return common
        reader, phase = attempt.reader, self.phase
        since = self.state_since if self.carried else reader.phase_started
        silent_s = attempt.fps_silent_s(now) if state is WorkerState.RUNNING else None
        return structs.replace(
            common,
            phase_since=unix(since) if phase is not Phase.NONE else 0.0,
            phase_usual_s=attempt.usual_s if phase is not Phase.NONE and not self.carried else None,
            fps_silent_since=unix(now - silent_s) if silent_s is not None else None,
            device=reader.genesis.device,
            backend=reader.genesis.backend,
            genesis_version=reader.genesis.version,
            stopping=attempt.process.sent if state is WorkerState.STOPPING else None,
            cpu_pct=attempt.activity.cpu_pct if state.live else None,
            memory_rss_mib=attempt.activity.memory_rss_mib if state.live else None,
            healed=reader.genesis.alerts.rebuilt_caches or (self.raced and reader.had_progress),
        )

    @property
    def _hint(self) -> str | None:
        """How to start the script so that its rate is known."""
        attempt = self.running
        return attempt.reader.hint if attempt is not None and attempt.fps is None and self.state.live else None

    def _last_line(self) -> str:
        """The script's progress and metrics where it reports such, else its newest line: the last of a table means little."""
        reader = self.running.reader if self.running is not None else None
        if reader is None or not reader.metrics:
            return clean(self.ring.newest)
        done = reader.progress
        parts = [f"{done.unit} {done.done:,.0f} of {done.total:,.0f}"] if done is not None else []
        return ", ".join(
            [*parts, *(f"{name.replace('_', ' ')} {value:,.5g}" for name, value in reader.metrics.items())]
        )

    def seen(self) -> RankSeen:
        """What the watch of its group sees of a rank."""
        attempt = self.running
        if attempt is None:
            return RankSeen()
        reader, activity = attempt.reader, attempt.activity
        return RankSeen(
            attempt=attempt.number,
            settled=attempt.process.started and not attempt.process.is_stopping,
            lives=self.state.live and attempt.exit_code is None,
            phase_started=reader.phase_started,
            in_running=reader.phase is Phase.RUNNING,
            progress_at=reader.pace.last_at,
            progress_every_s=reader.pace.usual_s,
            idle_s=activity.seen_idle_s,
            stopped=activity.stopped,
        )

    async def details(self) -> Details:
        """The attempts of a worker, and what the newest was started with."""
        attempt = self.running
        return Details(
            slot=self.slot.name,
            command=attempt.launch.command if attempt is not None else (),
            cwd=self.context.spec.cwd,
            env=dict(attempt.launch.environment.set) if attempt is not None else {},
            unset=attempt.launch.environment.unset if attempt is not None else (),
            egl=attempt.launch.egl_note if attempt is not None else "not asked yet",
            attempts=(*self.past, *([attempt.record()] if attempt is not None else [])),
            args=self.args,
            extra_env=self.env,
        )

    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""
        return await stacks_of(self.running if self.state.live else None, self.slot.name, self.rank)
