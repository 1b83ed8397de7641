"""How often a script reports progress, and when it did last."""

from __future__ import annotations

from collections import deque

_GAPS = 16
"""rsl_rl reports each iteration by several lines, of which most follow each other at once."""


class Pace:
    """The moments at which a script has reported progress: a rate, or an iteration."""

    def __init__(self) -> None:
        self.last_at: float | None = None
        """Monotonic seconds; None before the first report."""
        self._gaps_s: deque[float] = deque(maxlen=_GAPS)

    def beat(self, now: float) -> None:
        """Progress was reported at `now`, monotonic seconds."""
        if self.last_at is not None and now > self.last_at:
            self._gaps_s.append(now - self.last_at)
        self.last_at = now

    @property
    def usual_s(self) -> float:
        """The longest of the last intervals between two reports, seconds; 0 before the second report."""
        return max(self._gaps_s, default=0.0)
