"""Readings of an attempt's process: output, steps, phases, and CPU, memory and GPU use."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.facts import Facts, Limit
from gmg_tui.diagnosis.verdicts import judge
from gmg_tui.engine.attempts.attempt import RankActivity
from gmg_tui.engine.attempts.curves import Curves
from gmg_tui.engine.attempts.gpu_use import GpuMemory, Meter
from gmg_tui.engine.clock import unix
from gmg_tui.engine.output.lines import LineSplitter, RingBuffer
from gmg_tui.engine.output.logs import Log
from gmg_tui.machine.cgroup import Memory
from gmg_tui.machine.process_load import Activity
from gmg_tui.machine.processes import Proc
from gmg_tui.model import Fps, GpuSample, Phase, Severity, Sign, SpeedFacts, Verdict, WorkerState, units
from gmg_tui.model.attempt import add_checkpoints
from gmg_tui.model.text import MAX_LINE_BYTES, SEPARATOR, clean
from gmg_tui.model.tried import SETTLE_S
from gmg_tui.scripts import env_count
from gmg_tui.scripts.genesis.output.failures import Failure
from gmg_tui.scripts.genesis.output.reader import Reader
from gmg_tui.scripts.probe.counts import Counts
from gmg_tui.scripts.probe.reports import Metric
from gmg_tui.scripts.readers.reported import RESULT_MARK, ReportedResults

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.local_host import Launch, LocalHost

_log = logging.getLogger(__name__)

_MAX_FINAL_READS = 8
"""Maximum reads of the probe's reports at the end; usually one is enough."""
_SIGKILL_EXIT_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)


class Readings:
    """The readings of one attempt, during and after its run.

    `on_print` is called when output or a report may have changed the display.
    """

    def __init__(
        self, launch: Launch, host: LocalHost, log: Log, ring: RingBuffer, counts: Counts, on_print: Callable[[], None]
    ) -> None:
        self.launch = launch
        self.started_at = time.monotonic()
        self.ended_at: float | None = None
        self.reported = ReportedResults(host.result_names)
        """The results from the script's `gmg:result` lines, and its named metrics."""
        self.reader = Reader(
            launch.slot.gpu is not None,
            self.started_at,
            rank=launch.rendezvous is not None or host.is_torchrun,
            formats=host.formats,
            args=launch.args,
        )
        self.meter = Meter()
        self.activity = Activity()
        self.memory = GpuMemory(launch.slot.name)
        self.counts = counts
        self.checkpoints = launch.task.checkpoints
        """The worker's newest checkpoints, including earlier attempts', oldest first."""
        self.curves = Curves()
        self.output_bytes = 0
        self.fault: str | None = None
        """The internal error that prevented parsing of some output; None if there was none. The log is complete."""
        self.unclean: str | None = None
        """The exception printed despite exit code 0; None if there was none."""
        self.misplaced: str | None = None
        """Description of the wrong GPU that NVML lists it on; None if there is none."""
        self.written: set[str] = set()
        """Files recently open for writing, or reported as saved."""
        self.left_behind: str | None = None
        """Description of the leftover processes that were ended after the script; None if there were none."""
        self._ram: Memory | None = None
        """The memory of its cgroups; None before the start."""
        self._kills_before = 0
        self._oom: str | None = None
        """Description of an out-of-memory kill by the kernel; None if there was none."""
        self._phase_times, self._warm = launch.phase_times, launch.phase_times.kernels_saved
        self._log, self._ring, self._on_print, self._splitters = log, ring, on_print, (LineSplitter(), LineSplitter())
        self._verdict: Verdict | None = None

    # Output

    def write_separator(self) -> None:
        """Writes a line that separates the attempt's output from earlier output, if there may be any."""
        task, number = self.launch.task, self.launch.number
        job = f"job {task.job} · {task.name} · " if task.job is not None else ""
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        line = f"{SEPARATOR}{job}attempt {number} · {moment} · {' '.join(self.launch.args)}\n".encode()
        if number > 1:
            self._log.separate(line)
        if number > 1 or job:
            self._ring.feed(line)  # a slot's jobs share its ring buffer

    def feed(self, is_error: bool, chunk: bytes) -> None:
        """Handles output from a pipe: all bytes go to the log, whole lines to the parsers."""
        self.output_bytes += len(chunk)
        raw, block = self._splitters[is_error].feed(chunk)
        self._log.write(raw)
        self._parse(block)

    def _parse(self, block: bytes) -> None:
        try:
            self._handle(block)
        except Exception as error:  # the next block may still parse
            if self.fault is None:
                _log.exception("%s: part of its output could not be parsed", self.launch.slot.name)
                kind = type(error).__name__
                self.fault = f"part of its output could not be parsed (internal error: {kind}); its log is complete"

    def _handle(self, block: bytes) -> None:
        if block:
            self._ring.feed(block)
            self.reader.feed(block, time.monotonic())
            if metrics := [entry for entry in self.reader.fresh_metrics() if entry[0] not in self.reported.explicit]:
                self.reported.add({name: value for name, value, _ in metrics})
                self._add_metrics(metrics)
            if RESULT_MARK in block:
                self._add_metrics([(name, value, self._step) for name, value in self.reported.read(block).items()])
            if self.reader.had_progress:
                self._phase_times.meshes_written = True
            self._on_print()

    @property
    def _step(self) -> int | None:
        return int(self.reader.progress.done) if self.reader.progress is not None else None

    def _add_metrics(self, metrics: Iterable[tuple[str, float, int | None]]) -> None:
        """Adds printed metrics, each a name, value and step, to the curves."""
        now, unit = time.monotonic(), self.reader.progress.unit if self.reader.progress is not None else "step"
        self.curves.add((Metric(*entry, now) for entry in metrics), unit)

    def poll(self) -> None:
        """Writes unfinished lines to the log file, shows them, and reads the probe's counts."""
        self._read_counts()
        for splitter in self._splitters:
            pending = splitter.pending
            if raw := splitter.take_unfinished():
                self._log.write(raw)
                self._ring.preview(splitter.pending)
            if pending and self.reader.read_unfinished(pending, time.monotonic()):
                self._on_print()

    def _read_counts(self) -> None:
        self.counts.read(time.monotonic())
        metrics, files = self.counts.read_reports()
        if metrics or files:
            self.reported.add({metric.name: metric.value for metric in metrics})
            self.curves.add(metrics)
            progress = self.reader.progress
            label = f"{progress.unit} {progress.done:,.0f}" if progress is not None else None
            saved = (structs.replace(file, progress=label) for file in files)
            self.checkpoints = add_checkpoints(self.checkpoints, saved, self.curves.broken_since)
        if self.counts.phase is not None and self.reader.reach(*self.counts.phase):
            self._on_print()

    def finish(self, exit_code: int | None) -> None:
        """Parses the rest of the output once the pipes are closed, and records the phase times for later starts."""
        for splitter in self._splitters:
            raw, block = splitter.end()
            self._log.write(raw)
            self._parse(block)
        for _ in range(_MAX_FINAL_READS):
            self._read_counts()
        self.counts.close()
        self._verdict = self._judge_speed()
        self.reader.is_complete = exit_code == 0
        if exit_code == 0:
            self.unclean = self.reader.uncaught_exception(main_ended_cleanly=self.counts.reports.has_ended_cleanly)
        self.mark_ended()
        self._phase_times.record(self.reader.phase_times, warm=self._warm)
        # Genesis saves its kernels when the interpreter exits, even by ctrl+c.
        if self.reader.had_progress and exit_code in (0, -signal.SIGINT, 128 + signal.SIGINT):
            self._phase_times.kernels_saved = True

    def mark_ended(self) -> None:
        """Records the end on the monotonic clock, so that setting the system clock does not add a day to an attempt."""
        if self.ended_at is None:
            self.ended_at = time.monotonic()
            self.memory.mark_ended()

    # Measurements

    def watch_ram(self, memory: Memory) -> None:
        """Starts reading the memory that its first process may use."""
        memory.read(time.monotonic())
        self._ram, self._kills_before = memory, memory.oom_kills

    def _read_ram(self, now: float) -> None:
        if self._ram is not None:
            self._ram.read(now)
            self._oom = self._oom or self._ram.describe_kills(self._kills_before)

    def explain(self, failure: Failure, exit_code: int | None) -> Failure:
        """Returns `failure`, with lack of RAM as the reason if the kernel killed a process for that."""
        self._read_ram(time.monotonic())
        if self._oom is None or exit_code not in _SIGKILL_EXIT_CODES:
            return failure
        return failure._replace(reason=f"SIGKILL: {self._oom}", advice="use less RAM, or fewer workers")

    def inspect(self, members: Iterable[Proc], now: float) -> None:
        """Updates the activity from the live processes at `now`, monotonic seconds."""
        self.activity.update(members, self.output_bytes + self.counts.steps, now)
        self._read_ram(now)

    def measure(
        self, sample: GpuSample | None, state: WorkerState, now: float, sharers: int, own: frozenset[int]
    ) -> None:
        """Applies a GPU sample (None: CPU slot), even after the end; `own` are the attempt's PIDs."""
        is_live = state.live and now >= self.started_at  # the sample may be older
        self.memory.measure(sample, own, live=is_live)
        if is_live and sample is not None:
            running = state is WorkerState.RUNNING
            self.meter.add(sample, running=running, now=now, sharers=sharers, counted=self._count_times())

    def _count_times(self) -> tuple[float, float] | None:
        """Returns the times of the first and last count of steps, monotonic seconds; None before the second count."""
        last = self.counts.last_at if self.counts.seconds else self.reader.pace.last_at
        if last is None or (fps := self.fps) is None or not fps.seconds:
            return None
        return last - fps.seconds, last

    # Figures

    @property
    def newest_line(self) -> bytes:
        """The newest line of output that is not blank."""
        return self._ring.newest

    @property
    def had_progress(self) -> bool:
        """True if the script got beyond its start: it has shown progress, or reported metrics or saved files for a while."""
        return self.reader.had_progress or self.counts.reports.has_lasted

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second of all its processes; None before the second count or the first printed rate."""
        return self.counts.fps(self.reader.fps)

    @property
    def fps_of_group(self) -> bool:
        """True if `fps` is a printed rate of the whole group; the probe counts only this rank."""
        return self.reader.fps_of_group and not self.counts.seconds

    @property
    def n_envs(self) -> int | None:
        """Number of environments: counted, else printed, else from the arguments; None if unknown."""
        return (
            self.counts.n_envs
            or self.reader.n_envs
            or (env_count.from_arguments(self.launch.args) if self.reader.had_progress else None)
        )

    def record(self) -> model.Attempt:
        """Returns the attempt's record now, without its process and outcome."""
        reader, meter = self.reader, self.meter
        fps, power_w = self.fps, meter.counted_power_w
        # A group's rate takes the energy of all ranks, which is not measured here.
        if fps is not None and fps.seconds and power_w is not None and not self.fps_of_group:
            fps = structs.replace(fps, energy_j=power_w * fps.seconds)
        return model.Attempt(
            number=self.launch.number,
            args=self.launch.args,
            state=reader.state,
            given=self.launch.task.given,
            env=self.launch.task.given_env,
            gpu_index=self.launch.gpu_index,
            fps=fps,
            fps_of_group=self.fps_of_group,
            n_envs=self.n_envs,
            printed_envs=self.counts.n_envs or reader.n_envs,
            progress=reader.progress,
            metrics=self.curves.newest,
            had_progress=self.had_progress,
            comparable=reader.running_s(self.ended_at or time.monotonic()) >= SETTLE_S,
            gpu_util_mean_pct=meter.gpu_util_pct.value,
            memory_peak_mib=self.memory.peak_mib,
            power_mean_w=meter.power_w.value,
            energy_j=meter.energy_j,
            output_bytes=self.output_bytes,
            start_s=None if reader.first_running is None else max(0.0, reader.first_running - self.started_at),
            memory_rss_peak_mib=self.activity.memory_rss_peak_mib,
            checkpoints=self.checkpoints,
            continued_from=self.launch.continued_from,
            verdict=self._verdict,
            simulator=reader.genesis.mode
            | ({"deterministic": self.counts.determinism} if self.counts.determinism else {}),
        )

    def _judge_speed(self) -> Verdict | None:
        """Returns the verdict on the attempt's speed, from facts that are always gathered; None without one."""
        facts = SpeedFacts(
            self.launch.slot.name,
            WorkerState.RUNNING,
            n_envs=self.n_envs,
            shares=self.counts.shares(),
            has_gpu=self.launch.slot.gpu is not None,
            gpu_util_pct=self.meter.gpu_util_pct.value,
        )
        return verdict if (verdict := judge(facts)).kind != "unknown" else None

    def rank_activity(self, *, has_process: bool, leader_runs: bool) -> RankActivity:
        """Returns the rank's activity, which its group checks."""
        reader, activity = self.reader, self.activity
        return RankActivity(
            self.launch.number,
            has_process,
            leader_runs=leader_runs,
            phase_started=reader.phase_started,
            in_running=reader.phase is Phase.RUNNING,
            progress_at=reader.pace.last_at,
            progress_every_s=reader.pace.usual_s,
            idle_s=activity.updated_idle_s,
            silence_s=activity.updated_silence_s,
            stopped=activity.stopped,
        )

    def view(self, state: WorkerState) -> model.Worker:
        """Returns the worker in this state as clients see it, without its record and alerts."""
        reader, phase = self.reader, self.reader.phase if state.live else Phase.NONE
        return model.Worker(
            self.launch.slot.name,
            0,
            state,
            phase=phase,
            phase_since=unix(reader.phase_started) if phase is not Phase.NONE else 0.0,
            phase_usual_s=self._phase_times.usual(phase, warm=self._warm) if phase is not Phase.NONE else None,
            device=reader.genesis.device,
            backend=reader.genesis.backend,
            genesis_version=reader.genesis.version,
            cpu_pct=self.activity.cpu_pct if state.live else None,
            memory_rss_mib=self.activity.memory_rss_mib if state.live else None,
            log_lines=self._ring.end,
            last_line=self._last_line(),
        )

    def facts(self, view: model.Worker, now: float, survivors: str | None) -> Facts:
        """Returns the facts for alerts at `now`, monotonic seconds; `survivors` describes unkillable processes."""
        timeout_s = self.launch.task.timeout_s
        return Facts(
            unix(now),
            view,
            signs=tuple(self._signs(view.state, now, survivors)),
            room=self._ram.tightest if self._ram is not None else None,
            vram_mib=self.memory.used_mib,
            broken=self.curves.broken,
            newest_line=clean(self.newest_line) if self.reader.metrics else "",
            is_bar=self.reader.is_bar,
            is_starved=self.activity.is_starved,
            is_writing=self.activity.is_writing,
            limit=Limit(unix(self.started_at) + timeout_s, "--timeout") if timeout_s is not None else None,
        )

    def _signs(self, state: WorkerState, now: float, survivors: str | None) -> Iterator[Sign]:
        if self.misplaced is not None:
            yield Sign(
                "misplaced", self.misplaced, "check CUDA_VISIBLE_DEVICES, and the device that the script chooses"
            )
        if memory := (self._oom if self._ram and self._ram.is_limited else None) or self.launch.memory_warning:
            yield Sign("memory", memory, severity=None if memory is self._oom else Severity.INFO)  # perhaps others'
        for trouble in filter(None, (self._log.trouble, self.counts.trouble)):
            yield Sign("disk", trouble)
        if leftover := survivors or self.left_behind:
            yield Sign("leftover", leftover)
        if self.launch.not_continued is not None:
            yield Sign("checkpoint", self.launch.not_continued)
        if self.unclean is not None:
            yield Sign("unclean", f"exit code 0 after {self.unclean}", "see the end of its log")
        if self.fault is not None:
            yield Sign("internal", self.fault)
        if self.reported.trouble is not None:
            yield Sign("output", self.reported.trouble)
        if lost := self.counts.reports.lost:
            text = f"{lost:,} metrics were dropped: they came too fast"
            yield Sign("output", text, "report fewer per second", Severity.INFO)
        is_printed = state is WorkerState.RUNNING and self.reader.fps is not None and not self.counts.seconds
        if is_printed and (silent_s := self.reader.pace.silent_s(now)) is not None:
            yield Sign("silent", "no FPS line", since=unix(now - silent_s))
        yield from self.reader.signs

    def _last_line(self) -> str:
        """Returns the script's progress and metrics if it reports any, else its newest line."""
        reader, progress = self.reader, self.reader.progress
        if not reader.metrics:
            return clean(self._ring.newest)
        texts = [f"{progress.unit} {progress.done:,.0f} of {progress.total:,.0f}"] if progress is not None else []
        metrics = (f"{name.replace('_', ' ')} {units.number(value)}" for name, value in reader.metrics.items())
        return ", ".join([*texts, *metrics])[:MAX_LINE_BYTES]
