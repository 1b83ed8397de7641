"""An attempt on this machine: one process, from its preparation to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.facts import Facts
from gmg_tui.engine.attempts.attempt import Life, Outcome, RankActivity, Stop, StopCause, outcome_without_process
from gmg_tui.engine.attempts.failure import (
    blame_gpu,
    outcome_of,
    outcome_of_failed_preparation,
    outcome_of_failed_start,
)
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.process import KILL_STEPS, LEFTOVER_STEPS, SIGTERM_EXIT_CODES, Process, wait_for_leftovers
from gmg_tui.engine.attempts.readings import Readings
from gmg_tui.engine.attempts.stacks import stacks_of
from gmg_tui.engine.clock import any_of, unix
from gmg_tui.engine.output.lines import RingBuffer
from gmg_tui.machine import numa
from gmg_tui.machine.gpu.nvml import NvmlUnavailable
from gmg_tui.machine.processes import Table
from gmg_tui.model import Curve, Details, GpuSample, Phase, Stacks, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.failures import FailureKind
from gmg_tui.scripts.probe.counts import Counts

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.local_host import Launch, LocalHost
    from gmg_tui.engine.attempts.process import Step
    from gmg_tui.engine.workers.worker import Worker

_log = logging.getLogger(__name__)

_MARK_BYTES = 8
_SESSION_END_GRACE_S = 2.0
"""Seconds to wait for a stop request after SIGTERM ended the script: job managers signal all processes at once."""
_ENTRY_CHECK_INTERVAL_S = 1.0
"""Interval of checks that a process has entered its working directory."""


class LocalAttempt:
    """An attempt whose process runs here; `memory` is the GPU memory of the slot's previous attempt.

    Attributes:
        stopped: The first stop request that took effect; `kill` is set if any request was to kill.
        end: The final state and any reason, set by its worker at the end.
        exit_code: The script's exit code, negative for a signal; None before its end.
        readings: Output and measurements; unset until the attempt is prepared.
    """

    readings: Readings

    def __init__(self, host: LocalHost, ring: RingBuffer, memory: GpuMemory | None, worker: Worker) -> None:
        self.slot, self.task = worker.slot, worker.task
        self.stopped: Stop | None = None
        self.exit_code: int | None = None
        self.life = Life.PREPARING
        self.end: tuple[WorkerState, str | None] | None = None
        self._host, self._ring, self._memory_before, self._worker = host, ring, memory, worker
        self._log = host.open_log(self.task.log)
        mark = os.urandom(_MARK_BYTES).hex()
        self._process = Process(host.pipes, host.scans, mark, lambda *out: self.readings.feed(*out), worker.changed)
        self._preparing: asyncio.Task[Launch | None] | None = None
        self._counts: asyncio.Future[Counts] | None = None
        """The probe's counts, once their folder is made; None before it is requested."""
        self._skips_waits = asyncio.Event()
        self._requested: Stop | None = None  # the first stop requested, even if too late
        self._stop_requested = asyncio.Event()
        self._measured = asyncio.Event()
        """Set by each sample of its GPU."""
        self._sample: GpuSample | None = None
        self._sampled_at = 0.0  # monotonic seconds
        self._is_prepared = self._has_leftovers = False
        self._is_entering = False  # True while the process waits for its working directory
        self._last_shown: tuple[WorkerState, Phase] | None = None

    # Lifecycle

    async def run(self) -> Outcome:
        """Runs the attempt to its end; cancelling kills its processes."""
        try:
            launch = await self._launch()
            return launch if isinstance(launch, Outcome) else await self._run(launch)
        finally:
            if self.life in (Life.ALIVE, Life.LEADER_GONE) and self._process.started:
                self._process.end(KILL_STEPS)
                await asyncio.shield(self._process.wait_for_end())
            if self._process.started and self._process.survivors is None:
                self._host.watchdog.remove_group(self._process.pid)
            self._host.gate.leave(self.slot.name, finished=self.exit_code == 0 and self.stopped is None)
            if self._is_prepared:
                self.readings.mark_ended()
            if self._counts is not None:
                self._counts.add_done_callback(_close)  # may still be waiting for the disk
            self.life = Life.ENDED
            self._log.close()

    async def _launch(self) -> Launch | Outcome:
        """Prepares the attempt. Returns its launch, or its outcome if it gets no process."""
        self._preparing = asyncio.create_task(self._prepare())
        try:
            await asyncio.wait([self._preparing])
        finally:
            self._preparing.cancel()
        if self._preparing.cancelled() or self.stopped is not None:
            return outcome_without_process(self.stopped)
        error = self._preparing.exception()
        if isinstance(error, NvmlUnavailable | GmgError | OSError):
            _log.info("%s: an attempt could not be prepared: %s", self.slot.name, error)
            return outcome_of_failed_preparation(error)
        return self._preparing.result() or outcome_without_process(None)

    async def _prepare(self) -> Launch | None:
        """Waits until the attempt may start, and prepares it. Returns None if its group cancels it.

        Reports each wait to its worker. Raises like `LocalHost.prepare`.
        """
        report = self._worker.set_wait_reason
        if self.task.rank is None:  # ranks wait for each other instead
            await any_of(self._skips_waits, self._host.gate.wait(self.slot.name, report))
        warning: str | None = None
        if (memory := self._memory_before) is not None:
            await any_of(self._skips_waits, memory.wait_for_release(report))
            warning = memory.unreleased_warning()
        report(None)
        rendezvous = await self._worker.rendezvous() if self.task.rank is not None else None
        if rendezvous is None and self.task.rank is not None:
            return None
        launch = await self._host.prepare(self.slot, self.task, rendezvous, report)
        self._counts = asyncio.ensure_future(self._host.make_counts(report))
        await asyncio.shield(self._counts)
        await self._worker.reserve(launch.number)
        return launch._replace(memory_warning=warning)

    async def _run(self, launch: Launch) -> Outcome:
        assert self._counts is not None
        counts = self._counts.result()
        readings = self.readings = Readings(launch, self._host, self._log, self._ring, counts, self._on_output)
        self._last_shown = readings.reader.state, readings.reader.phase
        self.life, self._is_prepared = Life.ALIVE, True
        self._worker.on_prepared()
        readings.write_separator()
        env = launch.environment.full | counts.environ
        try:
            await self._process.start(launch.command, cwd=self._host.spec.cwd, env=env, cores=launch.cores)
        except (OSError, RuntimeError) as error:
            self.life = Life.CLEARED
            return outcome_of_failed_start(launch.command[0], error)
        pid = self._process.pid
        readings.watch_ram(self._host.memory_of(pid))
        _log.info("%s: attempt %d is process %d", self.slot.name, launch.number, pid)
        self._host.watchdog.add_group(pid)
        self._worker.on_started()
        if self.stopped is not None:
            self._process.end(self._steps_of(self.stopped))
        await self._wait_for_leader()
        self.life = Life.LEADER_GONE
        if self.exit_code is not None:
            self._worker.on_leader_exit(self.exit_code)
        await self._end_leftovers()
        self.life = Life.CLEARED
        self._process.close_pipes()
        readings.finish(self.exit_code)
        await self._log.flush()
        return await self._determine_outcome(readings)

    async def _wait_for_leader(self) -> None:
        """Waits for the first process to end, or to prove unkillable; stops it after the time limit."""
        timeout_s = self.task.timeout_s
        leader = asyncio.create_task(self._process.wait())
        ends = leader, asyncio.create_task(self._process.unkillable.wait())
        entry_watch = asyncio.create_task(self._watch_entry())
        try:
            if not (await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED))[0]:
                self.stop(Stop(StopCause.TIMEOUT, reason=f"timed out after {units.span(timeout_s or 0.0)}"))
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, entry_watch):
                task.cancel()
        self.exit_code = self._process.exit_code

    async def _watch_entry(self) -> None:
        """Shows the wait for the working directory until the process has entered it."""
        await asyncio.sleep(_ENTRY_CHECK_INTERVAL_S)
        while self._process.is_entering and not self.readings.output_bytes:  # a worker may call itself `env`
            self._is_entering = True
            self._worker.set_wait_reason(f"for the working directory {self._host.spec.cwd}")
            await asyncio.sleep(_ENTRY_CHECK_INTERVAL_S)
        if self._is_entering:
            self._is_entering = False
            self._worker.set_wait_reason(None)

    async def _end_leftovers(self) -> None:
        """Ends leftover processes that do not exit on their own, and waits until no process is left."""
        if not self._process.is_ending:
            description = await wait_for_leftovers(self._process, self._stop_requested, self._report_leftovers)
            if description is not None:
                self.readings.left_behind = f"ended {description}"
                self._worker.set_wait_reason(f"ending {description}")
                self._process.end(LEFTOVER_STEPS)
        await self._process.wait_for_end()
        if anothers := self._process.anothers:
            pids = ", ".join(str(pid) for pid, _ in sorted(anothers))
            self.readings.left_behind = f"cannot end process {pids}: another user's"

    def _report_leftovers(self, description: str | None) -> None:
        self._has_leftovers = True
        self._worker.set_wait_reason(description)

    async def _determine_outcome(self, readings: Readings) -> Outcome:
        if self.exit_code in SIGTERM_EXIT_CODES and self.stopped is None:
            await any_of(self._stop_requested, timeout_s=_SESSION_END_GRACE_S)
            self.stopped = self._requested
        outcome = await outcome_of(readings, self._host.spec, self.exit_code, self.stopped, self._process.survivors)
        failure = outcome.failure
        if failure is None or self._process.survivors is not None:
            return outcome
        failure = readings.explain(failure, self.exit_code)
        if failure.kind is FailureKind.DEVICE and self.task.rank is not None and self.slot.gpu is not None:
            await self._wait_for_sample()
        return outcome._replace(failure=blame_gpu(failure, self._sample))

    async def _wait_for_sample(self) -> None:
        """Waits, while the other ranks are being ended, for a sample that may show that the GPU is lost."""
        now = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._host.spec.interval_s + 1.0):
                while self._sampled_at < now:  # the engine reads samples up to a second later
                    self._measured.clear()
                    await self._measured.wait()

    # Commands

    def stop(self, stop: Stop) -> None:
        """Stops the attempt; one that has ended on its own keeps its outcome."""
        first = self._requested or stop
        self._requested = structs.replace(first, kill=first.kill or stop.kill)
        self._stop_requested.set()
        life = self.life
        if life is Life.ALIVE and self._process.has_ended:
            life = Life.LEADER_GONE
        match life:
            case Life.PREPARING:
                self.stopped = self.stopped or stop
                if self._preparing is not None:
                    self._preparing.cancel()
            case Life.ALIVE:
                self.stopped = structs.replace(self.stopped or stop, kill=self._requested.kill)
                self._process.end(self._steps_of(stop))
                if stop.cause in (StopCause.TIMEOUT, StopCause.ALERT):
                    self._worker.set_wait_reason(stop.reason)
                self._worker.changed()
            case Life.LEADER_GONE:
                self._process.end(KILL_STEPS if stop.kill else LEFTOVER_STEPS)

    def _steps_of(self, stop: Stop) -> tuple[Step, ...]:
        if stop.kill:
            return KILL_STEPS
        # A rank that hangs in a collective does not handle SIGINT.
        return self._host.group_steps if stop.cause is StopCause.GROUP else self._host.stop_steps

    def skip_waits(self) -> None:
        """Skips the waits for the gate and for GPU memory."""
        self._skips_waits.set()

    def forward_signal(self, number: signal.Signals) -> bool:
        """Forwards a signal to the first process if that has a handler. Returns True if sent."""
        return self.life is Life.ALIVE and self._process.forward_signal(number)

    # Observation

    def _on_output(self) -> None:
        """Reports a new state or phase: other output does not need a snapshot at once."""
        previous, self._last_shown = self._last_shown, (self.readings.reader.state, self.readings.reader.phase)
        if self._last_shown != previous:
            self._host.gate.on_phase(self.slot.name, self._last_shown[1])
            self._worker.changed()

    def measure(self, sample: GpuSample | None, now: float, sharers: int) -> None:
        """Applies a GPU sample at `now` (monotonic seconds), even after the end; `sharers` live workers use the GPU."""
        self._sample, self._sampled_at = sample, now
        # The first scan of processes may come seconds after the start; one after the end is empty.
        own = self.readings.activity.pids | ({self._process.pid} if self._process.started else set())
        self.readings.measure(sample, self.state, now, sharers, own)
        self._measured.set()

    def inspect(self, table: Table, now: float) -> None:
        """Updates CPU, memory and idleness from a scan of all processes at `now`, monotonic seconds."""
        if self.life is not Life.ALIVE or not self._process.started:
            return
        self.readings.inspect(self._process.members(table), now)
        activity = self.readings.activity
        is_idle = activity.idle_for_s(now) >= self._host.spec.stuck_after_s and self.stopped is None
        if is_idle:
            self._host.gate.leave(self.slot.name)
        util = self._sample.gpu_util_pct if self._sample is not None else None
        gpu = f", GPU {units.rounded(util)} %" if util is not None else ""
        self._worker.set_stuck(f"{activity.describe_idleness(now)}{gpu}" if is_idle else None)

    def poll(self) -> None:
        """Writes unfinished lines to the log file, and reads the probe's counts."""
        if self.life is Life.ALIVE:
            self.readings.poll()

    # State

    @property
    def state(self) -> WorkerState:
        """The worker's state according to the attempt."""
        if self.end is not None:
            return self.end[0]
        if not self._is_prepared or self._is_entering:
            return WorkerState.WAITING if self.stopped is None else WorkerState.STOPPING
        is_ending = self.stopped is not None or self._process.is_ending or self._has_leftovers
        return WorkerState.STOPPING if is_ending else self.readings.reader.state

    @property
    def fps_of_group(self) -> bool:
        """True if the attempt reports the rate of its whole group."""
        return self.readings.fps_of_group

    @property
    def pids(self) -> frozenset[int]:
        """PIDs at the last scan; empty once the first process has ended."""
        return self.readings.activity.pids if self.life is Life.ALIVE else frozenset()

    @property
    def result(self) -> dict[str, Any]:
        """The values reported by `gmg:result` lines."""
        return dict(self.readings.reported.values)

    def record(self) -> model.Attempt:
        """Returns the attempt's record for clients, the store and schedulers."""
        readings, record = self.readings, self.readings.record()
        return structs.replace(
            record,
            pid=self._process.pid if self._process.started else None,
            started=unix(readings.started_at),
            ended=unix(readings.ended_at) if readings.ended_at is not None else None,
            exit_code=self.exit_code,
            state=self.end[0] if self.end is not None else record.state,
            reason=self.end[1] if self.end is not None else None,
            timed_out=self.stopped is not None and self.stopped.cause is StopCause.TIMEOUT,
        )

    def activity(self) -> RankActivity:
        """Returns the rank's activity, which its group checks."""
        has_process = self._process.started and not self._process.is_ending
        return self.readings.rank_activity(has_process=has_process, leader_runs=self.life is Life.ALIVE)

    def view(self) -> model.Worker:
        """Returns the worker as clients see it, without alerts."""
        state = self.state
        sent = self._process.sent if state is WorkerState.STOPPING else None
        return structs.replace(self.readings.view(state), newest=self.record(), stopping=sent)

    def facts(self, view: model.Worker, now: float) -> Facts:
        """Returns the facts for the attempt's alerts; `view` is the worker as clients see it."""
        return self.readings.facts(view, now, self._process.survivors)

    async def details(self) -> Details:
        """Returns the attempt's command line and environment."""
        launch, (env, unset, _) = self.readings.launch, self.readings.launch.environment
        cwd, cpus = self._host.spec.cwd, numa.cores_text(launch.cores) if launch.cores is not None else ""
        return Details(self.slot.name, launch.command, cwd, dict(env), unset, launch.egl_note, attempts=(), cpus=cpus)

    def curves_loader(self) -> Callable[[], dict[str, Curve]] | None:
        """Returns a function that returns all metrics over time until now, by name; None if there are none."""
        curves = self.readings.curves.view()
        return (lambda: curves) if curves else None

    async def curves(self, name: str, count: int) -> dict[str, Curve]:
        """Returns metrics over time, like `Curves.view`."""
        return self.readings.curves.view(name, count)

    async def stacks(self) -> Stacks:
        """Returns the Python stacks of the first process, or the reason that there are none."""
        stacks = Stacks(self.slot.name, self.task.rank.rank if self.task.rank is not None else None)
        if self.life is not Life.ALIVE or not self._process.started:
            return structs.replace(stacks, error="no process is running")
        return await stacks_of(self._process.pid, self.readings.counts.folder, stacks)


def _close(counts: asyncio.Future[Counts]) -> None:
    if not counts.cancelled() and counts.exception() is None:
        counts.result().close()
