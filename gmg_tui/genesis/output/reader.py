"""Reads what one attempt prints: phase, rate, progress, device, warnings, and at its end the reason of a failure."""

from __future__ import annotations

from collections import deque

from msgspec import structs

from gmg_tui.genesis import env_count
from gmg_tui.genesis.output import lines, progress
from gmg_tui.genesis.output.alerts import Alerts
from gmg_tui.genesis.output.failures import Failure, explain
from gmg_tui.genesis.output.pace import Pace
from gmg_tui.genesis.output.progress import Iterations, IterationSteps
from gmg_tui.genesis.output.remarks import Remarks
from gmg_tui.genesis.output.repeated_lines import LEARN_FROM, RepeatedLines
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.genesis.output.tail import Tail
from gmg_tui.genesis.output.throughput import Source, Throughput
from gmg_tui.model import Fps, Phase, Progress, WorkerState
from gmg_tui.text import clean

_MAX_TEXT = 200
"""Characters of a device's name, as a line of output may hold anything."""
_MAX_PHASES = 64
"""A script may build scenes forever; only the last phases are kept."""
_MAX_READ = 8192
"""Bytes of a line that are looked at for anything but progress lines."""

_STATES = {
    Phase.NONE: WorkerState.STARTING,
    Phase.IMPORTING: WorkerState.STARTING,
    Phase.AT_WORK: WorkerState.BUILDING,
    Phase.INITIALISING: WorkerState.BUILDING,
    Phase.CREATING: WorkerState.BUILDING,
    Phase.ADDING: WorkerState.BUILDING,
    Phase.MESHES: WorkerState.BUILDING,
    Phase.BUILDING: WorkerState.BUILDING,
    Phase.COMPILING: WorkerState.COMPILING,
    Phase.VISUALIZER: WorkerState.COMPILING,
    Phase.RUNNING: WorkerState.RUNNING,
}
_SILENT = frozenset({Phase.IMPORTING, Phase.AT_WORK, Phase.VISUALIZER})
"""Phases whose end Genesis does not announce."""
_BEFORE_MESHES = frozenset({Phase.CREATING, Phase.ADDING, Phase.MESHES, Phase.BUILDING})


class Reader:
    """Reads the output of one attempt, both streams together, block by block.

    A block of plain lines costs a few searches for short literals; one of progress lines costs one pass of one
    expression, of a faster one in a flood (`repeated_lines`). Any other block is read line by line. `Fps.samples`, `mean` and
    `max` count every progress line; the settled rate is of the last seconds (`stretches.WINDOW_S`), and computed only
    when asked for. Memory is bounded: the tail for failures, the stretches of the rate, the last phases.
    """

    def __init__(self, gpu_slot: bool, started: float | None = None, *, rank: bool = False) -> None:
        """Read a worker on a GPU (`gpu_slot`) or the CPU, which may be a `rank` of a group.

        It was started at `started`, monotonic seconds; None stands for its first block.
        """
        self.phase = Phase.IMPORTING
        self.state = WorkerState.STARTING
        """The worker's state in this phase; while kernels are saved, the state before."""
        self.phase_started = started or 0.0
        """Monotonic seconds."""
        self._clock_known = started is not None
        self.progress: Progress | None = None
        self.device: str | None = None
        """The name of what Genesis runs on."""
        self.backend: str | None = None
        self.genesis_version: str | None = None
        self.had_progress = False
        """Whether any simulation was reported: a rate, an iteration, or a bar that was not done before Genesis began."""
        self.pace = Pace()
        """When it has reported progress."""
        self._now = 0.0
        self._phases: deque[tuple[Phase, float, bool]] = deque(maxlen=_MAX_PHASES)
        self._throughput = Throughput()
        self._printed_envs: int | None = None
        self._iterations = Iterations()
        self._iteration_steps = IterationSteps()
        self.remarks = Remarks()
        """How many warnings and errors it has printed."""
        self._alerts = Alerts(gpu_slot, rank=rank)
        self._tail = Tail()
        self._repeated = RepeatedLines()
        self._fps: Fps | None = None
        self._gives_up = False
        """Whether it prints why it ends, which is no sign of running."""
        self._has_simulated = False

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second; None before the first number."""
        if self._fps is None:
            self._fps = self._throughput.fps()
        return self._fps

    @property
    def fps_of_group(self) -> bool:
        """Whether `fps` is the whole group's."""
        return self._throughput.of_group

    def fps_silent_s(self, now: float) -> float | None:
        """Seconds without a number at `now` (monotonic seconds), where these are far more than usual; else None."""
        return self._throughput.silent_s(now)

    def blocks(self, after: int) -> Blocks:
        """The blocks of the loop that were closed since the mark `after` (`Throughput.blocks`)."""
        return self._throughput.blocks(after)

    @property
    def n_envs(self) -> int | None:
        """Environments according to the progress lines, else to what the script prints; None if nothing says."""
        return self._throughput.n_envs or self._printed_envs

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, one line each."""
        return self._alerts.texts

    @property
    def phases(self) -> tuple[tuple[Phase, float], ...]:
        """The phases whose end was seen, in order, each with how long it took in seconds; at most the last 64.

        A phase that an exit cut short is not among them, nor one after which Genesis printed nothing: it ended unseen
        before the script's first line.
        """
        return tuple((phase, seconds) for phase, seconds, seen in self._phases if seen and phase is not Phase.AT_WORK)

    def running_s(self, now: float) -> float:
        """How long it has been in the running phase, seconds, up to `now` (monotonic seconds)."""
        before_s = sum(seconds for phase, seconds, _ in self._phases if phase is Phase.RUNNING)
        return before_s + (max(0.0, now - self.phase_started) if self.phase is Phase.RUNNING else 0.0)

    def failure(self, exit_code: int) -> Failure:
        """Why the attempt ended with `exit_code` (negative: a signal's number), according to its last lines."""
        return explain(exit_code, self._tail.lines())

    def feed(self, block: bytes, now: float) -> bool:
        """Read the next block, which came at `now` (monotonic seconds): whole lines, or a piece of an endless one.

        Returns whether anything that is displayed has changed.
        """
        if not self._clock_known:
            self.phase_started, self._clock_known = now, True
        self._now = now
        self._tail.add(block)
        watches = self._watches_lines()
        rates = self._repeated.rates(block) if not watches else None
        if rates is None:  # lines of nothing but rates need no further look, which a flood would pay for
            self.remarks.take(block)
        if watches:
            return self._read_lines(block)
        if rates is not None:
            return self._throughput.take_uniform(rates, now) and self._simulated(seen=True)
        if _holds_other(block):
            return self._read_lines(block)
        found = lines.FPS.findall(block)
        if len(found) >= LEARN_FROM:
            self._repeated.learn(block[block.rfind(b"\n", 0, -1) + 1 :])
        return bool(found) and self._ran(found)

    def take_figures(self, fps: float | None, n_envs: int | None, progress: Progress | None) -> None:
        """Take what the script says of itself in a line of the last block; None for what it does not say."""
        if n_envs is not None:
            self._throughput.set_environments(n_envs)
        if progress is not None:
            self.progress = progress
        if fps is not None:
            self._throughput.take_number(Source.SCRIPT, fps, self._now)
        self._simulated()

    def _watches_lines(self) -> bool:
        """Whether a line of the script's own would matter: the first one, or the first after building."""
        return self.phase in _SILENT

    def _read_lines(self, block: bytes) -> bool:
        changed = False
        for raw in block.splitlines(keepends=True):
            changed |= self._read_line(raw)
        return changed

    def _read_line(self, raw: bytes) -> bool:
        found = lines.FPS.findall(raw)
        if found:
            return self._ran(found)
        # What `_holds_other` ignores must mean nothing here either, or it would matter how blocks are cut.
        telling = _holds_other(raw)
        if not telling and not self._watches_lines():
            return False
        short = raw[:_MAX_READ]
        line = lines.plain(short)
        if not line:
            return False
        logged = lines.message(line)
        if logged is not None:
            return self._read_message(*logged) if telling else False
        changed = self._read_other(line) if telling else False
        if line.startswith(b"Traceback (most recent call last)") or lines.USAGE.match(line):
            self._gives_up = True
        if lines.COMPILER.match(line):
            return self._greeted(announces=False) or changed
        if self._watches_lines() and not (self._gives_up or short[:1] in b" \t" or lines.from_library(line)):
            changed |= self._enter(Phase.RUNNING)
        return changed

    def _ran(self, found: list[tuple[bytes, bytes, bytes]]) -> bool:
        return self._throughput.take_lines(found, self._now) and self._simulated(seen=True)

    def _read_message(self, level: bytes, text: bytes) -> bool:
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
            return self._greeted(level == b"INFO") or changed
        return self._begin(phase) or changed

    def _greeted(self, announces: bool) -> bool:
        """Genesis has started: with a greeting, or without, where a warning or its compiler is the first to be heard."""
        if self.phase is not Phase.IMPORTING:
            return False
        return self._enter(Phase.INITIALISING if announces else Phase.AT_WORK, seen=announces)

    def _begin(self, phase: Phase) -> bool:
        if phase is Phase.MESHES and self.phase not in _BEFORE_MESHES:
            return False
        if phase is Phase.BUILDING:
            self._throughput.new_scene()
        if phase is Phase.INITIALISING:
            self._was_importing()
        return self._enter(phase, seen=True)

    def _read_other(self, line: bytes) -> bool:
        """A line that is not from Genesis's logger."""
        return self._alerts.other(line, saving=self.phase is Phase.SAVING) | self._read_progress(line)

    def _read_progress(self, line: bytes) -> bool:
        envs = env_count.PRINTED.search(line)
        if envs is not None:
            self._printed_envs = int(envs["count"])
            return True
        reward = lines.RSL_REWARD.search(line)
        if reward is not None and self.progress is not None:
            self.progress = structs.replace(self.progress, reward=reward["reward"].decode())
            return True
        iteration = self._iterations.take(line, self._now)
        if iteration is not None:
            self.progress = iteration
            return self._simulated()
        self._iteration_steps.take(line)
        rate = lines.RSL_RATE.search(line)
        if rate is not None:
            number, steps = float(rate["old"] or rate["new"]), self._iteration_steps.each
            return self._throughput.take_number(Source.RSL, number, self._now, steps) and self._simulated()
        total = lines.BENCHMARK.fullmatch(line)
        if total is not None:
            return (
                self._throughput.take_number(Source.BENCHMARK, lines.number(total["rate"]), self._now)
                and self._simulated()
            )
        bar = progress.bar(line) if b"%|" in line else None
        if bar is None or self._iterations.any:
            return False
        self.progress = bar
        if self._watches_lines() or self.phase is Phase.RUNNING:
            # While Genesis builds, a bar is for a download or for meshes.
            self.had_progress = True
            self.pace.beat(self._now)
            self._enter(Phase.RUNNING)
        return True

    def _simulated(self, *, seen: bool = False) -> bool:
        """A simulation has reported its rate or progress; `seen` if it did with its first steps."""
        self._fps = None
        self.pace.beat(self._now)
        self.had_progress = self._has_simulated = True
        self._enter(Phase.RUNNING, seen=seen)
        return True

    def _was_importing(self) -> None:
        """Genesis starts after the script's own lines or bars: until now it was being imported."""
        if self.phase is Phase.RUNNING and not self._has_simulated and len(self._phases) == 1:
            self.phase, seconds, _ = self._phases.pop()
            self.phase_started -= seconds
            self.progress = None
            self.had_progress = False

    def _enter(self, phase: Phase, *, seen: bool = False) -> bool:
        """Begin `phase`, `seen` if what precedes it ended at this line; returns whether it is another one."""
        if phase is self.phase:
            return False
        self._phases.append((self.phase, self._now - self.phase_started, seen))
        self.phase = phase
        self.phase_started = self._now
        self.state = _STATES.get(phase, self.state)
        return True


def _holds_other(block: bytes) -> bool:
    """Whether a block may hold more than plain lines and progress lines."""
    for trigger in lines.TRIGGERS:
        if trigger in block:
            return True
    return block.endswith(b" FPS") or (b"[Genesis" in block and lines.OTHER.search(block) is not None)
