"""Whether a worker that has ended is started again by itself, and after how long."""

from __future__ import annotations

import random

from gmg_tui.genesis.failures import FailureKind
from gmg_tui.model import RestartWhen

_FIRST_S = 2.0
_LONGEST_S = 60.0
_JITTER = 0.25
"""Workers that raced each other must not start again at the same moment."""
HEALTHY_S = 300.0
"""After so long in its running phase an attempt counts as healthy: the restarts before it are forgiven."""


def wanted(when: RestartWhen, kind: FailureKind | None, *, had_progress: bool) -> bool:
    """Whether `--restart` asks for another attempt.

    Args:
        when: The policy.
        kind: What sort of failure it was; None when the script ended with exit code 0.
        had_progress: Whether the attempt had reported progress.
    """
    if when is RestartWhen.NEVER or kind is FailureKind.CONFIG:
        return False  # permissions and space do not mend by themselves
    if when is RestartWhen.ALWAYS:
        return True
    if kind is None:
        return False
    if when is RestartWhen.FAILURE:
        return True
    return kind.heals and not had_progress


def pause_s(restarts: int) -> float:
    """How long to wait before the next attempt, after `restarts` in a row: 2 s, 4 s, 8 s … up to a minute, jittered."""
    return min(_LONGEST_S, _FIRST_S * 2.0**restarts) * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
