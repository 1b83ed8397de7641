"""Reads the probe's counts of an attempt's processes."""

import contextlib
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine.folders import OpenFolder
from gmg_tui.machine.procfs import is_alive
from gmg_tui.model import Checkpoint, Fps, Phase, Shares
from gmg_tui.scripts.probe import FOLDER_VARIABLES
from gmg_tui.scripts.probe.folders import MAX_FILES
from gmg_tui.scripts.probe.reports import Metric, Reports, opened
from gmg_tui.scripts.probe.site import gmg_probe as probe

WINDOW_S = 10.0
"""Window of the current rate, seconds."""
_PAUSE_TOLERANCE_S = 3.0
"""Seconds by which long pauses may be overdue, or their gaps differ."""
_MIN_RATE_S = 1.0
"""Minimum seconds of measurement before a rate can be the peak."""
MAX_PROCESSES = 64
_PID = re.compile(r"[1-9]\d{0,9}", re.ASCII)
"""A process's file: one for each process, as each is looked up while it may have ended."""
_MAX_MOMENTS = 256
"""Maximum number of counts to keep of a process: about one a second is needed, for some seconds."""
MAX_READS = 4
"""Maximum reads of counts that are being changed."""
MAX_ENVIRONMENTS = 10**9
MAX_RATE = 1e12
"""Environment steps per second. Counts above this limit, or above `MAX_ENVIRONMENTS`, are invalid."""
CLOCK_SLACK_NS = 1_000_000_000
"""Times further in the future are invalid."""
_TIME_WORDS = [name for name in probe.NAMES if name.endswith("_ns") and name.removeprefix("mark_") not in probe.TIMES]
_PHASES = (
    *(Phase.IMPORTING, Phase.IMPORTING, Phase.INITIALISING, Phase.CREATING),
    *(Phase.BUILDING, Phase.COMPILING, Phase.BUILT, Phase.RUNNING),
)
"""The phases of `gmg_probe.PHASES`, in the same order."""


class _Times(NamedTuple):
    """The breakdown of a period, seconds; the script used the rest of `wall`."""

    wall: float = 0.0
    simulator: float = 0.0
    learning: float = 0.0
    rendering: float = 0.0


class _Moment(NamedTuple):
    """The counts at one moment."""

    at: float
    """Monotonic seconds."""
    steps: int
    """Environment steps so far."""
    times_ns: tuple[int, ...]
    """In the order of `probe.TIMES`."""


class _Counter:
    """The counts of one process over the last seconds."""

    def __init__(self) -> None:
        self.words = dict.fromkeys(probe.NAMES, 0)
        self._first: _Moment | None = None
        self._last: deque[_Moment] = deque(maxlen=_MAX_MOMENTS)
        """The counts of the last seconds, about one a second."""
        self._marks: deque[_Moment] = deque(maxlen=_MAX_MOMENTS)
        """The counts at long pauses, as between a trainer's rollouts, so that whole periods lie between them."""

    @property
    def valid(self) -> bool:
        """True once a probe with this layout has written the file."""
        return self.words["magic"] == probe.MAGIC

    def read(self, descriptor: int) -> None:
        """Reads the process's open file; ignores content that the probe cannot have written.

        The file is not mapped: if the script truncated a mapped file, SIGBUS would end the engine.
        """
        for _ in range(MAX_READS):
            before, self.words = self.words, self._read(descriptor)
            if before["steps"] == self.words["steps"]:  # no step was being written
                break
        words = self.words
        if not words["steps"]:
            return
        self._add(self._last, words["last_ns"], words["environment_steps"], "")
        self._first = self._first or self._last[0]
        if words["mark_steps"]:
            self._add(self._marks, words["mark_ns"], words["mark_steps"], "mark_")

    def _read(self, descriptor: int) -> dict[str, int]:
        data = os.pread(descriptor, probe.WORDS.size, 0)
        if len(data) != probe.WORDS.size:
            return self.words
        words = dict(zip(probe.NAMES, probe.WORDS.unpack(data), strict=True))
        return words if _is_plausible(words) and words["steps"] >= self.words["steps"] else self.words

    def _add(self, moments: deque[_Moment], at_ns: int, steps: int, prefix: str) -> None:
        if not moments or moments[-1].steps != steps:
            times_ns = tuple(self.words[prefix + name] for name in probe.TIMES)
            moments.append(_Moment(at_ns / 1e9, steps, times_ns))
        while len(moments) > 3 and moments[1].at < moments[-1].at - WINDOW_S - _PAUSE_TOLERANCE_S:
            moments.popleft()

    @property
    def usual_pause_s(self) -> float:
        """The longest usual pause between two steps, seconds; 0 before the first."""
        return 2 * self.words["long_ns"] / 1e9

    def rate(self, now: float) -> float | None:
        """Returns the recent environment steps per second; None before the second step, or if implausible."""
        if self.words["steps"] < 2:
            return None
        moments = self._marks if self._has_whole_periods(now) else self._last
        last, steps, _ = moments[-1]
        if self._is_pausing(now):
            last, steps, moments = now, self.words["environment_steps"], self._last
        first, first_steps = self._window_start(moments, last)[:2]
        if first >= last:
            first, first_steps = self.words["first_ns"] / 1e9, self.words["first_environments"]
        rate = (steps - first_steps) / (last - first) if last > first else -1.0
        return rate if 0 <= rate <= MAX_RATE else None

    def times(self, now: float) -> _Times | None:
        """Returns the breakdown of the last seconds; None if unknown, as in an unusually long pause."""
        if self.words["steps"] < 2 or self._is_pausing(now):
            return None
        moments = self._marks if self._has_whole_periods(now) else self._last
        return _between(self._window_start(moments, moments[-1].at), moments[-1])

    @property
    def all_times(self) -> _Times | None:
        """The breakdown of the time from the first reading to the last; None until a reading has more steps."""
        return _between(self._first, self._last[-1]) if self._first is not None else None

    def _is_pausing(self, now: float) -> bool:
        """True if the last step was longer ago than usual."""
        return now - self.words["last_ns"] / 1e9 > max(1.0, 2 * self.usual_pause_s)

    @staticmethod
    def _window_start(moments: deque[_Moment], last: float) -> _Moment:
        return next((moment for moment in reversed(moments) if last - moment.at >= WINDOW_S), moments[0])

    def _has_whole_periods(self, now: float) -> bool:
        """True if the marks are as regular as a loop's; False for a while after an unusually long pause."""
        times = [moment.at for moment in self._marks]
        start = max((index for index, at in enumerate(times) if times[-1] - at >= WINDOW_S), default=0)
        gaps_s = [later - earlier for earlier, later in pairwise(times[max(0, start - 1) :])]
        if not gaps_s or times[-1] < now - max(_PAUSE_TOLERANCE_S, 1.5 * max(gaps_s)):
            return False
        min_span_s = min(WINDOW_S, self._last[-1].at - self._last[0].at - _PAUSE_TOLERANCE_S)
        return times[-1] - times[start] >= min_span_s and max(gaps_s) <= max(_PAUSE_TOLERANCE_S, 3 * min(gaps_s))


def _between(first: _Moment, last: _Moment) -> _Times | None:
    """Returns the breakdown of the time between two moments; None if the probe cannot have written it."""
    wall = last.at - first.at
    spent_s = [(after - before) / 1e9 for before, after in zip(first.times_ns, last.times_ns, strict=True)]
    # The probe may have written only some of these.
    if wall <= 0 or min(spent_s) < -0.1 * wall or sum(spent_s) > 1.1 * wall:
        return None
    scale = min(1.0, wall / max(sum(spent_s), 1e-9))
    return _Times(wall, *(max(0.0, seconds) * scale for seconds in spent_s))


def _is_plausible(words: dict[str, int]) -> bool:
    """True if the probe can have written these words."""
    if min(words.values()) < 0 or words["phase"] >= len(_PHASES) or words["kind"] >= len(probe.KINDS):
        return False
    if words["determinism"] >= len(probe.DETERMINISM):
        return False
    if max(words[name] for name in _TIME_WORDS) > time.monotonic_ns() + CLOCK_SLACK_NS:
        return False
    if max(words["environments"], words["first_environments"]) > MAX_ENVIRONMENTS:
        return False
    counted, span_ns = words["environment_steps"] - words["first_environments"], words["last_ns"] - words["first_ns"]
    return not words["steps"] or (counted >= 0 and counted * 1e9 <= MAX_RATE * span_ns)


def _env_steps(words: Mapping[str, int]) -> int:
    return words["environment_steps"] - words["first_environments"]


def _current(counters: Mapping[str, _Counter]) -> dict[str, _Counter]:
    """Returns the counters without those of processes that ended before another one's first step, as in a benchmark."""
    newest_ns = max(counter.words["first_ns"] for counter in counters.values())
    return {
        name: counter
        for name, counter in counters.items()
        if counter.words["last_ns"] >= newest_ns or is_alive(int(name))
    }


class Counts:
    """The counts of all processes of an attempt, added up; 0, None or False without an active probe.

    Attributes:
        active: True once a probe has started in the attempt.
        phase: The phase of the most advanced process, and its start (monotonic seconds); None before the first.
        simulator: True once a process has begun to import a simulator.
        steps: Simulation steps of all processes.
        n_envs: Environments of the processes that have stepped in the last seconds.
        rate: Current environment steps per second; None if unknown.
        env_steps: Environment steps between the first count and the last.
        seconds: Seconds between those two counts.
        determinism: Torch's deterministic mode, `on` or `off`; None if torch was not imported before the first step.
        last_at: Time of the last counted step, monotonic seconds.
        reports: Metrics and saved files that the processes report.
        trouble: The reason why checkpoints are not seen, if they should be.
        usual_pause_s: The longest usual pause between two steps, seconds.
    """

    def __init__(self, *folders: OpenFolder, trouble: str | None = None) -> None:
        self._folders, self.trouble = list(folders), trouble
        self._reads_spare = False
        """Once the first folder was removed; the spare one may be on a slow disk."""
        self._counters: dict[str, _Counter] = {}
        self._kept: dict[str, int] = {}
        """Descriptors of files that are kept open."""
        self.reports = Reports()
        self.active = self.simulator = False
        self.phase: tuple[Phase, float] | None = None
        self.steps = 0
        self.n_envs: int | None = None
        self.rate: float | None = None
        self.env_steps = self.seconds = self.usual_pause_s = 0.0
        self.last_at: float | None = None
        self.determinism: str | None = None
        self._shares: Shares | None = None
        """The shares of the whole time, set by `close`."""
        self._peak_rate: float | None = None
        self._past_steps, self._past_env_steps, self._first_ns = 0, 0.0, sys.maxsize
        """Steps of the processes that were forgotten, and the time of the first step of all."""

    @property
    def folder(self) -> Path | None:
        """The attempt's `GMG_PROBE_DIR`; None without a probe, and after its end."""
        return self._folders[0].path if self._folders else None

    @property
    def environ(self) -> dict[str, str]:
        """The variables that name the folders for the attempt's processes."""
        return dict(zip(FOLDER_VARIABLES, (str(folder.path) for folder in self._folders), strict=False))

    def fps(self, printed: Fps | None) -> Fps | None:
        """Returns the counted rates, together with the `printed` ones; only the latter before the second step."""
        if not self.seconds:
            return printed
        rate = self.env_steps / self.seconds
        counted = Fps(None, rate, self._peak_rate, 0, self.rate, self.env_steps, self.seconds, "probe")
        if printed is None:
            return counted
        highest = max(printed.max or 0.0, self._peak_rate or 0.0) or None
        return structs.replace(counted, last=printed.last, max=highest, samples=printed.samples)

    def read(self, now: float) -> None:
        """Reads all files at `now`, monotonic seconds; takes microseconds, as they are in memory."""
        if not self._folders:
            return
        self._restore_folders()
        folder = self._folders[0].descriptor
        if len(self._counters) < MAX_PROCESSES or self.reports.has_room:
            self._find_files(folder)
        for name, counter in self._counters.items():
            # It may not be a regular file, or removed by the script.
            with contextlib.suppress(OSError), opened(name, folder, self._kept) as descriptor:
                counter.read(descriptor)
        valid = {name: counter for name, counter in self._counters.items() if counter.valid}
        if valid:
            self._sum_up(valid, now)

    def _restore_folders(self) -> None:
        """Makes removed folders again; reads the spare one once the first was removed."""
        lost = 0
        for index, folder in enumerate(self._folders):
            if index and not self._reads_spare:
                return
            try:
                self._folders[index] = folder.restore()
            except OSError:
                lost += 1
            self._reads_spare |= self._folders[index] is not folder or lost > 0
        is_lost = lost == len(self._folders)
        self.trouble = f"{self.folder} was removed, so new checkpoints are not seen" if is_lost else None

    def read_reports(self) -> tuple[list[Metric], list[Checkpoint]]:
        """Returns the processes' new reports, like `Reports.read`; none after the end."""
        folders = self._folders if self._reads_spare else self._folders[:1]
        return self.reports.read(*(folder.descriptor for folder in folders))

    def _find_files(self, folder: int) -> None:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it may have been removed
            for entry in islice(entries, MAX_FILES):
                if _PID.fullmatch(entry.name) is None:
                    self.reports.add(entry.name)
                elif len(self._counters) < MAX_PROCESSES:
                    self._counters.setdefault(entry.name, _Counter())

    def _sum_up(self, by_name: Mapping[str, _Counter], now: float) -> None:
        self.active, counters = True, by_name.values()
        phase = max(counter.words["phase"] for counter in counters)
        since_ns = min(counter.words["phase_ns"] for counter in counters if counter.words["phase"] == phase)
        self.phase = _PHASES[phase], since_ns / 1e9
        self.simulator = phase >= probe.IMPORTING
        kind = max(counter.words["kind"] for counter in counters)
        by_name = {
            name: counter
            for name, counter in by_name.items()
            if counter.words["steps"] and counter.words["kind"] == kind
        }
        if not by_name:
            return
        stepped, current = by_name.values(), _current(by_name)
        words = [counter.words for counter in stepped]
        determinism = max(row["determinism"] for row in words)
        self.determinism = probe.DETERMINISM[determinism] if determinism else None
        self.steps = self._past_steps + sum(row["steps"] for row in words)
        last_ns = max(row["last_ns"] for row in words)
        self.last_at = last_ns / 1e9
        self.env_steps = self._past_env_steps + sum(map(_env_steps, words))
        self._first_ns = min(self._first_ns, *(row["first_ns"] for row in words))
        self.seconds = (last_ns - self._first_ns) / 1e9
        self.usual_pause_s = max(counter.usual_pause_s for counter in stepped)
        recent = [
            row
            for row in (counter.words for counter in current.values())
            if (last_ns - row["last_ns"]) / 1e9 <= max(WINDOW_S, self.usual_pause_s)
        ]
        self.n_envs = sum(row["environments"] for row in recent)
        rates = [rate for counter in current.values() if (rate := counter.rate(now)) is not None]
        self.rate = sum(rates) if rates else None
        if self.rate is not None and self.seconds >= _MIN_RATE_S:
            self._peak_rate = max(self.rate, self._peak_rate or 0.0)
        if len(self._counters) >= MAX_PROCESSES:
            self._forget(by_name.keys() - current.keys())

    def _forget(self, names: Iterable[str]) -> None:
        """Makes room: removes the counts of ended processes, which remain in the sums."""
        for name in names:
            words = self._counters.pop(name).words
            self._past_steps += words["steps"]
            self._past_env_steps += _env_steps(words)
            if (descriptor := self._kept.pop(name, None)) is not None:
                os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._folders[0].descriptor)

    def shares(self, now: float | None = None) -> Shares | None:
        """Returns the shares of the processes' time in the last seconds, or since the first reading if `now` is None.

        None if unknown.
        """
        times = [counter.all_times if now is None else counter.times(now) for _, counter in self._outermost]
        known = [breakdown for breakdown in times if breakdown is not None]
        if not known:
            return None if self._counters else self._shares
        wall_s, *spent_s = map(sum, zip(*known, strict=True))
        return Shares(*(100 * seconds / wall_s for seconds in spent_s))

    @property
    def _outermost(self) -> list[tuple[str, _Counter]]:
        """The files of stepping processes by PID, except the workers of another process's vector environment."""
        stepped = [item for item in self._counters.items() if item[1].words["steps"]]
        kind = min((counter.words["kind"] for _, counter in stepped), default=0)
        return [item for item in stepped if item[1].words["kind"] == kind]

    @property
    def stepping_pid(self) -> int | None:
        """The PID of the process that stepped last; None before the first step."""
        return max(((counter.words["last_ns"], int(name)) for name, counter in self._outermost), default=(0, None))[1]

    def close(self) -> None:
        """Reads the files a last time, then removes them; keeps the results."""
        if self.last_at is not None:
            self.read(self.last_at)
        self._shares = self.shares()
        self._counters.clear()
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()
        self.reports.close()
        for folder in self._folders:
            folder.remove(MAX_FILES)
        self._folders.clear()
