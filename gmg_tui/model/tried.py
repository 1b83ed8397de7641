"""Results per set of arguments."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, median_low

from msgspec import Struct

from gmg_tui.model.attempt import Attempt, mean
from gmg_tui.model.gpus import Slot
from gmg_tui.model.states import WorkerState

SETTLE_S = 10.0
"""Running time after which a rate is comparable, as the loop has warmed up."""
_MIN_SLOTS = 3
"""Minimum number of slots needed to compare one with their median."""
_SLOW_PCT = 3.0
"""Percent below the median beyond which a slot is slow."""


class ArgumentResults(Struct, frozen=True, omit_defaults=True):
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


def fastest(rows: Iterable[ArgumentResults]) -> ArgumentResults | None:
    """Returns the row with the highest rate; None if no row has one."""
    return max((row for row in rows if row.rate is not None), key=lambda row: row.rate or 0.0, default=None)


def comparable_rate(attempt: Attempt) -> float | None:
    """Returns an attempt's rate; None unless it ran for long enough, or finished."""
    return attempt.rate if attempt.comparable or attempt.state is WorkerState.FINISHED else None


def arguments_of(attempt: Attempt) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Returns the arguments and environment of an attempt, as a key."""
    return attempt.given, tuple(sorted(attempt.env.items()))


def below_median(attempts: Iterable[tuple[Slot, Attempt]]) -> dict[str, float]:
    """Returns the slow slots, and by how many percent each is below the median for its GPU model and arguments."""
    groups: dict[object, dict[str, dict[str, list[float]]]] = {}
    for slot, attempt in attempts:
        rate = comparable_rate(attempt)
        if rate is not None:
            nodes = groups.setdefault((slot.gpu.name if slot.gpu else None, arguments_of(attempt)), {})
            nodes.setdefault(slot.node, {}).setdefault(slot.name, []).append(rate)
    below_pct: dict[str, list[float]] = {}
    for nodes in groups.values():
        rates = {name: fmean(slot_rates) for slots in nodes.values() for name, slot_rates in slots.items()}
        median_rate = _median_of_nodes(nodes.values()) if len(rates) >= _MIN_SLOTS else 0.0
        for name, rate in rates.items() if median_rate > 0 else ():
            below_pct.setdefault(name, []).append((1 - rate / median_rate) * 100)
    return {name: pct for name, values in sorted(below_pct.items()) if (pct := median(values)) > _SLOW_PCT}


def _median_of_nodes(nodes: Iterable[Mapping[str, Sequence[float]]]) -> float:
    """Returns the median rate of the slots of several nodes.

    Takes the lower median of the nodes' medians, so that one node's wrong rates cannot make another's slots look slow.
    """
    return median_low([median(map(fmean, slots.values())) for slots in nodes])


MAX_SETS = 300
"""Maximum number of sets; beyond that, the slowest set of the older half is dropped."""
_MAX_SET_ATTEMPTS = 500
"""Maximum attempts per set; the newest are kept."""
_MAX_METRICS = 8

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
_SlotAttempt = tuple[str, Attempt]
"""A slot, and an attempt that ran there."""


class TriedArguments:
    """The ended attempts of each set of arguments."""

    def __init__(self) -> None:
        self._sets: dict[_Key, list[_SlotAttempt]] = {}
        """Sorted by newest attempt, the newest last."""

    def add(self, slot: str, attempt: Attempt) -> None:
        """Adds an ended attempt."""
        key = arguments_of(attempt)
        self._sets[key] = [*self._sets.pop(key, ()), (slot, attempt.brief())][-_MAX_SET_ATTEMPTS:]
        if len(self._sets) > MAX_SETS:
            older = list(self._sets)[: MAX_SETS // 2]
            rates = {key: mean(comparable_rate(attempt) for _, attempt in self._sets[key]) for key in older}
            del self._sets[min(older, key=lambda key: rates[key] or 0.0)]

    def results(self, live: Iterable[_SlotAttempt], now: float) -> tuple[ArgumentResults, ...]:
        """Returns the results of all sets, including `live` attempts, newest first; `now` is Unix time."""
        sets = dict(self._sets)
        for slot, attempt in live:
            key = arguments_of(attempt)
            sets[key] = [*sets.get(key, ()), (slot, attempt)]
        rows = [_row(key, attempts, now) for key, attempts in sets.items()]
        return tuple(sorted(rows, key=lambda row: row.started, reverse=True))


def _row(key: _Key, slot_attempts: Sequence[_SlotAttempt], now: float) -> ArgumentResults:
    """Returns the results of one set of arguments."""
    attempts = [attempt for _, attempt in slot_attempts]
    failed = [attempt for attempt in attempts if attempt.state is WorkerState.FAILED]
    settled = [attempt for attempt in attempts if attempt.comparable or attempt.state is WorkerState.FINISHED]
    rated = [attempt for attempt in settled if attempt.rate is not None]
    metered = [fps for attempt in rated if (fps := attempt.fps) is not None and fps.env_steps_per_j is not None]
    energy_j = sum(fps.energy_j or 0.0 for fps in metered)
    names = list(dict.fromkeys(name for attempt in settled for name in attempt.metrics))[:_MAX_METRICS]
    # Failed attempts may have filled the GPU and run out of memory.
    peaks_mib = [attempt.memory_peak_mib for attempt in attempts if attempt.state is not WorkerState.FAILED]
    return ArgumentResults(
        args=key[0],
        env=dict(key[1]),
        slots=tuple(dict.fromkeys(slot for slot, _ in slot_attempts)),
        attempts=len(attempts),
        running=sum(attempt.state.live for attempt in attempts),
        failed=len(failed),
        reason=next((attempt.reason for attempt in reversed(failed) if attempt.reason), None),
        started=max(attempt.started for attempt in attempts),
        elapsed_s=sum(attempt.elapsed_s(now) for attempt in attempts),
        measured=len(rated),
        rate=mean(attempt.rate for attempt in rated),
        n_envs=next((attempt.n_envs for attempt in reversed(attempts) if attempt.n_envs), None),
        memory_peak_mib=max((peak for peak in peaks_mib if peak is not None), default=None),
        gpu_util_pct=mean(attempt.gpu_util_mean_pct for attempt in rated),
        power_w=mean(attempt.power_mean_w for attempt in rated),
        fps_per_watt=sum(fps.env_steps or 0.0 for fps in metered) / energy_j if energy_j else None,
        metrics={
            name: value for name in names if (value := mean(attempt.metric(name) for attempt in settled)) is not None
        },
    )
