"""Unix times of moments on the monotonic clock, which the engine uses."""

import time

_TOLERANCE_S = 0.5
"""A system clock that is adjusted by less does not change the times of past events."""


class _Clock:
    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def unix(self, moment: float) -> float:
        """Returns the Unix time of `moment` (monotonic seconds), in milliseconds: equal in all snapshots until the clock is set."""
        offset_s = time.time() - time.monotonic()
        if abs(offset_s - self._offset_s) > _TOLERANCE_S:
            self._offset_s = offset_s
        return round(moment + self._offset_s, 3)


unix = _Clock().unix


def now() -> float:
    """Returns the Unix time now; between two such times as many seconds pass as on the monotonic clock."""
    return unix(time.monotonic())
