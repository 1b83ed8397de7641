"""Results by set of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from msgspec import Struct

from gmg_tui.model.attempt import Attempt
from gmg_tui.model.gpus import Slot
from gmg_tui.model.states import WorkerState

SETTLE_S = 10.0
"""Running time after which a rate is comparable: the loop has warmed up."""
_MIN_SLOTS = 3
"""Fewest slots whose median says something about one of them."""
_SLOW_PCT = 3.0
"""Deviation below the median at which a slot is slow."""


class Tried(Struct, frozen=True, omit_defaults=True):
    """One set of arguments, and its results over all attempts and slots of the session."""

    args: tuple[str, ...]
    """See `Attempt.given`."""
    env: dict[str, str] = {}
    """See `Attempt.env`."""
    slots: tuple[str, ...] = ()
    """In the order of their attempts."""
    attempts: int = 0
    running: int = 0
    failed: int = 0
    reason: str | None = None
    """Reason of the newest failure."""
    started: float = 0.0
    """Unix time of the newest attempt's start."""
    elapsed_s: float = 0.0
    """Total time of its attempts."""
    measured: int = 0
    """Number of comparable attempts."""
    rate: float | None = None
    """Mean over the comparable attempts."""
    n_envs: int | None = None
    memory_peak_mib: float | None = None
    """Peak over the attempts that have not failed."""
    gpu_util_pct: float | None = None
    power_w: float | None = None
    fps_per_watt: float | None = None
    metrics: dict[str, float] = {}
    """Mean of each metric over the comparable attempts."""


def fastest(rows: Iterable[Tried]) -> Tried | None:
    """Returns the row with the highest rate; None if no row has one."""
    return max((row for row in rows if row.rate is not None), key=lambda row: row.rate or 0.0, default=None)


def comparable_rate(attempt: Attempt) -> float | None:
    """Returns an attempt's rate; None unless it ran for long enough, or to its end."""
    return attempt.rate if attempt.comparable or attempt.state is WorkerState.FINISHED else None


def arguments_of(attempt: Attempt) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Returns the arguments and environment of an attempt, as a key."""
    return attempt.given, tuple(sorted(attempt.env.items()))


def below_median(ran: Iterable[tuple[Slot, Attempt]]) -> dict[str, float]:
    """Returns the slow slots, and by how much they are below the median of the same GPU model and arguments, per cent."""
    groups: dict[object, dict[str, list[float]]] = {}
    for slot, attempt in ran:
        rate = comparable_rate(attempt)
        if rate is not None:
            group = groups.setdefault((slot.gpu.name if slot.gpu else None, arguments_of(attempt)), {})
            group.setdefault(slot.name, []).append(rate)
    away_pct: dict[str, list[float]] = {}
    for group in groups.values():
        middle = median(map(fmean, group.values())) if len(group) >= _MIN_SLOTS else 0.0
        for name, rates in group.items() if middle > 0 else ():
            away_pct.setdefault(name, []).append((1 - fmean(rates) / middle) * 100)
    return {name: pct for name, each in sorted(away_pct.items()) if (pct := median(each)) > _SLOW_PCT}
