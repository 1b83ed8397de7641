"""What was tried: each set of arguments with what it reached over its attempts."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from gmg_tui.model.attempt import Attempt
from gmg_tui.model.states import WorkerState

SETTLE_S = 10.0
"""A loop that has run for less, and has not finished, has not warmed up."""
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom."""
_Z_95 = 1.95996


class Tried(Struct, frozen=True, omit_defaults=True):
    """One set of arguments, and what it reached in this session, over all its attempts and slots."""

    args: tuple[str, ...]
    """As `Attempt.given`."""
    env: dict[str, str] = {}
    """As `Attempt.env`."""
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
    """Attempts that have run for long enough: the rate is the mean of theirs."""
    rate: float | None = None
    margin: float | None = None
    """Half of the interval that holds the mean rate with 95 % confidence; None with fewer than two attempts."""
    n_envs: int | None = None
    memory_peak_mib: float | None = None
    """The greatest of the attempts that have not failed."""
    gpu_util_pct: float | None = None
    power_w: float | None = None
    """Both means over the attempts that know them."""
    fps_per_watt: float | None = None
    """Over the attempts that know both."""
    metrics: dict[str, float] = {}
    """The mean of each named number, such as `reward`, over the attempts that have run for long enough."""


class TriedView(Struct, frozen=True, omit_defaults=True):
    """What was tried in a session, the newest first."""

    rows: tuple[Tried, ...] = ()


class Mean:
    """The mean of the values added so far.

    Attributes:
        count: The number of values.
    """

    def __init__(self) -> None:
        self.count = 0
        self._mean = self._squares = 0.0

    def add(self, value: float | None) -> None:
        """Add `value`; None is ignored."""
        if value is not None:
            self.count += 1
            away = value - self._mean
            self._mean += away / self.count
            self._squares += away * (value - self._mean)  # Welford

    @property
    def value(self) -> float | None:
        """The mean; None without values."""
        return self._mean if self.count else None

    @property
    def margin_95(self) -> float | None:
        """Half of the interval that holds the mean with 95 % confidence; None with fewer than two values."""
        if self.count < 2:
            return None
        return t_95(self.count - 1) * math.sqrt(self._squares / (self.count - 1) / self.count)


def fastest(rows: Iterable[Tried]) -> Tried | None:
    """The row with the greatest rate; None where none has a rate."""
    return max((row for row in rows if row.rate is not None), key=lambda row: row.rate or 0.0, default=None)


def comparable_rate(attempt: Attempt) -> float | None:
    """An attempt's rate once it has run for long enough to be compared, or to its end; None before."""
    return attempt.rate if attempt.comparable or attempt.state is WorkerState.FINISHED else None


def arguments_of(attempt: Attempt) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What attempts with the same arguments have in common: these, and the environment that was given for them."""
    return attempt.given, tuple(sorted(attempt.env.items()))


def t_95(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t; the degrees of freedom are at least 1, and rounded down if few."""
    if freedom <= len(_T_95):
        return _T_95[max(1, int(freedom)) - 1]
    # The expansion in 1/freedom (Abramowitz and Stegun, 26.7.5).
    z = _Z_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
