"""A mean of values that come one by one, some of which are not known."""

from __future__ import annotations


class Mean:
    """The mean of the values added so far."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float | None) -> None:
        """Add `value`; None is ignored."""
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        """The mean; None without values."""
        return self._sum / self._count if self._count else None
