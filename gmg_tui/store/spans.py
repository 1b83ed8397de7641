"""How long a session was at work, from when its attempts ran."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

_PAUSE_S = 60.0
"""A longer time in which nothing ran, as between an engine's death and `--resume`, is no part of the whole time."""


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """The time from the first start to the last end, seconds, without long pauses; 0 without a span.

    Args:
        spans: When each attempt started and ended, Unix seconds.
    """
    ordered = sorted(spans)
    if not ordered:
        return 0.0
    reached, pauses = ordered[0][1], 0.0
    for _, (started, ended) in pairwise(ordered):
        if started - reached > _PAUSE_S:
            pauses += started - reached
        reached = max(reached, ended)
    return reached - ordered[0][0] - pauses
