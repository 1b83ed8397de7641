"""One run of a worker's script: its process, and everything read from it and measured about it."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import structs

from gmg_tui.engine.attempts.context import Context, Launch
from gmg_tui.engine.attempts.counts import Counts, make_folder
from gmg_tui.engine.attempts.gpu_use import GpuMemory, Meter
from gmg_tui.engine.clock import unix
from gmg_tui.engine.output import script_results
from gmg_tui.engine.output.lines import LineSplitter, RingBuffer
from gmg_tui.engine.output.logs import Log
from gmg_tui.engine.processes.activity import Activity
from gmg_tui.engine.processes.process import LEFTOVERS, Process
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import Attempt, Fps, GpuSample, WorkerState, units
from gmg_tui.model.text import SEPARATOR
from gmg_tui.model.tried import SETTLE_S
from gmg_tui.scripts import env_count, probe
from gmg_tui.scripts.genesis.output.reader import Reader
from gmg_tui.scripts.readers import formats

_log = logging.getLogger(__name__)


class RunningAttempt:
    """An attempt from its start to its end.

    `printed` is called when the script has printed something that is displayed, `changed` when anything else that is
    displayed has changed.
    """

    def __init__(
        self,
        launch: Launch,
        context: Context,
        log: Log,
        ring: RingBuffer,
        printed: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        task, slot = launch.task, launch.slot
        self.launch, self.task, self.number = launch, task, launch.number
        self.spec = context.spec
        self.reported = script_results.Reported()
        """The results from the script's `gmg:result` lines, and its named metrics."""
        self.started_clock = time.monotonic()
        self.reader = Reader(
            slot.gpu is not None,
            self.started_clock,
            rank=launch.meeting is not None or context.torchrun,
            formats=formats.of_settings(context.spec.readers, context.spec.patterns),
            args=launch.args,
        )
        self.meter = Meter()
        self.activity = Activity()
        self.output_bytes = 0
        self.exit_code: int | None = None
        """The script's, negative for a signal; None while it lives."""
        self.left_behind: str | None = None
        """What was ended after the script, in one line."""
        self.fault: str | None = None
        """That an internal error has kept a part of its output from being parsed; every byte is in its log nonetheless."""
        self.memory = GpuMemory(slot.name)
        self.process = Process(context.pipes, context.scans, slot.name, self._take, changed)
        self.ended_clock: float | None = None
        """When it ended, monotonic seconds."""
        self.state = WorkerState.STARTING
        self.reason: str | None = None
        self.by_user = False
        """Whether the user has ended it."""
        self.by_group = False
        """Whether it was ended because another rank of its group has failed."""
        self.timed_out = False
        self.counts = Counts(None)
        self._remembered = context.script_times.of(launch.written)
        self._warm = self._remembered.kernels_saved
        self._log, self._ring, self._printed = log, ring, printed
        self._splitters = (LineSplitter(), LineSplitter())

    async def start(self, cwd: str) -> None:
        """Write the line that separates its output from what went before, and start the process. Raises `OSError`."""
        task = self.task
        job = f"job {task.job} · {task.name}" if task.job is not None else ""
        line = _first_line(self.number, self.launch.args, job=job)
        if self.number > 1:
            self._log.write(line)
        if self.number > 1 or job:
            self._ring.feed(line)  # a slot's jobs share its ring buffer
        env = self.launch.environment.full
        if self.spec.probe:
            folder = await in_daemon_thread(make_folder)
            self.counts = Counts(folder)
            env = env if folder is None else env | {probe.FOLDER: str(folder.path)}
        await self.process.start(self.launch.command, cwd=cwd, env=env)

    async def wait(self, overtime: Callable[[], None]) -> int:
        """Wait for the script to end; `overtime` is called once when the task's time-out has passed.

        Returns the exit code.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.task.timeout_s):
                await self.process.wait()
        if self.process.exit_code is None and not self.process.is_stopping:
            self.timed_out = True
            overtime()
        self.exit_code = await self.process.wait()
        return self.exit_code

    async def clear_away(self, report: Callable[[str], None]) -> None:
        """End what the script's first process has left behind; `report` is called with it, in one line, if there is any."""
        if not self.process.is_stopping:
            left = await self.process.left()
            if not left:
                return
            if not self.process.is_stopping:  # by the user meanwhile
                self.process.stop(LEFTOVERS)
            what = f"{units.count(len(left), 'process')} that the script left behind"
            self.left_behind = f"ended {what}"
            report(f"ending {what}")
        await self.process.wait_stopped()

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second of all its processes; None before the second step or the first printed number."""
        return self.counts.fps(self.reader.fps)

    @property
    def fps_of_group(self) -> bool:
        """Whether `fps` is the rate of its whole group, as a rank prints it; what the probe counts is its own."""
        return self.reader.fps_of_group and not self.counts.seconds

    def fps_silent_s(self, now: float) -> float | None:
        """Seconds without a printed number, where that is far more than usual; None otherwise, and where steps are counted."""
        return None if self.counts.seconds or self.reader.fps is None else self.reader.pace.silent_s(now)

    def _take(self, is_error: bool, chunk: bytes) -> None:
        """Take what was read from a pipe: every byte goes to the log, whole lines to all that parses them."""
        self.output_bytes += len(chunk)
        raw, block = self._splitters[is_error].feed(chunk)
        self._log.write(raw)
        self._parse(block)

    def _parse(self, block: bytes) -> None:
        try:
            self._read(block)
        except Exception as error:  # the next block may be parsed all the same
            if self.fault is None:
                _log.exception("%s: a part of its output could not be parsed", self.launch.slot.name)
                self.fault = f"a part of its output could not be parsed (internal error: {type(error).__name__}); its log is complete"

    def _read(self, block: bytes) -> None:
        if block:
            self._ring.feed(block)
            if script_results.MARK in block:
                self.reported.take(block)
            self.reader.feed(block, time.monotonic())
            if metrics := self.reader.fresh_metrics():
                self.reported.add(metrics)
            if self.reader.had_progress:
                self._remembered.meshes_written = True
            self._printed()

    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come, and read what the probe has counted."""
        self._count()
        for splitter in self._splitters:
            self._log.write(splitter.unfinished())

    def _count(self) -> None:
        self.counts.read(time.monotonic())
        if self.counts.phase is not None and self.reader.reach(*self.counts.phase):
            self._printed()

    async def finish(self) -> None:
        """Read the rest of the output once all processes have ended."""
        self.process.close_pipes()
        for splitter in self._splitters:
            raw, block = splitter.end()
            self._log.write(raw)
            self._parse(block)
        self._count()
        self.counts.close()
        self.mark_ended()
        await self._log.written()

    def mark_ended(self) -> None:
        """Record the end, by the monotonic clock: setting the system clock must not make an attempt last a day."""
        self.ended_clock = time.monotonic()
        self.memory.ended()

    def remember(self, exit_code: int) -> None:
        """Remember for the next start what this attempt, which has ended with `exit_code`, measured."""
        self._remembered.record(self.reader.phase_times, warm=self._warm)
        # Genesis saves its kernels when the interpreter exits, also by ctrl+c.
        if self.reader.had_progress and exit_code in (0, -signal.SIGINT, 128 + signal.SIGINT):
            self._remembered.kernels_saved = True

    @property
    def usual_s(self) -> float | None:
        """How long the script's phase usually takes, seconds; None when that is unknown, or the phase has no end."""
        return self._remembered.usual(self.reader.phase, warm=self._warm)

    def may_build(self) -> bool:
        """Whether it may use Genesis; where the probe is active, it has begun to import it then."""
        return self.counts.simulator or not self.counts.active

    def measure(self, sample: GpuSample | None, state: WorkerState, now: float, sharers: int) -> None:
        """Take a sample of its GPU (None on a CPU slot), also after its end; the rest is as in `Meter.add`."""
        # The first scan of the process tree may come seconds after the start, and one after its end is empty.
        pids = self.activity.pids | {self.process.pid} if self.process.started else self.activity.pids
        self.memory.measure(sample, pids, live=state.live)
        if state.live and sample is not None:
            used = [process.memory_mib for process in sample.processes or () if process.own_pid in pids]
            sizes = [size for size in used if size is not None]
            own_mib, running = sum(sizes) if sizes else None, state is WorkerState.RUNNING
            self.meter.add(sample, running=running, now=now, sharers=sharers, own_mib=own_mib, counted=self._counted())

    @property
    def n_envs(self) -> int | None:
        """How many environments it steps, prints, or has in its arguments, in this order; None where unknown."""
        return (
            self.counts.n_envs
            or self.reader.n_envs
            or (env_count.from_arguments(self.launch.args) if self.reader.had_progress else None)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of it, a line each."""
        troubles = (self.process.survivors, self.fault, self.reported.trouble, self.left_behind)
        return (*(text for text in troubles if text is not None), *self.reader.warnings)

    def _counted(self) -> tuple[float, float] | None:
        """When its environment steps were first and last counted, monotonic seconds; None before the second count."""
        last = self.counts.last_at if self.counts.seconds else self.reader.pace.last_at
        if last is None or (fps := self.fps) is None or not fps.seconds:
            return None
        return last - fps.seconds, last

    def record(self) -> Attempt:
        """What clients, the store and schedulers know of it at this moment."""
        reader, meter = self.reader, self.meter
        ended = unix(self.ended_clock) if self.ended_clock is not None else None
        fps, power_w = self.fps, meter.counted_power_w
        if fps is not None and fps.seconds and power_w is not None and not self.fps_of_group:  # else others use more
            fps = structs.replace(fps, energy_j=power_w * fps.seconds)
        return Attempt(
            number=self.number,
            args=self.launch.args,
            pid=self.process.pid if self.process.started else None,
            started=unix(self.started_clock),
            ended=ended,
            exit_code=self.exit_code,
            state=self.state if ended is not None else reader.state,
            reason=self.reason,
            given=self.launch.given,
            env=dict(self.launch.given_env),
            gpu_index=self.launch.gpu_index,
            fps=fps,
            fps_of_group=self.fps_of_group,
            n_envs=self.n_envs,
            printed_envs=self.counts.n_envs or reader.n_envs,
            progress=reader.progress,
            metrics=dict(reader.metrics),
            had_progress=reader.had_progress,
            comparable=reader.running_s(self.ended_clock or time.monotonic()) >= SETTLE_S,
            timed_out=self.timed_out,
            gpu_util_mean_pct=meter.gpu_util_pct.value,
            memory_peak_mib=meter.memory_peak_mib(self.memory.before_mib),
            power_mean_w=meter.power_w.value,
            energy_j=meter.energy_j,
            output_bytes=self.output_bytes,
        )


def _first_line(number: int, args: Sequence[str], *, job: str) -> bytes:
    """The line in the log before the output of an attempt that starts now; `job` names its job, if it is one's."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    owner = f"{job} · " if job else ""
    return f"{SEPARATOR}{owner}attempt {number} · {moment} · {' '.join(args)}\n".encode()
