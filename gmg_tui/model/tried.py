"""What was tried: each set of arguments with what it reached over its attempts, and the slots that fall behind others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

from msgspec import Struct

from gmg_tui.model.states import WorkerState
from gmg_tui.model.worker import Attempt, AttemptMetrics

SETTLE_S = 10.0
"""A loop that has run for less has not warmed up: the settled rate is of so many seconds."""
STEADY_PCT = 2.0
"""An attempt that has ended sooner counts if its rate is known to this, by the spread of its seconds: a tuning measures
no longer than it must."""
LEAST_SLOTS = 3
"""With fewer slots than this a median says nothing of one of them."""
SLOW_PCT = 3.0
"""A slot that is further below the median is slow."""
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom."""
_Z_95 = 1.95996


class Tried(Struct, frozen=True, omit_defaults=True):
    """One set of arguments, and what it reached in this session, over all its attempts and slots."""

    args: tuple[str, ...]
    """As `AttemptMetrics.given`."""
    env: dict[str, str] = {}
    """As `AttemptMetrics.env`."""
    slots: tuple[str, ...] = ()
    """Where it ran, in the order in which it came there."""
    attempts: int = 0
    running: int = 0
    """Attempts that run now."""
    failed: int = 0
    reason: str | None = None
    """Why the newest attempt that failed did, in one line."""
    started: float = 0.0
    """When the newest attempt started, Unix seconds."""
    elapsed_s: float = 0.0
    """How long its attempts took in total."""
    measured: int = 0
    """Attempts with a settled rate: the rate is their mean."""
    rate: float | None = None
    margin: float | None = None
    """Half of the interval that holds the mean rate with 95 % confidence; None with fewer than two attempts."""
    spread: float | None = None
    """With a single measured attempt, the standard deviation of its rate over seconds or periods."""
    n_envs: int | None = None
    memory_peak_mib: float | None = None
    """The greatest."""
    gpu_util_pct: float | None = None
    power_w: float | None = None
    """Both means over the attempts that know them."""
    fps_per_watt: float | None = None
    """Over the attempts that know both."""


class TriedView(Struct, frozen=True, omit_defaults=True):
    """All that was tried in a session, the newest first."""

    rows: tuple[Tried, ...] = ()
    left_out: int = 0
    """Further sets of arguments, older and slower than all of these."""


def fastest(rows: Iterable[Tried]) -> Tried | None:
    """The row with the greatest rate; None where none is known."""
    return max((row for row in rows if row.rate is not None), key=lambda row: row.rate or 0.0, default=None)


def settled_rate(attempt: Attempt) -> float | None:
    """An attempt's settled rate once it has run for long enough to be compared, or to its own end; None before."""
    metrics = attempt.metrics
    if metrics is None or metrics.settled is None:
        return None
    whole = attempt.state is WorkerState.FINISHED or metrics.running_s is None
    running_s = metrics.running_s or 0.0
    steady = False
    if attempt.state.ended and metrics.spread is not None:
        steady = _Z_95 * metrics.spread / math.sqrt(max(running_s, 1.0)) <= STEADY_PCT / 100 * metrics.settled
    return metrics.settled if whole or steady or running_s >= SETTLE_S else None


def arguments_of(attempt: Attempt) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What attempts with the same arguments have in common: these, and the environment that was given for them."""
    metrics = attempt.metrics or AttemptMetrics(attempt.number, attempt.args)
    given = metrics.given if metrics.given is not None else attempt.args
    return given, tuple(sorted(metrics.env.items()))


def below_median(rates: Mapping[str, float]) -> dict[str, float]:
    """The slow ones of slots with the same arguments, and how far each is from their median, per cent (negative).

    `rates` has their settled rates; nothing follows from fewer than three.
    """
    return {slot: pct for slot, pct in away_from_median([rates]).items() if pct < -SLOW_PCT}


def away_from_median(groups: Iterable[Mapping[str, float]], least: int = LEAST_SLOTS) -> dict[str, float]:
    """How far each slot is from the median of those with the same arguments, per cent: the median over all `groups`.

    Each group has the settled rates of slots with the same arguments; those with fewer than `least` slots do not count.
    """
    found: dict[str, list[float]] = {}
    for rates in groups:
        middle = median(rates.values()) if len(rates) >= least else 0.0
        for slot, rate in rates.items() if middle > 0 else ():
            found.setdefault(slot, []).append((rate / middle - 1) * 100)
    return {slot: median(each) for slot, each in found.items()}


def margin_95(deviation: float, count: int) -> float | None:
    """Half of the 95 % interval of the mean of `count` values with this standard deviation; None for fewer than two."""
    if count < 2:
        return None
    freedom = count - 1
    if freedom <= len(_T_95):
        quantile = _T_95[freedom - 1]
    else:  # the expansion in 1/freedom (Abramowitz and Stegun, 26.7.5)
        z = _Z_95
        quantile = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return quantile * deviation / math.sqrt(count)
