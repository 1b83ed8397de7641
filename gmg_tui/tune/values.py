"""Values that a person would type."""

from __future__ import annotations

import math

_BITS = 6


def grain(value: float) -> int:
    """What values of this size are multiples of: 1 up to 127, 64 at 4,096, 256 at 16,384; at most 1.6 % of the value."""
    return 1 << max(0, math.floor(math.log2(max(value, 1))) - _BITS)


def rounded(value: float) -> int:
    """The nearest value that a person would type."""
    step = grain(value)
    return round(value / step) * step


def rounded_down(value: float) -> int:
    """The greatest value that a person would type, not above `value`."""
    step = grain(value)
    return math.floor(value / step) * step


def between(low: int, high: int, count: int = 1) -> list[int]:
    """Up to `count` values strictly between the two, evenly spaced in their logarithm; none where none has room."""
    ratio = (high / low) ** (1 / (count + 1))
    found = {rounded(low * ratio**step) for step in range(1, count + 1)}
    return sorted(value for value in found if low < value < high)
