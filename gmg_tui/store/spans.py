"""A session's total time, from the times of its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

_PAUSE_S = 60.0
"""A longer pause in which nothing ran, as between an engine's death and `--resume`, is not counted."""


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds from the first start to the last end, without long pauses; 0 without spans (start, end; Unix seconds)."""
    ordered = sorted(spans)
    if not ordered:
        return 0.0
    reached, pauses = ordered[0][1], 0.0
    for _, (started, ended) in pairwise(ordered):
        if started - reached > _PAUSE_S:
            pauses += started - reached
        reached = max(reached, ended)
    return reached - ordered[0][0] - pauses
