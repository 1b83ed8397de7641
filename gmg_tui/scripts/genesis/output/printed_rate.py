"""The rate from a script's printed numbers, for a script whose steps no probe counts.

Genesis prints an exponential moving average that weights each sample by 5 % (`FPS_tracker_alpha=.95`). In 1.4.5 the first
sample includes the end of compiling, so that the average starts a hundred times too low. Two consecutive numbers u, v give
the sample between them, `x = (v - 0.95 u) / 0.05`. Numbers of versions up to 0.4.5 are used as they are. A sample covers at
least 0.05 s and at least one step; the time between two readings is divided accordingly.

If a script prints its environment steps so far, these are counted instead.
"""

import operator
from collections import deque
from collections.abc import Sequence

from gmg_tui.model import Fps
from gmg_tui.scripts.interpreter import version_numbers

WINDOW_S = 10.0
"""Window of the current rate, seconds."""
_DECAY = 0.95
_MIN_LINE_S = 0.05
"""Genesis prints a line after this many seconds of steps (`STEP_RATE_LOG_INTERVAL`)."""
_MIN_RATE = 1e-9
"""Environment steps per second; smaller ones overflow in ratios."""
_MAX_MOMENTS = 512


def is_smoothed(version: str | None) -> bool:
    """True if this version of Genesis prints a moving average; None counts as the latest."""
    numbers = version_numbers(version)
    return not numbers or numbers[:2] > (0, 4)


class PrintedRate:
    """The rate of one attempt from its printed numbers."""

    def __init__(self) -> None:
        self._last = self._max = 0.0
        self._samples = 0
        self._is_exact = True
        self._previous: float | None = None
        """The last number of the current scene."""
        self._previous_steps: float | None = None
        self._counted_until: float | None = None
        """The end of the counted steps, monotonic seconds."""
        self._env_steps = self._seconds = 0.0
        self._moments: deque[tuple[float, float]] = deque(maxlen=_MAX_MOMENTS)
        """Times, and the scene's environment steps done by then."""

    def new_scene(self) -> None:
        """Restarts the average, as Genesis does for another scene or number of environments."""
        self._previous = self._counted_until = self._previous_steps = None
        self._moments.clear()

    def add(self, numbers: Sequence[float], now: float, *, smoothed: bool, n_envs: int | None = None) -> None:
        """Adds printed numbers, in order, that arrived at `now` (monotonic seconds)."""
        self._samples += len(numbers)
        self._last, self._max = numbers[-1], max(self._max, *numbers)
        self._is_exact = not smoothed
        rates = self._unsmoothed(numbers) if smoothed else list(numbers)
        if self._counted_until is None:
            self._count(0.0, now)  # the duration of the first is unknown
        elif rates and self._previous_steps is None and now > self._counted_until:
            steps = n_envs or 1
            weights = [
                _MIN_LINE_S if rate <= 0 or rate * _MIN_LINE_S >= steps else steps / max(rate, _MIN_RATE)
                for rate in rates
            ]
            mean = sum(map(operator.mul, rates, weights)) / sum(weights)
            self._count(mean * (now - self._counted_until), now)

    def count(self, steps: float, now: float) -> None:
        """Adds the script's own count of environment steps since its start."""
        previous, self._previous_steps = self._previous_steps, steps
        if previous is None or steps < previous:
            self._counted_until = None
            self._moments.clear()
        self._count(steps - previous if self._counted_until is not None and previous is not None else 0.0, now)

    def fps(self) -> Fps | None:
        """Returns the rates so far; None before the first number or count."""
        if self._counted_until is None and not self._samples:
            return None
        settled = exact = self._last if self._is_exact and self._samples else None
        if len(self._moments) > 1:
            (begin, first), (end, last) = self._moments[0], self._moments[-1]
            settled = (last - first) / (end - begin)
        return Fps(
            self._last if self._samples else None,
            self._env_steps / self._seconds if self._seconds else exact,
            self._max if self._samples else None,
            self._samples,
            settled=settled,
            env_steps=self._env_steps if self._seconds else None,
            seconds=self._seconds or None,
            counted="printed",
        )

    def _unsmoothed(self, numbers: Sequence[float]) -> list[float]:
        """Returns the samples behind the numbers; none for the first number of a scene."""
        previous, self._previous = [self._previous, *numbers[:-1]], numbers[-1]
        pairs = [(before, number) for before, number in zip(previous, numbers, strict=True) if before is not None]
        rates = [((number - _DECAY * before) / (1 - _DECAY), number) for before, number in pairs]
        return [rate if rate >= 0 else number for rate, number in rates]  # below 0 it is not Genesis' average

    def _count(self, env_steps: float, now: float) -> None:
        if self._counted_until is not None:
            self._env_steps += env_steps
            self._seconds += now - self._counted_until
        self._counted_until = now
        if not self._moments or now > self._moments[-1][0]:
            self._moments.append((now, self._env_steps))
        while len(self._moments) > 2 and self._moments[-1][0] - self._moments[1][0] >= WINDOW_S:
            self._moments.popleft()
