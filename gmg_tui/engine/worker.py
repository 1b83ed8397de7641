"""A job on a slot: its state, through all its attempts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from gmg_tui import units
from gmg_tui.engine import proctree
from gmg_tui.engine.again import Again
from gmg_tui.engine.attempt import RunningAttempt
from gmg_tui.engine.ending import KILL, LEFTOVERS
from gmg_tui.engine.history import History, Point
from gmg_tui.engine.launch import Launcher, NoRoomError
from gmg_tui.engine.logs import Log
from gmg_tui.engine.process import Step
from gmg_tui.engine.ring import Ring
from gmg_tui.engine.task import Task
from gmg_tui.errors import GmgError
from gmg_tui.genesis.failures import Failure, FailureKind
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Attempt, Figures, GpuReading, Phase, Slot, WorkerState

_log = logging.getLogger(__name__)

_KEPT_ATTEMPTS = 200


class Watcher(Protocol):
    """Who hears of what happens to workers."""

    def changed(self, worker: Worker) -> None:
        """Something that is shown has changed."""
        ...

    def began(self, worker: Worker) -> None:
        """Its attempt is a process."""
        ...

    def ended(self, worker: Worker) -> None:
        """Its attempt has ended; the attempt's record says how."""
        ...


class Worker:
    """Runs one attempt after another on a slot, as it is told.

    Args:
        slot: Where it runs.
        index: Its number among the session's workers.
        launcher: Makes its command lines and environments.
        task: What it runs.
        log: Takes all output.
        ring: Takes the newest lines.
        history: Takes the figures of each second.
        phase_times: How long the phases of this script take.
        watcher: Hears of what happens to it.
    """

    def __init__(
        self,
        slot: Slot,
        index: int,
        launcher: Launcher,
        task: Task,
        log: Log,
        ring: Ring,
        history: History,
        phase_times: PhaseTimes,
        watcher: Watcher,
    ) -> None:
        self.slot = slot
        self.index = index
        self.task = task
        self.args = task.args
        """Before placeholders are filled in."""
        self.env = dict(task.env)
        """Before placeholders are filled in."""
        self.log = log
        self.ring = ring
        self.history = history
        self.attempt: RunningAttempt | None = None
        self.past: deque[Attempt] = deque(maxlen=_KEPT_ATTEMPTS)
        self.before: Figures | None = None
        self.phase_times = phase_times
        self.reason: str | None = None
        self.advice: str | None = None
        self.stuck: str | None = None
        """What was seen, when it does nothing."""
        self.reading: GpuReading | None = None
        """The newest of its card."""
        self.memory_kept: str | None = None
        """Set when an attempt was started although the card's memory had not been released."""
        self.misplaced: str | None = None
        """Set when NVML sees this worker on another card."""
        self.concluded = asyncio.Event()
        """Set while it has ended: no process is left, and none follows unless somebody asks for one."""
        self.unready: str | None = None
        """Why an attempt could not be prepared, by no fault of what it runs: its card is silent, the disk is full."""
        self.out_dir: str | None = None
        """The job's own folder, absolute, once it is made."""
        self._launcher = launcher
        self._watcher = watcher
        self._state = WorkerState.WAITING
        self.state_since = time.monotonic()
        """When the state began, monotonic seconds."""
        self._said = (WorkerState.STARTING, Phase.IMPORTING)
        self._again = Again(task)
        self._overtime = False
        """Whether the attempt was ended because its time was over."""
        self._by_person = False
        self._hurry = asyncio.Event()
        """A person does not want what is waited for before an attempt to be waited for."""

    # What it is doing

    @property
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows what the script says."""
        if self._state is WorkerState.STARTING and self.attempt is not None:
            return self.attempt.reader.state
        return self._state

    @property
    def restart_at(self) -> float | None:
        """When the next attempt starts by itself, monotonic seconds; None when none does."""
        return self._again.at

    @property
    def phase(self) -> Phase:
        """Where the script is; `NONE` without a process."""
        return self.attempt.reader.phase if self.attempt is not None and self.state.live else Phase.NONE

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        self._state = state
        self.state_since = time.monotonic()
        self.reason, self.advice = reason, advice
        if state.ended:
            self.concluded.set()
        else:
            self.concluded.clear()
        self._watcher.changed(self)

    def _heard(self) -> None:
        """The script has said something that is shown; only another state or phase is worth an early snapshot."""
        if self.attempt is None:
            return
        said = (self.attempt.reader.state, self.attempt.reader.phase)
        if said == self._said:
            return
        if said[0] is not self._said[0] and self._state is WorkerState.STARTING:
            self.state_since = time.monotonic()
        self._said = said
        self._launcher.gate.heard(self.slot.name, said[1])
        if self._state is WorkerState.STARTING:
            self.attempt.held.heard(said[1])
        self._watcher.changed(self)

    # What it is told

    def restart(self) -> None:
        """Stop the process if there is one, in order, then start the next attempt.

        One that waits starts at once, and one that is held goes on.
        """
        if self.attempt is None or not self.attempt.held.release():
            self._restart()

    def _restart(self) -> None:
        self._again.now()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._hurry.set()
        if self.state.live:
            self._by_person = True
            self._end(self._launcher.stop_steps)

    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""
        if self.attempt is not None:
            self.before = self.attempt.figures()
        self.args, self.env = args, dict(env)
        self._restart()

    def stop(self, *, kill: bool = False) -> None:
        """End the process, in order or at once, and start no other."""
        self._again.never()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._hurry.set()
            self._launcher.gate.left(self.slot.name)
            self._enter(WorkerState.STOPPED)
        elif self.state.live:
            self._by_person = True
            self._end(KILL if kill else self._launcher.stop_steps)

    def _end(self, steps: Sequence[Step]) -> None:
        assert self.attempt is not None
        self.attempt.held.release()
        self.attempt.ending.begin(steps)
        if self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING)

    # Its life

    async def run(self) -> None:
        """Run attempts until cancelled; an attempt that is running then is killed."""
        try:
            while True:
                await self._again.wait()
                try:
                    await self._run_attempt()
                except (NvmlUnavailable, NoRoomError) as error:
                    self.unready = str(error)
                    self._enter(WorkerState.FAILED, self.unready)
                except GmgError as error:
                    self._enter(WorkerState.FAILED, str(error))
                except Exception as error:  # a fault of ours must not take the other workers along
                    _log.exception("%s: attempt broke off", self.slot.name)
                    self._enter(WorkerState.FAILED, f"gmg-tui: {type(error).__name__}: {error}")
        finally:
            if self.attempt is not None and self.attempt.process.started and self.attempt.ended is None:
                await asyncio.shield(self.attempt.process.end(KILL, lambda *_: None))
            self.log.close()

    async def _run_attempt(self) -> None:
        attempt = await self._next_attempt()
        if attempt is None:
            return
        self._by_person, self._overtime, self.misplaced = False, False, None
        self._said = (WorkerState.STARTING, Phase.IMPORTING)
        if self.attempt is not None:
            self.past.append(self.attempt.record())
        self._part(attempt)
        self.attempt = attempt
        self._enter(WorkerState.STARTING)
        try:
            await attempt.start(self._launcher.spec.cwd)
        except OSError as error:
            attempt.mark_ended()
            self._conclude(WorkerState.FAILED, f"cannot start {attempt.command[0]}: {error.strerror}")
            return
        _log.info("%s: attempt %d is process %d", self.slot.name, attempt.number, attempt.process.pid)
        self._launcher.warden.began(attempt.process.pid)
        self._watcher.began(self)
        exit_code = await self._exit_code(attempt)
        attempt.held.release()
        await self._clear_away(attempt)
        self._launcher.warden.ended(attempt.process.pid)
        await attempt.finish()
        self._judge(attempt, exit_code)

    async def _exit_code(self, attempt: RunningAttempt) -> int:
        """Wait for the attempt's end; when its time is over, end it."""
        if self.task.timeout_s is None:
            return await attempt.process.wait()
        timer = asyncio.create_task(self._time_out(attempt, self.task.timeout_s))
        try:
            return await attempt.process.wait()
        finally:
            timer.cancel()

    async def _time_out(self, attempt: RunningAttempt, timeout_s: float) -> None:
        rest_s = timeout_s
        while rest_s > 0:  # what it was held for meanwhile is given back to it
            await asyncio.sleep(rest_s)
            rest_s = timeout_s + attempt.held.total_s - attempt.elapsed_s
        if not attempt.ending.begun:
            self._overtime = True
            self._end(self._launcher.stop_steps)
            self.reason = f"its time of {units.span(timeout_s)} is over"

    async def _next_attempt(self) -> RunningAttempt | None:
        """Wait for what an attempt has to wait for, and prepare it; None when a person has stopped it meanwhile."""
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
        if self._taken_back():
            return None
        number = self.attempt.number + 1 if self.attempt is not None else self.task.first_attempt
        launch = await self._launcher.prepare(self.slot, self.task, number, self.args, self.env)
        self.out_dir = launch.out_dir
        if self._taken_back():
            return None
        return RunningAttempt(
            number,
            launch,
            self.slot,
            reading=self.reading,
            pump=self._launcher.pump,
            log=self.log,
            ring=self.ring,
            gate=gate if not self._hurry.is_set() else None,
            heard=self._heard,
            changed=lambda: self._watcher.changed(self),
        )

    def _wait_for(self, awaited: str) -> None:
        if awaited != self.reason and not self._taken_back():
            self.reason = awaited
            self._watcher.changed(self)

    def _taken_back(self) -> bool:
        """Whether a person has stopped the worker before its attempt began."""
        return self._state is WorkerState.STOPPED

    async def _unless_hurried(self, waiting: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._hurry.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _part(self, attempt: RunningAttempt) -> None:
        """Write the line that parts this attempt's output from what went before."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        job = f"job {self.task.job} · {self.task.name} · " if self.task.job is not None else ""
        line = f"──── gmg-tui: {job}attempt {attempt.number} · {moment} · {' '.join(attempt.args)}\n".encode()
        if attempt.number > 1:
            self.log.write(line)
        if attempt.number > 1 or job:
            self.ring.feed(line)  # which other jobs have used before

    async def _clear_away(self, attempt: RunningAttempt) -> None:
        """End what the script's first process has left behind."""
        if not attempt.ending.begun:
            left = attempt.process.members(proctree.scan())
            if not left:
                return
            attempt.ending.begin(LEFTOVERS)
            self._enter(WorkerState.STOPPING, f"ending {units.count(len(left), 'process')} that the script left behind")
        await attempt.ending.wait()

    def _judge(self, attempt: RunningAttempt, exit_code: int) -> None:
        for phase, seconds in attempt.reader.phases:
            if phase is not attempt.held.phase:
                self.phase_times.record(phase, seconds)
        if self._by_person:
            self._conclude(WorkerState.STOPPED, None)
            return
        failure = self._failure(attempt, exit_code)
        self._again.after(failure, had_progress=attempt.reader.had_progress, running_s=attempt.running_s)
        if failure is None:
            self._conclude(WorkerState.FINISHED, None)
        else:
            self._conclude(WorkerState.FAILED, failure.reason, failure.advice or None)

    def _failure(self, attempt: RunningAttempt, exit_code: int) -> Failure | None:
        if self._overtime and self.task.timeout_s is not None:
            return Failure(FailureKind.UNKNOWN, f"timed out after {units.span(self.task.timeout_s)}", "")
        return attempt.reader.failure(exit_code) if exit_code != 0 else None

    def _conclude(self, state: WorkerState, reason: str | None, advice: str | None = None) -> None:
        assert self.attempt is not None
        self.attempt.state, self.attempt.reason = state, reason
        self.stuck = None
        gate = self._launcher.gate
        (gate.left if self._by_person else gate.ended)(self.slot.name)
        self._enter(WorkerState.RESTARTING if self._again.pending else state, reason, advice)
        self._watcher.ended(self)
        _log.info("%s: attempt %d %s %s", self.slot.name, self.attempt.number, state, reason or "")

    # What is measured of it

    def measure(self, reading: GpuReading | None, now: float) -> None:
        """Take a reading of its card; `now` is monotonic seconds."""
        self.reading = reading
        if self.attempt is not None:
            self.attempt.measure(reading, self.state, now)

    def remember(self, moment: float) -> None:
        """Add a point to its history; `moment` is Unix time in seconds."""
        fps = self.attempt.reader.fps if self.attempt is not None and self.state is WorkerState.RUNNING else None
        reading = self.reading
        self.history.add(
            moment,
            Point(
                fps.last if fps else None,
                reading.gpu_util_pct if reading else None,
                reading.memory_used_mib if reading else None,
                reading.power_w if reading else None,
            ),
        )

    def look(self, table: proctree.Table, now: float) -> None:
        """Look at its processes; `now` is monotonic seconds."""
        attempt = self.attempt
        if attempt is None or not self.state.live or not attempt.process.started:
            return
        members, held = attempt.process.members(table), attempt.held.reason is not None
        attempt.activity.look(members, attempt.output_bytes, now, held=held)
        spec = self._launcher.spec
        idle = attempt.activity.idle_for_s(now) >= spec.stuck_after_s and self.state is not WorkerState.STOPPING
        was_stuck, self.stuck = self.stuck, self._seen_idle(attempt, now) if idle else None
        if (was_stuck is None) == (self.stuck is None):
            return
        _log.info("%s: %s", self.slot.name, f"stuck: {self.stuck}" if self.stuck else "not stuck any more")
        self._watcher.changed(self)
        if self.stuck:
            self._launcher.gate.ended(self.slot.name)
        if self.stuck and spec.restart_stuck and self._again.instead():
            self._end(self._launcher.stop_steps)

    def _seen_idle(self, attempt: RunningAttempt, now: float) -> str:
        util = self.reading.gpu_util_pct if self.reading is not None else None
        return attempt.activity.idleness(now) + (f", GPU {units.whole(util)} %" if util is not None else "")

    @property
    def attempt_started(self) -> int | None:
        """The number of its attempt once that is a process; None before."""
        return self.attempt.number if self.attempt is not None and self.attempt.process.started else None

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes when they were last looked at."""
        return self.attempt.activity.pids if self.attempt is not None and self.state.live else frozenset()
