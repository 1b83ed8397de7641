"""Reads what one attempt prints: phase, rate, progress, device, warnings, and at its end the reason of a failure."""

from __future__ import annotations

from collections import deque

from gmg_tui.genesis import lines, progress
from gmg_tui.genesis.alerts import Alerts
from gmg_tui.genesis.failures import Failure, explain
from gmg_tui.genesis.progress import Iterations
from gmg_tui.genesis.tail import Tail
from gmg_tui.genesis.throughput import Source, Throughput
from gmg_tui.genesis.uniform import LEARN_FROM, Uniform
from gmg_tui.model import Fps, Phase, Progress, WorkerState
from gmg_tui.text import clean

_MAX_TEXT = 200
"""Characters of a device's name, as a line of output may hold anything."""
_MAX_PHASES = 64
"""A script may build scenes for ever; only the last phases are kept."""
_MAX_READ = 8192
"""Bytes of a line that are looked at for anything but progress lines."""

_STATES = {
    Phase.NONE: WorkerState.STARTING,
    Phase.IMPORTING: WorkerState.STARTING,
    Phase.INITIALISING: WorkerState.BUILDING,
    Phase.CREATING: WorkerState.BUILDING,
    Phase.ADDING: WorkerState.BUILDING,
    Phase.MESHES: WorkerState.BUILDING,
    Phase.BUILDING: WorkerState.BUILDING,
    Phase.COMPILING: WorkerState.COMPILING,
    Phase.VISUALIZER: WorkerState.COMPILING,
    Phase.RUNNING: WorkerState.RUNNING,
}
_BEFORE_MESHES = frozenset({Phase.CREATING, Phase.ADDING, Phase.MESHES, Phase.BUILDING})


class Reader:
    """Reads the output of one attempt, both streams together, block by block.

    A block without anything but plain lines costs a few searches for short literals; one with nothing but progress
    lines costs one pass of one expression, of a faster one in a flood (`uniform`). Any other block is read line by line. `Fps.samples`, `mean` and `max` count
    every progress line; the rate behind the average is of the last 21 numbers (`rate.WINDOW`), and worked out only when
    asked for.

    Memory is bounded whatever comes: the tail for failures, the window of numbers, the last phases.

    Attributes:
        phase: Where the script is.
        phase_started: When that began, monotonic seconds.
        progress: How far the run is, where the script says so.
        device: Name of the device that Genesis says it runs on.
        backend: `cuda`, `cpu` …
        genesis_version: As in Genesis's greeting.
        had_progress: Whether any simulation was reported: a rate, an iteration, or a bar; a bar that was done
            before Genesis began does not count.
    """

    def __init__(self, gpu_slot: bool, started: float | None = None) -> None:
        """A reader of a worker on a card (`gpu_slot`) or on the CPU.

        Args:
            gpu_slot: Whether the worker is to run on a card.
            started: When its process was started, monotonic seconds; the first block's time without it.
        """
        self.phase = Phase.IMPORTING
        self.phase_started = started or 0.0
        self._clock_known = started is not None
        self.progress: Progress | None = None
        self.device: str | None = None
        self.backend: str | None = None
        self.genesis_version: str | None = None
        self.had_progress = False
        self._now = 0.0
        self._state = WorkerState.STARTING
        self._phases: deque[tuple[Phase, float]] = deque(maxlen=_MAX_PHASES)
        self._throughput = Throughput()
        self._iterations = Iterations()
        self._alerts = Alerts(gpu_slot)
        self._tail = Tail()
        self._uniform = Uniform()
        self._fps: Fps | None = None
        self._fps_known = True
        self._in_traceback = False
        self._has_simulated = False

    @property
    def state(self) -> WorkerState:
        """The worker's state that the phase means; while kernels are saved, the state before that."""
        return self._state

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second; None before the first number."""
        if not self._fps_known:
            self._fps = self._throughput.fps()
            self._fps_known = True
        return self._fps

    @property
    def n_envs(self) -> int | None:
        """Environments, as the progress lines say; None where they do not."""
        return self._throughput.n_envs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not as it should be, one line each."""
        return self._alerts.texts

    @property
    def phases(self) -> tuple[tuple[Phase, float], ...]:
        """The phases that are over, in order, each with how long it took in seconds; at most the last 64."""
        return tuple(self._phases)

    def failure(self, exit_code: int) -> Failure:
        """Why the attempt ended with `exit_code` (negative: a signal's number), as far as its last lines tell."""
        return explain(exit_code, self._tail.lines())

    def feed(self, block: bytes, now: float) -> bool:
        """Read the next block: whole lines, each with its end, or a cut piece of an endless one.

        Args:
            block: The bytes as the worker wrote them.
            now: When they came, monotonic seconds.

        Returns:
            Whether anything that is shown has changed.
        """
        if not self._clock_known:
            self.phase_started, self._clock_known = now, True
        self._now = now
        self._tail.add(block)
        if self._watches_lines():
            return self._read_lines(block)
        rates = self._uniform.rates(block)
        if rates is not None:
            return self._throughput.take_alike(rates) and self._simulated()
        if _holds_other(block):
            return self._read_lines(block)
        found = lines.FPS.findall(block)
        if len(found) >= LEARN_FROM:
            self._uniform.learn(block[block.rfind(b"\n", 0, -1) + 1 :])
        return bool(found) and self._ran(found)

    def _watches_lines(self) -> bool:
        """Whether a line of the script's own would be news: the first one, or the first after building."""
        return self.phase is Phase.IMPORTING or self.phase is Phase.VISUALIZER

    def _read_lines(self, block: bytes) -> bool:
        changed = False
        for raw in block.splitlines(keepends=True):
            changed |= self._read_line(raw)
        return changed

    def _read_line(self, raw: bytes) -> bool:
        found = lines.FPS.findall(raw)
        if found:
            return self._ran(found)
        # What holds nothing for `_holds_other` must mean nothing here either, or it would matter how blocks are cut.
        telling = _holds_other(raw)
        if not telling and not self._watches_lines():
            return False
        short = raw[:_MAX_READ]
        line = lines.plain(short)
        if not line:
            return False
        logged = lines.message(line)
        if logged is not None:
            return self._read_message(logged[1]) if telling else False
        changed = self._read_other(line) if telling else False
        if line.startswith(b"Traceback (most recent call last)"):
            self._in_traceback = True
        if self._watches_lines() and not (self._in_traceback or short[:1] in b" \t" or lines.from_library(line)):
            changed |= self._enter(Phase.RUNNING)
        return changed

    def _ran(self, found: list[tuple[bytes, bytes, bytes]]) -> bool:
        return self._throughput.take_lines(found) and self._simulated()

    def _read_message(self, text: bytes) -> bool:
        """A line of Genesis's logger."""
        changed = self._alerts.message(text)
        if lines.EXIT in text:
            return self._enter(Phase.SAVING) or changed
        device = lines.DEVICE.match(text)
        if device is not None:
            self.device = clean(device["name"])[:_MAX_TEXT]
            self.backend = clean(device["backend"])
            self._alerts.device(self.device, self.backend)
            changed = True
        version = lines.VERSION.search(text)
        if version is not None:
            self.genesis_version = self._throughput.version = clean(version["version"].rstrip(b".,"))
            changed = True
        phase = lines.phase_of(text)
        if phase is None:
            # A greeting or a warning: Genesis is there, though with `logging_level="warning"` it says no more.
            return self._enter(Phase.INITIALISING) or changed if self.phase is Phase.IMPORTING else changed
        return self._begin(phase) or changed

    def _begin(self, phase: Phase) -> bool:
        if phase is Phase.MESHES and self.phase not in _BEFORE_MESHES:
            return False
        if phase is Phase.BUILDING:
            self._throughput.new_scene()
        if phase is Phase.INITIALISING:
            self._was_importing()
        return self._enter(phase)

    def _read_other(self, line: bytes) -> bool:
        """A line that is not of Genesis's logger and may say something of the run."""
        return self._alerts.other(line) | self._read_progress(line)

    def _read_progress(self, line: bytes) -> bool:
        iteration = self._iterations.take(line, self._now)
        if iteration is not None:
            self.progress = iteration
            return self._simulated()
        rate = lines.RSL_RATE.search(line)
        if rate is not None:
            return self._throughput.take_number(Source.RSL, float(rate["old"] or rate["new"])) and self._simulated()
        total = lines.BENCHMARK.fullmatch(line)
        if total is not None:
            return self._throughput.take_number(Source.BENCHMARK, lines.number(total["rate"])) and self._simulated()
        bar = progress.bar(line) if b"%|" in line else None
        if bar is None or self._iterations.any:
            return False
        self.progress = bar
        if self._watches_lines() or self.phase is Phase.RUNNING:
            # While Genesis builds, a bar is of a download, or of meshes.
            self.had_progress = True
            self._enter(Phase.RUNNING)
        return True

    def _simulated(self) -> bool:
        """A simulation has said how it fares."""
        self._fps_known = False
        self.had_progress = self._has_simulated = True
        self._enter(Phase.RUNNING)
        return True

    def _was_importing(self) -> None:
        """Genesis begins after lines or bars of the script's own: it was being imported all the time."""
        if self.phase is Phase.RUNNING and not self._has_simulated and len(self._phases) == 1:
            self.phase, seconds = self._phases.pop()
            self.phase_started -= seconds
            self.progress = None
            self.had_progress = False

    def _enter(self, phase: Phase) -> bool:
        """Begin `phase`; returns whether it is another one."""
        if phase is self.phase:
            return False
        self._phases.append((self.phase, self._now - self.phase_started))
        self.phase = phase
        self.phase_started = self._now
        self._state = _STATES.get(phase, self._state)
        return True


def _holds_other(block: bytes) -> bool:
    """Whether a block may hold more than plain lines and progress lines."""
    for trigger in lines.TRIGGERS:
        if trigger in block:
            return True
    if block.endswith(b" FPS"):
        return True
    return b"[Genesis" in block and lines.OTHER.search(block) is not None
