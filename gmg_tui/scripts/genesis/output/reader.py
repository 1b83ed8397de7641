"""Reads the output of one attempt: phase, rate, progress, metrics, signs of trouble, and the reason for its failure."""

import math
import re
from collections import deque
from collections.abc import Sequence
from itertools import islice

from gmg_tui.model import Fps, Phase, Progress, Sign, WorkerState
from gmg_tui.model.text import MAX_LINE_BYTES, TRACEBACK
from gmg_tui.scripts import env_count
from gmg_tui.scripts.genesis.output import line_patterns
from gmg_tui.scripts.genesis.output.failures import Failure, Tail, explain, uncaught_exception
from gmg_tui.scripts.genesis.output.genesis_lines import GenesisLines
from gmg_tui.scripts.genesis.output.printed_rate import PrintedRate
from gmg_tui.scripts.readers.formats import Format, FormatLines, built_in
from gmg_tui.scripts.readers.interface import Figures, LineReader
from gmg_tui.scripts.readers.messages import Overflows, SavedPaths
from gmg_tui.scripts.readers.pairs import PairLines
from gmg_tui.scripts.readers.reported import ReportedRates

_MAX_METRICS = 64
_MAX_BLOCK_BYTES = 1 << 16
"""Bytes to read at the end of a block: in a flood the newest lines count."""
_MAX_SILENT_LINES = 1000
"""Lines of a block to search for the end of a silent phase."""
_UNINDENTED = re.compile(rb"(?:\A|(?<=[\r\n]))[^ \t\r\n][^\r\n]*[\r\n]?")
_ETA_LINES = 20
"""Newest progress lines from which the remaining time is estimated."""

_STATES = {
    Phase.IMPORTING: WorkerState.STARTING,
    Phase.INITIALISING: WorkerState.BUILDING,
    Phase.CREATING: WorkerState.BUILDING,
    Phase.BUILDING: WorkerState.BUILDING,
    Phase.COMPILING: WorkerState.COMPILING,
    Phase.BUILT: WorkerState.COMPILING,
    Phase.RUNNING: WorkerState.RUNNING,
}
_SILENT = frozenset({Phase.IMPORTING, Phase.COMPILING})
"""Phases whose end Genesis does not print: the next line of the script itself ends them."""

_MAX_PAUSE_S = 2.5
"""Seconds between two checks of a worker that count as silence; checks are a second apart."""
_STALE_FACTOR, _STALE_S, _FIRST_GAP_S = 3.0, 5.0, 20.0
"""Reports are late after this factor times the longest recent gap (`_FIRST_GAP_S` if none), at least `_STALE_S`."""
_UNMATCHED_S = 15.0
"""Seconds of running before a `--pattern` without a match is reported."""
_MAX_GAPS = 16  # some scripts print several numbers at once, after a long silence


class Pace:
    """The times of a script's reports.

    Reports that have arrived are read late if the script, the engine or the machine was suspended: of the time between
    two checks, no more than `_MAX_PAUSE_S` counts.
    """

    def __init__(self) -> None:
        self.last_at: float | None = None
        """Monotonic seconds; None before the first."""
        self._gaps_s: deque[float] = deque(maxlen=_MAX_GAPS)
        self._checked_at = math.inf
        self._paused_s = 0.0
        """Seconds since the last report that do not count."""

    def record(self, now: float) -> None:
        """Records a report at `now`, monotonic seconds."""
        self._skip_pause(now)
        if self.last_at is not None and (gap_s := now - self.last_at - self._paused_s) > 0:
            self._gaps_s.append(gap_s)
        self.last_at, self._paused_s = now, 0.0

    @property
    def usual_s(self) -> float:
        """The longest of the last intervals, seconds; 0 before the second report."""
        return max(self._gaps_s, default=0.0)

    def silent_s(self, now: float) -> float | None:
        """Returns the seconds since the last report; None unless they are several times the usual interval.

        To be called every second.
        """
        self._skip_pause(now)
        self._checked_at = now
        silent_s = now - self.last_at - self._paused_s if self.last_at is not None else 0.0
        return silent_s if silent_s > max(_STALE_S, _STALE_FACTOR * (self.usual_s or _FIRST_GAP_S)) else None

    def _skip_pause(self, now: float) -> None:
        skipped_s = now - self._checked_at - _MAX_PAUSE_S
        if skipped_s > 0:
            self._paused_s += skipped_s
            self._checked_at = now


class Reader:
    """Reads the output of one attempt, both streams together, block by block, in bounded memory.

    The user's `formats` take precedence over Genesis' lines, and those over a trainer's. The probe also reports phases.

    Attributes:
        state: The worker's state in this phase; while kernels are saved, the state before.
        phase_started: Start of the phase, monotonic seconds.
        first_running: Start of the first running phase, monotonic seconds; None before it.
        phase_times: Seconds of each phase that has ended.
        had_progress: True if the script has reported a rate or iteration, or shown a bar after Genesis started.
        pace: The times of its progress reports.
        metrics: The newest value of each named number.
        n_envs: Environments, as printed; None if not printed.
        saved: The files that the script printed as saved.
        is_complete: True once the script has ended with exit code 0.
    """

    def __init__(
        self,
        gpu_slot: bool = False,
        started: float | None = None,
        *,
        rank: bool = False,
        formats: Sequence[Format] = (),
        args: Sequence[str] = (),
    ) -> None:
        """Reads the output of a worker on a GPU (`gpu_slot`) or the CPU, possibly a `rank` of a group.

        `started` is its start, monotonic seconds (None for the time of its first block); `args` are the script's.
        """
        self.phase, self.state = Phase.IMPORTING, WorkerState.STARTING
        self.phase_started = started or 0.0
        self.first_running: float | None = None
        self.phase_times: dict[Phase, float] = {}
        self.progress: Progress | None = None
        self.had_progress = False
        self.metrics: dict[str, float] = {}
        self.n_envs: int | None = None
        self._is_rank = rank
        self.genesis = GenesisLines(gpu_slot, rank=rank)
        self._custom = [*map(FormatLines, formats)]
        trainers = [FormatLines(row, built_in=True) for row in built_in().values()]
        known, bars = ([row for row in trainers if row.vague is vague] for vague in (False, True))
        self._reported, self._pairs = ReportedRates(), PairLines()
        first = (self._reported, *self._custom, self.genesis)
        self._readers: tuple[LineReader, ...] = (*first, *known, self._pairs, *bars)
        self._trainers = range(len(first), len(first) + len(known))
        self.is_complete = False
        self._rate = PrintedRate()
        self._rate_from = self._progress_from = self._envs_from = len(self._readers)
        self._reports: deque[tuple[float, float]] = deque(maxlen=_ETA_LINES + 1)
        """Amounts done, and their times (monotonic seconds)."""
        self._total = env_count.total_steps(args)
        self.pace = Pace()
        self._fresh: list[tuple[str, float, int | None]] = []
        self._tail = Tail()
        self._overflows = Overflows()
        self.saved = SavedPaths()
        self._now = 0.0
        self._clock_known = started is not None
        self._running_s = 0.0
        """Duration of earlier running phases, seconds."""
        self._is_failing = False
        """True once the script has printed an error or its usage: later lines do not begin the running phase."""
        self._has_simulated = False

    def feed(self, block: bytes, now: float) -> None:
        """Reads the next block, which arrived at `now` (monotonic seconds): whole lines, or part of a very long one."""
        if not self._clock_known:
            self.phase_started, self._clock_known = now, True
        self._now = now
        self._tail.add(block)
        at = 0
        for start, end in self.genesis.ordered_spans(block):
            self._read_lines(block[at:start])
            self._read(block[start:end])
            at = end
        self._read_lines(block[at:])

    def _read_lines(self, block: bytes) -> None:
        """Reads lines outside `ordered_spans`; the script's first own line ends a silent phase."""
        if self.phase in _SILENT:
            lines = islice(_UNINDENTED.finditer(block), _MAX_SILENT_LINES)
            if (own_line := next((line for line in lines if self._is_own(line[0])), None)) is not None:
                silent_phase = self.phase
                self._read(block[: own_line.start()])
                self._read(own_line[0])
                if self.phase is silent_phase:
                    self._enter(Phase.RUNNING)
                block = block[own_line.end() :]
        if len(block) > _MAX_BLOCK_BYTES:
            block = _shorten(block)
            at = max(0, len(block) - _MAX_BLOCK_BYTES)
            self._overflows.feed(block[:at])
            block = block[at:]
        self._read(block)

    def _read(self, block: bytes) -> None:
        unread = block
        for position, reader in enumerate(self._readers if block else ()):
            for figures in reader.read(unread):
                self._apply(position, reader, figures)
            if reader is self.genesis and not (unread := self.genesis.rest):
                return
        self._overflows.feed(unread)
        self.saved.feed(unread)

    def read_unfinished(self, line: bytes, now: float) -> bool:
        """Reads an unfinished line at `now` (monotonic seconds). Returns True if it begins the running phase."""
        if self.phase not in _SILENT or not self._is_own(line):
            return False
        self._now = now
        self._enter(Phase.RUNNING)
        return True

    def reach(self, phase: Phase, at: float) -> bool:
        """Enters a phase that the probe reports, begun at `at` (monotonic seconds). Returns True if it is new."""
        if phase is Phase.RUNNING:
            self.had_progress = self._has_simulated = True
        if phase in (self.phase, Phase.IMPORTING) or at < self.phase_started:
            return False
        self._now = at
        self._begin(phase)
        return True

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second, as printed; None before the first number."""
        return self._rate.fps()

    @property
    def fps_of_group(self) -> bool:
        """True if this worker is a rank and `fps` is its whole group's."""
        is_group_rate = self._rate_from < len(self._readers) and self._readers[self._rate_from].whole_group
        return self._is_rank and is_group_rate

    def fresh_metrics(self) -> list[tuple[str, float, int | None]]:
        """Returns the metrics read since the last call: name, value, and the script's step (None if unknown)."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The signs of trouble in the lines so far."""
        signs = [*self._reported.signs, *self.genesis.signs]
        if self.is_complete or self.running_s(self._now) >= _UNMATCHED_S:
            signs += [Sign("output", "no line matches --pattern") for reader in self._custom if reader.is_unmatched]
        overflow = self._overflows.sign
        return (*signs, *([overflow] if overflow is not None else []))

    @property
    def is_bar(self) -> bool:
        """True if `progress` comes from a bar, which may measure anything, or is that of an epoch."""
        is_of_epoch = self.progress is not None and self.progress.unit == "batch"
        return is_of_epoch or (self._progress_from < len(self._readers) and self._readers[self._progress_from].vague)

    def running_s(self, now: float) -> float:
        """Returns the seconds in the running phase at `now` (monotonic seconds)."""
        return self._running_s + (max(0.0, now - self.phase_started) if self.phase is Phase.RUNNING else 0.0)

    def failure(self, exit_code: int) -> Failure:
        """Returns the failure of an attempt that ended with `exit_code` (negative for a signal)."""
        return explain(exit_code, self._tail.lines())

    def uncaught_exception(self, *, main_ended_cleanly: bool) -> str | None:
        """Returns the exception if its traceback ends the output; None otherwise, or if the main thread caught it."""
        return uncaught_exception(self._tail.lines(), main_ended_cleanly=main_ended_cleanly)

    def _apply(self, position: int, reader: LineReader, figures: Figures) -> None:
        if figures.phase is not None:
            self._begin(figures.phase)
        self.metrics.update(figures.metrics)
        while len(self.metrics) > _MAX_METRICS:
            del self.metrics[next(iter(self.metrics))]
        is_trainer = position in self._trainers and (figures.done is not None or bool(figures.rates))
        if is_trainer or (figures.metrics and position < self._trainers.stop):
            self._pairs.is_off = True
        if figures.n_envs is not None and position <= self._envs_from:
            if self.n_envs not in (None, figures.n_envs):
                self._rate.new_scene()
            self.n_envs, self._envs_from = figures.n_envs, position
        if (figures.rates or figures.steps is not None) and position <= self._rate_from:
            self._apply_rate(position, reader, figures)
        if figures.done is not None and position <= self._progress_from:
            self._apply_progress(position, reader, figures)
        if figures.metrics:
            step = figures.step if figures.step is not None or self.progress is None else int(self.progress.done)
            self._fresh += [(name, value, step) for name, value in figures.metrics.items()]

    def _apply_rate(self, position: int, reader: LineReader, figures: Figures) -> None:
        if position < self._rate_from:
            self._rate, self._rate_from = PrintedRate(), position
        if figures.rates:
            smoothed = reader is self.genesis and self.genesis.smoothed
            self._rate.add(figures.rates, self._now, smoothed=smoothed, n_envs=figures.n_envs or self.n_envs)
        if figures.steps is not None:
            self._rate.count(figures.steps, self._now)
        self.pace.record(self._now)
        self._start_running()

    def _apply_progress(self, position: int, reader: LineReader, figures: Figures) -> None:
        done, total = figures.done or 0.0, figures.total or self._total
        if total is None:
            return
        if position < self._progress_from or (self._reports and done < self._reports[-1][0]):
            self._reports.clear()  # progress has started over
        self._progress_from = position
        if not self._reports or self._reports[-1][0] != done:
            self._reports.append((done, self._now))
        (first, began), (last, at) = self._reports[0], self._reports[-1]
        pace = (last - first) / (at - began) if at > began and last > first else None
        eta_s = (total - done) / pace if pace and done < total else None
        self.progress = Progress(min(done, total), total, figures.unit, eta_s, pace)
        self.pace.record(self._now)
        if not reader.vague:
            self._start_running()
        elif self.phase in (*_SILENT, Phase.RUNNING):  # in other phases a bar shows a download or meshes
            self.had_progress = True
            self._enter(Phase.RUNNING)

    def _is_own(self, raw: bytes) -> bool:
        """True if a line is the script's own output, which ends a phase of `_SILENT`."""
        line = line_patterns.plain(raw[:MAX_LINE_BYTES])
        if line.startswith(TRACEBACK) or line_patterns.USAGE.match(line):
            self._is_failing = True
        is_foreign = raw[:1] in b" \t" or line_patterns.message(line) or line_patterns.LIBRARY.match(line)
        return bool(line) and not is_foreign and not self._is_failing

    def _start_running(self) -> None:
        self.had_progress = self._has_simulated = True
        self._enter(Phase.RUNNING)

    def _begin(self, phase: Phase) -> None:
        if phase is Phase.BUILDING:
            self._rate.new_scene()
        self._enter(phase)
        if phase is Phase.INITIALISING and not self._has_simulated:
            # Earlier lines and bars came from the script's preparations.
            self.progress, self.had_progress, self._running_s = None, False, 0.0
            self.first_running = None

    def _enter(self, phase: Phase) -> None:
        if phase is self.phase:
            return
        seconds = self._now - self.phase_started
        if self.phase is Phase.RUNNING:
            self._running_s += seconds
        elif phase is not Phase.SAVING:  # saving cuts the previous phase short
            self.phase_times[self.phase] = seconds
        self.phase, self.phase_started = phase, self._now
        if phase is Phase.RUNNING and self.first_running is None:
            self.first_running = self._now
        self.state = _STATES.get(phase, self.state)


def _shorten(block: bytes) -> bytes:
    """Cuts the long lines of a block, so that they do not displace earlier lines."""
    pieces, start = list[bytes](), 0
    while start < len(block):
        stop = start + MAX_LINE_BYTES
        end = max(block.rfind(b"\n", start, stop), block.rfind(b"\r", start, stop)) + 1
        pieces.append(block[start : end or stop])
        if not end:
            ends = (block.find(b"\n", stop), block.find(b"\r", stop))
            end = min((offset for offset in ends if offset >= 0), default=len(block))
        start = end
    return b"".join(pieces)
