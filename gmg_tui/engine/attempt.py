"""One process of a worker, with all that is read from it and measured of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gmg_tui.engine import reported
from gmg_tui.engine.activity import Activity
from gmg_tui.engine.card_memory import CardMemory
from gmg_tui.engine.cutter import Cutter
from gmg_tui.engine.ending import Ending
from gmg_tui.engine.gate import Gate
from gmg_tui.engine.held import Held
from gmg_tui.engine.launch import Launch
from gmg_tui.engine.logs import Log
from gmg_tui.engine.meter import Meter
from gmg_tui.engine.process import Process
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.ring import Ring
from gmg_tui.genesis.reader import Reader
from gmg_tui.model import Attempt, Figures, GpuReading, Phase, Slot, WorkerState


class RunningAttempt:
    """An attempt from its start to its end.

    Args:
        number: From 1.
        launch: What it is started with.
        slot: Where it runs.
        reading: What its card said last; None on a CPU slot, and before the first time.
        pump: Reads its pipes.
        log: Takes every byte that it writes.
        ring: Takes its lines.
        gate: Says whether it has to be held; None for an attempt that a person does not want to wait.
        heard: Called when the script has said something that is shown.
        changed: Called when something else that is shown has changed.
    """

    def __init__(
        self,
        number: int,
        launch: Launch,
        slot: Slot,
        *,
        reading: GpuReading | None,
        pump: Pump,
        log: Log,
        ring: Ring,
        gate: Gate | None,
        heard: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.number = number
        self.args, self.command, self.environment = launch.args, launch.command, launch.environment
        self.gpu_index = launch.gpu_index
        """NVML index of its card when it started; None on a CPU slot."""
        self.reported: dict[str, Any] = {}
        """What the script has reported by `gmg:result` lines."""
        self.started = time.time()
        """Unix time, seconds."""
        self.started_clock = time.monotonic()
        self.reader = Reader(slot.gpu is not None, self.started_clock)
        self.meter = Meter()
        self.activity = Activity()
        self.output_bytes = 0
        self.memory = CardMemory(slot.name, reading)
        self.process = Process(pump, slot.name, self._take)
        self.ending = Ending(self.process, changed)
        self.held = Held(self.process, slot.name, gate, changed)
        self.ended: float | None = None
        self.state = WorkerState.STARTING
        self.reason: str | None = None
        self._log = log
        self._ring = ring
        self._heard = heard
        self._cutters = (Cutter(), Cutter())

    async def start(self, cwd: str) -> None:
        """Start the process. Raises `OSError` when that cannot be done."""
        await self.process.start(self.command, cwd=cwd, env=self.environment.full)

    def _take(self, chunk: bytes, is_error: bool) -> None:
        self.output_bytes += len(chunk)
        raw, block = self._cutters[is_error].feed(chunk)
        self._log.write(raw)
        self._give(block)

    def _give(self, block: bytes) -> None:
        if block:
            self._ring.feed(block)
            if reported.MARK in block:
                self.reported |= reported.results_in(block)
            if self.reader.feed(block, time.monotonic()):
                self._heard()

    def settle(self) -> None:
        """Bring what waits for the end of its line to the log file."""
        for cutter in self._cutters:
            self._log.write(cutter.settle())

    async def finish(self) -> None:
        """Read what is left after the end of all processes."""
        await self.process.drain()
        for cutter in self._cutters:
            raw, block = cutter.end()
            self._log.write(raw)
            self._give(block)
        self.mark_ended()
        await self._log.written()

    def mark_ended(self) -> None:
        """Note the end; by the steady clock, so that no setting of the clock makes an attempt last a day."""
        self.ended = self.started + time.monotonic() - self.started_clock
        self.memory.ended()

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start, or from its start to its end."""
        return self.ended - self.started if self.ended is not None else time.monotonic() - self.started_clock

    @property
    def running_s(self) -> float:
        """Seconds in the running phase, as far as it is still going on."""
        reader = self.reader
        return time.monotonic() - reader.phase_started if reader.phase is Phase.RUNNING else 0.0

    def measure(self, reading: GpuReading | None, state: WorkerState, now: float) -> None:
        """Take a reading of its card, also after its end.

        Args:
            reading: What the card says; None where nobody asks it.
            state: The worker's.
            now: Monotonic seconds.
        """
        self.memory.measure(reading, self.activity.pids, live=state.live)
        if state.live and reading is not None:
            self.meter.add(reading, running=state is WorkerState.RUNNING, now=now)

    def figures(self) -> Figures:
        """What it has reached so far."""
        fps = self.reader.fps
        return Figures(
            attempt=self.number,
            args=self.args,
            fps=fps.last if fps else None,
            rate=fps.rate if fps else None,
            n_envs=self.reader.n_envs,
            gpu_util_pct=self.meter.gpu_util_mean_pct,
            memory_peak_mib=self.meter.memory_peak_mib,
            power_w=self.meter.power_mean_w,
        )

    def record(self) -> Attempt:
        """What is kept of it."""
        return Attempt(
            number=self.number,
            args=self.args,
            pid=self.process.pid if self.process.started else None,
            started=self.started,
            ended=self.ended,
            exit_code=self.process.exit_code,
            state=self.state if self.ended is not None else self.reader.state,
            reason=self.reason,
            figures=self.figures(),
        )
