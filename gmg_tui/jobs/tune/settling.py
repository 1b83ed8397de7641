"""The measurement of a trial until its rate is steady, within the bounds of `--settle`."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.jobs.tune.fit import MIN_INTERVAL
from gmg_tui.model.tuning import TrialKind, TuneSpec


class Mark(NamedTuple):
    """The amount done by a time, both since the first step."""

    amount: float
    time_s: float


class Settling:
    """The rate of one trial as its counts arrive.

    Windows before one that differs from them are a warm-up, and do not count. The rate has no interval here, as its
    uncertainty shows between trials, not within them.
    """

    def __init__(self, spec: TuneSpec, kind: TrialKind) -> None:
        """Measures a trial of this kind; a trial on all slots at once takes three times as long."""
        self._high_s = 3 * spec.settle_s
        self._low_s = self._high_s if kind is TrialKind.TOGETHER else spec.settle_s
        self._window_s = spec.settle_s / 2
        self._marks: list[Mark] = []
        """The ends of the windows; the first is the start of the measurement."""
        self._last: Mark | None = None
        self._steady_from = 0
        """The index of the mark that begins the windows that agree."""

    def add(self, amount: float, time_s: float) -> None:
        """Adds a count; one smaller than the last is of another loop, and restarts the measurement."""
        mark = Mark(amount, time_s)
        if self._last is not None and (amount < self._last.amount or time_s < self._last.time_s):
            self._marks, self._steady_from = [], 0
        self._last = mark
        if not self._marks:
            self._marks.append(mark)
        elif time_s - self._marks[-1].time_s >= self._window_s:
            self._marks.append(mark)
            before = len(self._marks) - 2
            if before > self._steady_from:
                steady = _rate(self._marks[self._steady_from], self._marks[before])
                if abs(_rate(self._marks[before], mark) - steady) > 2 * MIN_INTERVAL * abs(steady):
                    self._steady_from = before

    @property
    def rate(self) -> float | None:
        """The rate of the last windows that agree, or of the second half if they do not."""
        if self._last is None or self._last == self._marks[0]:
            return None
        if len(self._marks) < 2:
            return _rate(self._marks[0], self._last)
        begin = self._marks[self._steady_from if self._steady else len(self._marks) // 2 - (len(self._marks) == 2)]
        return _rate(begin, self._marks[-1])

    @property
    def measured_s(self) -> float:
        """Seconds since the first count."""
        return self._last.time_s - self._marks[0].time_s if self._last is not None else 0.0

    @property
    def is_done(self) -> bool:
        """True once the rate was steady for long enough, or after the longest time."""
        return self.measured_s >= (self._low_s if self._steady else self._high_s)

    @property
    def _steady(self) -> bool:
        return len(self._marks) - self._steady_from > 2


def _rate(begin: Mark, end: Mark) -> float:
    return (end.amount - begin.amount) / (end.time_s - begin.time_s) if end.time_s > begin.time_s else 0.0
