"""The rate of a simulation won back from the moving average that Genesis prints.

The printed number is an exponential moving average that weighs each sample by 5 % (`FPS_tracker_alpha=.95`), seeded
with the first sample, which in 1.4.5 holds what was left of compiling: it starts a hundred times too low and takes
some 80 lines to settle. Two neighbouring numbers give the sample between them.

- 1.x averages rates (`engine/scene.py`, `RunningMean`): `x = (v - 0.95 u) / 0.05` for the numbers u, v in that order.
- Up to 0.4.5 seconds are averaged (`utils/tools.py`, `FPSTracker`): the same holds for `1/u` and `1/v`. From 0.3.7
  the seconds are of several steps and their number changes from line to line; the printed number follows the rate
  closely there, and the samples won back are often negative, which is noticed.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence

_KEPT = 0.95
"""Share of the old average in the next one (`ProfilingOptions.FPS_tracker_alpha`)."""
WINDOW = 20
"""Samples that the median is taken of: one second of lines (Genesis prints at most 20 a second from 0.3.7)."""
_BAD_SHARE = 0.1
"""More samples than this that are not positive: the numbers are not that average."""
_LAST_OF_SECONDS = (0, 4, 5)
"""The last version known to average seconds."""


def averages_seconds(version: str | None) -> bool:
    """Whether this version of Genesis averages the seconds of steps rather than their rate."""
    if version is None:
        return False
    parts = version.split(".")[:3]
    if not all(part.isdigit() for part in parts):
        return False
    return tuple(int(part) for part in parts) <= _LAST_OF_SECONDS


class RateWindow:
    """The printed numbers of one scene, and the rate that they stand for."""

    def __init__(self, *, seconds: bool) -> None:
        self._seconds = seconds
        self._printed: deque[float] = deque(maxlen=WINDOW + 1)

    def add(self, numbers: Sequence[float]) -> None:
        """Take the next printed numbers, in order; finite and not negative."""
        self._printed.extend(numbers[-WINDOW - 1 :])

    def rate(self) -> float | None:
        """Environment steps per second over the last `WINDOW` numbers; None before the first number.

        The median of the samples won back, so that one slow step or a lost line does not count. The last printed
        number, where there is but one, or where the samples show that lines were lost or that another average was
        chosen in the script.
        """
        if not self._printed:
            return None
        printed = list(self._printed)
        samples = [self._sample(before, after) for before, after in itertools.pairwise(printed)]
        good = [sample for sample in samples if math.isfinite(sample) and sample > 0]
        if len(samples) - len(good) > _BAD_SHARE * len(samples) or not good:
            return printed[-1]
        return _median(good)

    def _sample(self, before: float, after: float) -> float:
        if not self._seconds:
            return (after - _KEPT * before) / (1 - _KEPT)
        if before <= 0 or after <= 0:
            return math.nan
        seconds = (1 / after - _KEPT / before) / (1 - _KEPT)
        return 1 / seconds if seconds > 0 else math.nan


def _median(values: list[float]) -> float:
    """As `statistics.median`, which takes longer to import than the rest of an engine's arithmetic together."""
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
