"""One run of a worker's script: its process, and everything read from it and measured about it."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gmg_tui import readers, units
from gmg_tui.ddp.observations import Observations
from gmg_tui.engine.attempts import misplaced_options
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.attempts.held import Held
from gmg_tui.engine.attempts.launch import Launch
from gmg_tui.engine.attempts.rank_error import recorded_in
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.attempts.torchrun_output import TorchrunOutput
from gmg_tui.engine.children import Children
from gmg_tui.engine.gpus.memory import GpuMemory
from gmg_tui.engine.gpus.meter import Meter
from gmg_tui.engine.output import script_results
from gmg_tui.engine.output.backpressure import Backpressure
from gmg_tui.engine.output.line_splitter import LineSplitter
from gmg_tui.engine.output.log_writer import Log
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.processes.activity import Activity
from gmg_tui.engine.processes.process import Process
from gmg_tui.engine.processes.scans import Scans
from gmg_tui.engine.processes.successor import end_of_successors
from gmg_tui.engine.processes.termination import LEFTOVERS, Termination
from gmg_tui.genesis import env_count
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.genesis.output.recorded import explain_recorded, is_vague
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.genesis.quiet_signs import mostly_imported
from gmg_tui.logs.attempts import first_line
from gmg_tui.model import Attempt, AttemptMetrics, Fps, GpuSample, Phase, Slot, WorkerState

_log = logging.getLogger(__name__)

_UNSEEN_END_S = {
    Phase.IMPORTING: 60.0,  # less where the imports are seen to be over
    Phase.AT_WORK: 10.0,
    Phase.INITIALISING: 10.0,
    Phase.CREATING: 10.0,
    Phase.VISUALIZER: 10.0,
}
"""After how long without a line a phase may well have ended unseen: Genesis does not say when it steps, and with
`logging_level="warning"` it says nothing. The end of any other phase is announced where its beginning was."""
_IMPORTED_S = 10.0
"""The rest of the imports (`mostly_imported`) takes no longer than this, or than what went before it (1.4.5: 15 s after
25 s, on a machine where others work too)."""


class RunningAttempt:
    """An attempt from its start to its end.

    `gate` is None for an attempt that the user has told not to wait; `remembered` is of earlier runs of its script. `heard` is called when the script has printed
    something that is displayed, `changed` when anything else that is displayed has changed.
    """

    def __init__(
        self,
        number: int,
        launch: Launch,
        task: Task,
        slot: Slot,
        *,
        sample: GpuSample | None,
        pump: Pump,
        children: Children,
        scans: Scans,
        log: Log,
        ring: RingBuffer,
        gate: Gate | None,
        remembered: PhaseTimes,
        heard: Callable[[], None],
        changed: Callable[[], None],
        is_rank: bool = False,
        patterns: Sequence[str] = (),
    ) -> None:
        self.number = number
        self.args, self.command, self.environment = launch.args, launch.command, launch.environment
        self.gpu_index, self.settings = launch.gpu_index, launch.settings
        self.given, self.given_env = launch.given, dict(launch.given_env)
        self.reported = script_results.Reported()
        """The results from the script's `gmg:result` lines."""
        self.started = time.time()
        """Unix time, seconds."""
        self.started_clock = time.monotonic()
        on_gpu = slot.gpu is not None
        self.reader = self._reader(patterns, on_gpu, rank=is_rank or task.torchrun)
        self._ranks: TorchrunOutput | None = None
        if task.torchrun:
            self._ranks = TorchrunOutput(self.reader, lambda: self._reader(patterns, on_gpu, rank=True))
        self.observations = Observations() if is_rank else None
        """What its output tells of its group's collectives; None where it is no rank."""
        self.meter = Meter()
        self.activity = Activity()
        self.output_bytes = 0
        self.output_at = self.started_clock
        """When it last wrote anything, monotonic seconds."""
        self.exit_code: int | None = None
        """The script's, negative for a signal; None while it lives."""
        self.continued: str | None = None
        """What goes on, or went on, after its first process had ended, in one line."""
        self.left_behind: str | None = None
        """What was ended after the script, in one line."""
        self.fault: str | None = None
        """What went wrong in reading its output, by a fault of ours; every byte is in its log nonetheless."""
        self.memory = GpuMemory(slot.name, sample)
        self.process = Process(pump, children, scans, slot.name, self._take)
        self.backpressure = Backpressure(log, self.process.hold_output)
        self.termination = Termination(self.process, changed)
        self.held = Held(self.process, slot.name, gate, changed)
        self.ended: float | None = None
        self.state = WorkerState.STARTING
        self.reason: str | None = None
        self.by_user = False
        """Whether the user has ended it."""
        self.by_group = False
        """Whether it was ended because another rank of its group has failed."""
        self.timed_out = False
        self._error_file = launch.error_file
        self._mostly_imported_at: float | None = None
        """When its imports were first seen to be nearly over, monotonic seconds."""
        self._footprint = launch.footprint
        self._remembered = remembered
        self._warm = remembered.kernels_saved
        self._task = task
        self._log = log
        self._ring = ring
        self._slot_name = slot.name
        self._heard = heard
        self._changed = changed
        self._splitters = (LineSplitter(), LineSplitter())

    def _reader(self, patterns: Sequence[str], on_gpu: bool, *, rank: bool) -> Reader:
        return readers.make(patterns, on_gpu, self.started_clock, rank=rank, metrics=self.reported.add)

    async def start(self, cwd: str) -> None:
        """Write the line that separates its output from what went before, and start the process. Raises `OSError`."""
        task = self._task
        job = f"job {task.job} · {task.name}" if task.job is not None else ""
        line = first_line(self.number, self.args, job=job)
        if self.number > 1:
            self._log.write(line)
        if self.number > 1 or job:
            self._ring.feed(line)  # a slot's jobs share its ring buffer
        await self.process.start(self.command, cwd=cwd, env=self.environment.full)

    async def wait(self, overtime: Callable[[], None], most_idle_s: float) -> int:
        """Wait for the script to end; `overtime` is called once when the task's time-out has passed.

        A daemon that it has become is waited for as long as it is not idle for `most_idle_s`. Returns the exit code.
        """
        timeout_s = self._task.timeout_s
        timer = asyncio.create_task(self._watch_clock(timeout_s, overtime)) if timeout_s is not None else None
        try:
            code = await self.process.wait()
            if code == 0 and not self.termination.begun:
                code = await end_of_successors(
                    self.process, lambda: self.output_bytes, self._idle_s, most_idle_s, self._continue
                )
            self.exit_code = code
            return code
        finally:
            if timer is not None:
                timer.cancel()

    def _idle_s(self) -> float:
        return self.activity.idle_for_s(time.monotonic())

    def _continue(self, said: str | None) -> None:
        if said is not None:
            _log.info("%s: %s", self._slot_name, said)
        self.continued = said
        self._changed()

    async def _watch_clock(self, timeout_s: float, overtime: Callable[[], None]) -> None:
        remaining_s = timeout_s
        while remaining_s > 0:  # time spent held does not count
            await asyncio.sleep(remaining_s)
            remaining_s = timeout_s + self.held.total_s - self.elapsed_s
        if not self.termination.begun:
            self.timed_out = True
            overtime()

    async def clear_away(self, told: Callable[[str], None]) -> None:
        """End what the script's first process has left behind; `told` is given the reason, in one line, if anything."""
        if not self.termination.begun:
            self.process.starts_no_more()
            left = await self.process.left()
            if not left:
                return
            if not self.termination.begun:  # by the user meanwhile
                self.termination.begin(LEFTOVERS)
            what = f"{units.count(len(left), 'process')} that the script left behind"
            self.left_behind = f"ended {what}"
            told(f"ending {what}")
        await self.termination.wait()

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second, of all ranks that it tells apart; None before the first number."""
        return self._ranks.fps if self._ranks is not None else self.reader.fps

    async def failure(self, exit_code: int) -> Failure | None:
        """Why it failed; None when it finished."""
        if self.timed_out:
            return Failure(FailureKind.UNKNOWN, f"timed out after {units.span(self._task.timeout_s or 0.0)}", "")
        if exit_code == 0:
            return None
        failure = misplaced_options.explained((self._ranks or self.reader).failure(exit_code), self._task)
        if self._error_file is not None and is_vague(failure):
            recorded = await recorded_in(Path(self._error_file))
            failure = explain_recorded(recorded) if recorded is not None else failure
        asked = self.n_envs or env_count.from_arguments(self.args)
        return self._footprint.explained(failure, asked, self.memory.free_before_mib)

    def _take(self, chunk: bytes, is_error: bool) -> None:
        self.output_bytes += len(chunk)
        self.output_at = time.monotonic()
        try:
            raw, block = self._splitters[is_error].feed(chunk)
        except Exception as error:
            self._faulty(error)
            raw, block = chunk, b""
        self._log.write(raw)
        self.backpressure.look()
        self._give(block)

    def _give(self, block: bytes) -> None:
        try:
            self._read(block)
        except Exception as error:  # what comes next may be read all the same
            self._faulty(error)

    def _faulty(self, error: Exception) -> None:
        if self.fault is None:
            _log.error("%s: a part of its output could not be read", self._slot_name, exc_info=error)
            self.fault = f"a part of its output could not be read (gmg-tui: {type(error).__name__}); its log has all"

    def _read(self, block: bytes) -> None:
        if block:
            self._ring.feed(block)
            if self.observations is not None:
                self.observations.feed(block)
            if script_results.MARK in block:
                self.reported.take(block)
            if (self._ranks or self.reader).feed(block, time.monotonic()):
                if self.reader.had_progress:
                    self._remembered.simulated()
                self._heard()

    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come."""
        for splitter in self._splitters:
            self._log.write(splitter.settle())

    async def finish(self) -> None:
        """Read the rest of the output once all processes have ended."""
        self.backpressure.release()
        await self.process.drain()
        for splitter in self._splitters:
            raw, block = splitter.end()
            self._log.write(raw)
            self._give(block)
        self.mark_ended()
        await self._log.written()

    def mark_ended(self) -> None:
        """Record the end, by the monotonic clock: setting the system clock must not make an attempt last a day."""
        self.ended = self.started + time.monotonic() - self.started_clock
        self.memory.ended()

    def remember(self, exit_code: int) -> None:
        """Remember for the next start what this attempt, which has ended with `exit_code`, has shown."""
        times = [(phase, seconds) for phase, seconds in self.reader.phases if phase is not self.held.phase]
        self._remembered.record(times, warm=self._warm)
        # Genesis saves its kernels when the interpreter exits, also by ctrl+c.
        if self.reader.had_progress and exit_code in (0, -signal.SIGINT, 128 + signal.SIGINT):
            self._remembered.saved()

    @property
    def usual_s(self) -> float | None:
        """How long the script's phase usually takes, seconds; None when that is not known, or the phase has no end."""
        return self._remembered.usual(self.reader.phase, warm=self._warm)

    def silent_s(self, now: float) -> float | None:
        """How long it has worked without a line, seconds, if its phase may have ended unseen; None otherwise.

        `now` is monotonic seconds.
        """
        least_s = _UNSEEN_END_S.get(self.reader.phase)
        if least_s is None or self.held.reason is not None or not self.activity.busy:
            return None
        silent_s, usual_s = now - self.output_at, self.usual_s or 0.0
        if self.reader.phase is Phase.IMPORTING and self._mostly_imported_at is not None:
            so_far_s = self._mostly_imported_at - self.started_clock
            least_s = min(least_s, so_far_s + max(_IMPORTED_S, so_far_s))
        return silent_s if silent_s >= max(least_s, usual_s) else None

    def look(self, now: float) -> None:
        """See what it has imported, as long as it says nothing; `now` is monotonic seconds."""
        importing = self.reader.phase is Phase.IMPORTING and self._mostly_imported_at is None
        if importing and mostly_imported(self.activity.pids):
            self._mostly_imported_at = now

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start, or from its start to its end."""
        return self.ended - self.started if self.ended is not None else time.monotonic() - self.started_clock

    @property
    def running_s(self) -> float:
        """Seconds in the running phase; 0 unless it is in that phase now."""
        reader = self.reader
        return time.monotonic() - reader.phase_started if reader.phase is Phase.RUNNING else 0.0

    def measure(self, sample: GpuSample | None, state: WorkerState, now: float, sharers: int) -> None:
        """Take a sample of its GPU (None on a CPU slot), also after its end; the rest is as in `Meter.add`."""
        self.memory.measure(sample, self.activity.pids, live=state.live)
        if state.live and sample is not None:
            own = [process.memory_mib for process in sample.processes or () if process.own_pid in self.activity.pids]
            known = [size for size in own if size is not None]
            own_mib, running = sum(known) if known else None, state is WorkerState.RUNNING
            self.meter.add(sample, running=running, now=now, sharers=sharers, own_mib=own_mib)
            used_mib = own_mib or (self.memory.added_mib(sample) if sharers == 1 else None)
            if running and self.n_envs and used_mib is not None and used_mib > 0:
                self._footprint.measure(self.n_envs, used_mib)

    @property
    def n_envs(self) -> int | None:
        """How many environments it simulates, as it prints or as its arguments name them; None if neither does."""
        return self.reader.n_envs or (env_count.from_arguments(self.args) if self.reader.had_progress else None)

    def metrics(self) -> AttemptMetrics:
        """Its performance so far."""
        fps = self.fps
        return AttemptMetrics(
            attempt=self.number,
            args=self.args,
            fps=fps.last if fps else None,
            fps_mean=fps.mean if fps else None,
            settled=fps.settled if fps else None,
            n_envs=self.n_envs,
            gpu_util_pct=self.meter.gpu_util_pct.value,
            memory_peak_mib=self.meter.memory_peak_mib,
            power_w=self.meter.power_w.value,
            given=self.given,
            env=self.given_env,
            spread=fps.spread if fps else None,
            running_s=self.reader.running_s(self.started_clock + self.elapsed_s),
        )

    def record(self) -> Attempt:
        """Its record for the store and the details screen."""
        return Attempt(
            number=self.number,
            args=self.args,
            pid=self.process.pid if self.process.started else None,
            started=self.started,
            ended=self.ended,
            exit_code=self.exit_code,
            state=self.state if self.ended is not None else self.reader.state,
            reason=self.reason,
            metrics=self.metrics(),
        )
