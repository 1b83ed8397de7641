"""A job on a slot: its state, through all its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gmg_tui import units
from gmg_tui.engine import policy, proctree
from gmg_tui.engine.attempt import RunningAttempt
from gmg_tui.engine.history import History, Point
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.logfile import LogFile
from gmg_tui.engine.process import Step
from gmg_tui.engine.ring import Ring
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Attempt, Figures, GpuReading, Phase, Slot, WorkerState

_log = logging.getLogger(__name__)

MEMORY_WAIT_S = 30.0
"""How long a restart waits for the card's memory."""

_KEPT_ATTEMPTS = 200
_LEFTOVERS: tuple[Step, ...] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""For processes that outlive the script; they have had its whole time to end."""
_KILL: tuple[Step, ...] = ((signal.SIGKILL, 5.0),)


class Worker:
    """Runs one attempt after another on a slot, as it is told.

    Args:
        slot: Where it runs.
        index: Its number among the session's workers.
        launcher: Makes its command lines and environments.
        log: Takes all output.
        ring: Takes the newest lines.
        phase_times: How long the phases of this script take.
        changed: Called when something that is shown has changed.
    """

    def __init__(
        self,
        slot: Slot,
        index: int,
        launcher: Launcher,
        log: LogFile,
        ring: Ring,
        phase_times: PhaseTimes,
        changed: Callable[[], None],
    ) -> None:
        self.slot = slot
        self.index = index
        self.args = launcher.spec.args
        """Before placeholders are filled in."""
        self.env = dict(launcher.spec.env)
        """Before placeholders are filled in."""
        self.log = log
        self.ring = ring
        self.history = History()
        self.attempt: RunningAttempt | None = None
        self.past: deque[Attempt] = deque(maxlen=_KEPT_ATTEMPTS)
        self.before: Figures | None = None
        self.phase_times = phase_times
        self.reason: str | None = None
        self.advice: str | None = None
        self.stopping: str | None = None
        self.survivors: str | None = None
        self.stuck: str | None = None
        """What was seen, when it does nothing."""
        self.reading: GpuReading | None = None
        """The newest of its card."""
        self.memory_kept: str | None = None
        """Set when an attempt was started although the card's memory had not been released."""
        self.misplaced: str | None = None
        """Set when NVML sees this worker on another card."""
        self._launcher = launcher
        self._changed = changed
        self._state = WorkerState.WAITING
        self.state_since = time.monotonic()
        """When the state began, monotonic seconds."""
        self._said = (WorkerState.STARTING, Phase.IMPORTING)
        self._again = asyncio.Event()
        self._again.set()
        self._restarts = 0
        """Restarts without a person's doing since the last healthy attempt."""
        self.restart_at: float | None = None
        """When the next attempt starts by itself, monotonic seconds."""
        self._by_person = False
        self._ending: asyncio.Task[list[proctree.Proc]] | None = None
        self._hurry = asyncio.Event()
        """A person does not want what is waited for before an attempt to be waited for."""
        self._measured = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    # What it is doing

    @property
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows what the script says."""
        if self._state is WorkerState.STARTING and self.attempt is not None:
            return self.attempt.reader.state
        return self._state

    @property
    def phase(self) -> Phase:
        """Where the script is; `NONE` without a process."""
        return self.attempt.reader.phase if self.attempt is not None and self.state.live else Phase.NONE

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        self._state = state
        self.state_since = time.monotonic()
        self.reason, self.advice = reason, advice
        self._changed()

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
        self._launcher.gate.heard(self.slot.name, said[1], ended=False)
        self._changed()

    # What it is told

    def restart(self) -> None:
        """Stop the process if there is one, in order, then start the next attempt; one that waits starts at once."""
        self._restarts = 0
        self._forget_timer()
        self._again.set()
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
        self.restart()

    def stop(self, *, kill: bool = False) -> None:
        """End the process, in order or at once, and start no other."""
        self._forget_timer()
        self._again.clear()
        if self.state in (WorkerState.WAITING, WorkerState.RESTARTING):
            self._hurry.set()
            self._launcher.gate.heard(self.slot.name, Phase.NONE, ended=True)
            self._enter(WorkerState.STOPPED)
        elif self.state.live:
            self._by_person = True
            self._end(_KILL if kill else self._launcher.stop_steps)

    def _restart_later(self, pause_s: float) -> None:
        self._restarts += 1
        self.restart_at = time.monotonic() + pause_s
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._again.set)

    def _forget_timer(self) -> None:
        self.restart_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, steps: Sequence[Step]) -> None:
        assert self.attempt is not None
        if self._ending is not None:
            if steps is not _KILL:
                return  # it is being ended already
            self._ending.cancel()
        self._start_ending(self.attempt, steps)
        if self._state is not WorkerState.STOPPING:
            self._enter(WorkerState.STOPPING)

    def _start_ending(self, attempt: RunningAttempt, steps: Sequence[Step]) -> None:
        self._ending = asyncio.create_task(attempt.process.end(steps, self._told))
        self._ending.add_done_callback(self._ended)

    def _ended(self, ending: asyncio.Task[list[proctree.Proc]]) -> None:
        if ending.cancelled() or ending.exception() is not None or not ending.result():
            return
        pids = ", ".join(f"{proc.pid} (state {proc.state})" for proc in ending.result())
        self.survivors = f"survives SIGKILL: process {pids}; the kernel does not let it go"
        self._changed()

    def _told(self, number: signal.Signals, wait_s: float) -> None:
        self.stopping = f"{number.name} sent, waiting up to {units.span(wait_s)}"
        self._changed()

    # Its life

    async def run(self) -> None:
        """Run attempts until cancelled; an attempt that is running then is killed."""
        try:
            while True:
                await self._again.wait()
                self._again.clear()
                try:
                    await self._run_attempt()
                except NvmlUnavailable as error:
                    self._enter(WorkerState.FAILED, str(error))
                except Exception as error:  # a fault of ours must not take the other workers along
                    _log.exception("%s: attempt broke off", self.slot.name)
                    self._enter(WorkerState.FAILED, f"gmg-tui: {type(error).__name__}: {error}")
        finally:
            if self.attempt is not None and self.attempt.process.started and self.attempt.ended is None:
                await asyncio.shield(self.attempt.process.end(_KILL, lambda *_: None))
            self.log.close()

    async def _run_attempt(self) -> None:
        attempt = await self._next_attempt()
        if attempt is None:
            return
        self._by_person, self._ending = False, None
        self.stopping = self.survivors = self.misplaced = None
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
        exit_code = await attempt.process.wait()
        await self._clear_away(attempt)
        self._launcher.warden.ended(attempt.process.pid)
        await attempt.finish()
        self._judge(attempt, exit_code)

    async def _next_attempt(self) -> RunningAttempt | None:
        """Wait for what an attempt has to wait for, and prepare it; None when a person has stopped it meanwhile."""
        self._forget_timer()
        self._hurry.clear()
        gate = self._launcher.gate
        if self.attempt is None:
            self._enter(WorkerState.WAITING, gate.reason(self.index))
            await self._unless_hurried(gate.wait(self.index))
        else:
            self._enter(WorkerState.RESTARTING)
            await self._unless_hurried(self._memory_released(self.attempt))
        if self._taken_back():
            return None
        number = self.attempt.number + 1 if self.attempt is not None else 1
        launch = await self._launcher.prepare(self.slot, self.index, number, self.args, self.env)
        if self._taken_back():
            return None
        attempt = RunningAttempt(
            number, launch, self.slot, pump=self._launcher.pump, log=self.log, ring=self.ring, changed=self._heard
        )
        attempt.memory_before_mib = self.reading.memory_used_mib if self.reading is not None else None
        return attempt

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

    async def _memory_released(self, last: RunningAttempt) -> None:
        """Wait until the card has back what the last attempt took of its memory."""
        self.memory_kept = None
        deadline = time.monotonic() + MEMORY_WAIT_S
        while (kept_mib := last.memory_kept_mib(self.reading)) is not None:
            rest_s = deadline - time.monotonic()
            if rest_s <= 0:
                self.memory_kept = f"started while {units.mib(kept_mib)} of the last attempt was still taken"
                return
            self._enter(
                WorkerState.RESTARTING,
                f"for {units.mib(kept_mib)} on {self.slot.name} to be released (p shows by whom)",
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._measured.wait()

    def _part(self, attempt: RunningAttempt) -> None:
        """Write the line that parts this attempt's output from the last one's."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        line = f"──── gmg-tui: attempt {attempt.number} · {moment} · {' '.join(attempt.args)}\n".encode()
        self.log.write(line)
        self.ring.feed(line)

    async def _clear_away(self, attempt: RunningAttempt) -> None:
        """End what the script's first process has left behind."""
        if self._ending is None:
            left = attempt.process.members(proctree.scan())
            if not left:
                return
            noun = "process" if len(left) == 1 else "processes"
            self._start_ending(attempt, _LEFTOVERS)
            self._enter(WorkerState.STOPPING, f"ending {len(left)} {noun} that the script left behind")
        while (ending := self._ending) is not None and not ending.done():
            await asyncio.wait([ending])  # a kill may have put another one in its place

    def _judge(self, attempt: RunningAttempt, exit_code: int) -> None:
        for phase, seconds in attempt.reader.phases:
            self.phase_times.record(phase, seconds)
        if self._by_person:
            self._conclude(WorkerState.STOPPED, None)
            return
        failure = attempt.reader.failure(exit_code) if exit_code != 0 else None
        spec = self._launcher.spec
        if attempt.running_s >= policy.HEALTHY_S:
            self._restarts = 0
        asked = policy.wanted(spec.restart, failure.kind if failure else None, had_progress=attempt.reader.had_progress)
        if asked and self._restarts < spec.max_restarts and not self._again.is_set():
            self._restart_later(policy.pause_s(self._restarts))
        if failure is None:
            self._conclude(WorkerState.FINISHED, None)
        else:
            self._conclude(WorkerState.FAILED, failure.reason, failure.advice or None)

    def _conclude(self, state: WorkerState, reason: str | None, advice: str | None = None) -> None:
        assert self.attempt is not None
        self.attempt.state, self.attempt.reason = state, reason
        self.stopping = self.stuck = None
        self._launcher.gate.heard(self.slot.name, Phase.NONE, ended=True)
        again = self._again.is_set() or self.restart_at is not None
        self._enter(WorkerState.RESTARTING if again else state, reason, advice)
        _log.info("%s: attempt %d %s %s", self.slot.name, self.attempt.number, state, reason or "")

    # What is measured of it

    def measure(self, reading: GpuReading | None, now: float) -> None:
        """Take a reading of its card; `now` is monotonic seconds."""
        self.reading = reading
        self._measured.set()
        self._measured.clear()
        if self.attempt is not None and self.state.live and reading is not None:
            self.attempt.measure(reading, running=self.state is WorkerState.RUNNING, now=now)

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
        attempt.activity.look(attempt.process.members(table), attempt.output_bytes, now)
        spec = self._launcher.spec
        idle = attempt.activity.idle_for_s(now) >= spec.stuck_after_s and self.state is not WorkerState.STOPPING
        was_stuck, self.stuck = self.stuck, self._seen_idle(attempt, now) if idle else None
        if (was_stuck is None) == (self.stuck is None):
            return
        _log.info("%s: %s", self.slot.name, f"stuck: {self.stuck}" if self.stuck else "not stuck any more")
        self._changed()
        if self.stuck and spec.restart_stuck and self._restarts < spec.max_restarts:
            self._restarts += 1
            self._again.set()
            self._end(self._launcher.stop_steps)

    def _seen_idle(self, attempt: RunningAttempt, now: float) -> str:
        util = self.reading.gpu_util_pct if self.reading is not None else None
        return attempt.activity.idleness(now) + (f", GPU {units.whole(util)} %" if util is not None else "")

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes when they were last looked at."""
        return self.attempt.activity.pids if self.attempt is not None and self.state.live else frozenset()
