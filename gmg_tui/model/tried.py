"""Results by arguments: each set of arguments with the results of its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from msgspec import Struct

from gmg_tui.model.attempt import Attempt
from gmg_tui.model.gpus import Slot
from gmg_tui.model.states import WorkerState

SETTLE_S = 10.0
"""A loop that has run for less, and has not finished, has not warmed up."""
_MIN_SLOTS = 3
"""With fewer slots than this a median does not describe a single slot."""
_SLOW_PCT = 3.0
"""A slot that is further below the median is slow."""


class Tried(Struct, frozen=True, omit_defaults=True):
    """One set of arguments, and what it reached in this session, over all its attempts and slots."""

    args: tuple[str, ...]
    """See `Attempt.given`."""
    env: dict[str, str] = {}
    """See `Attempt.env`."""
    slots: tuple[str, ...] = ()
    """Its slots, in the order of their attempts."""
    attempts: int = 0
    running: int = 0
    """Attempts that run now."""
    failed: int = 0
    reason: str | None = None
    """One line on the newest failure."""
    started: float = 0.0
    """When the newest attempt started, Unix seconds."""
    elapsed_s: float = 0.0
    """Total time of its attempts."""
    measured: int = 0
    """Attempts that have run for long enough: the rate is the mean of theirs."""
    rate: float | None = None
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


def fastest(rows: Iterable[Tried]) -> Tried | None:
    """Returns the row with the greatest rate; None if no row has one."""
    return max((row for row in rows if row.rate is not None), key=lambda row: row.rate or 0.0, default=None)


def comparable_rate(attempt: Attempt) -> float | None:
    """Returns an attempt's rate once it has run for long enough to be compared, or to its end; None before."""
    return attempt.rate if attempt.comparable or attempt.state is WorkerState.FINISHED else None


def arguments_of(attempt: Attempt) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Returns the key of attempts with the same arguments: these, and their given environment."""
    return attempt.given, tuple(sorted(attempt.env.items()))


def below_median(ran: Iterable[tuple[Slot, Attempt]]) -> dict[str, float]:
    """Returns the slots that are slow, and how far their rates are below the median, per cent.

    A rate is compared with the rates of the same model of GPU and the same arguments.
    """
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
