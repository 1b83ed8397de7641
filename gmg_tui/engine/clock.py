"""Converts the engine's monotonic moments to Unix times."""

import time

_TOLERANCE_S = 0.5
"""Smaller adjustments of the system clock do not change the times of past events."""


class _Clock:
    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def unix(self, moment: float) -> float:
        """Returns the Unix time of `moment` (monotonic seconds), rounded to milliseconds; stable until the clock is set."""
        offset_s = time.time() - time.monotonic()
        if abs(offset_s - self._offset_s) > _TOLERANCE_S:
            self._offset_s = offset_s
        return round(moment + self._offset_s, 3)


unix = _Clock().unix


def now() -> float:
    """Returns the current Unix time, which advances with the monotonic clock."""
    return unix(time.monotonic())
