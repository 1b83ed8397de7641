"""All that was tried in a session, by arguments, in bounded memory however many attempts there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple

from gmg_tui.mean import Mean
from gmg_tui.model import Attempt, Tried, TriedView, WorkerState
from gmg_tui.model.tried import arguments_of, below_median, margin_95, settled_rate

MOST_SETS = 300
"""Sets of arguments that are kept: half of them for being the fastest, the others for being the newest."""
_SPARE = 50
"""So many more may gather before they are looked through."""

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class Ran(NamedTuple):
    """An attempt, and where it ran."""

    slot: str
    model: str | None
    """The GPU's; None on a CPU slot."""
    attempt: Attempt


class _Set:
    """The attempts with one set of arguments."""

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.slots: dict[str, None] = {}
        self.attempts = self.running = self.failed = 0
        self.reason: str | None = None
        self.started = 0.0
        self.elapsed_s = 0.0
        self.n_envs: int | None = None
        self.memory_peak_mib: float | None = None
        self.rates: dict[str, Mean] = {}
        """The settled ones, by slot."""
        self.measured = 0
        self._mean = self._squares = 0.0
        """Of the settled rates: their mean, and the sum of the squared differences from it (Welford)."""
        self._spread: float | None = None
        self._util_pct, self._power_w = Mean(), Mean()
        self._fps_of_watts = self._watts = 0.0

    def add(self, slot: str, attempt: Attempt, now: float) -> None:
        """Take an attempt, which runs until `now` (Unix seconds) unless it has ended."""
        self.slots[slot] = None
        self.attempts += 1
        self.running += attempt.state.live
        self.elapsed_s += max(0.0, (now if attempt.ended is None else attempt.ended) - attempt.started)
        if attempt.state is WorkerState.FAILED:
            self.failed += 1
            self.reason = attempt.reason or self.reason
        self.started = max(self.started, attempt.started)
        metrics = attempt.metrics
        if metrics is None:
            return
        self.n_envs = metrics.n_envs or self.n_envs
        self.memory_peak_mib = max(filter(None, (self.memory_peak_mib, metrics.memory_peak_mib)), default=None)
        rate = settled_rate(attempt)
        if rate is None:
            return
        self._util_pct.add(metrics.gpu_util_pct)
        self._power_w.add(metrics.power_w)
        self.rates.setdefault(slot, Mean()).add(rate)
        self.measured += 1
        before = rate - self._mean
        self._mean += before / self.measured
        self._squares += before * (rate - self._mean)
        self._spread = metrics.spread
        if metrics.power_w:
            self._fps_of_watts += rate
            self._watts += metrics.power_w

    @property
    def rate(self) -> float | None:
        """The mean of the settled rates."""
        return self._mean if self.measured else None

    def row(self) -> Tried:
        """What clients see of it."""
        args, env = self.key
        deviation = math.sqrt(self._squares / (self.measured - 1)) if self.measured > 1 else 0.0
        return Tried(
            args=args,
            env=dict(env),
            slots=tuple(self.slots),
            attempts=self.attempts,
            running=self.running,
            failed=self.failed,
            reason=self.reason,
            started=self.started,
            elapsed_s=self.elapsed_s,
            measured=self.measured,
            rate=self.rate,
            margin=margin_95(deviation, self.measured),
            spread=self._spread if self.measured == 1 else None,
            n_envs=self.n_envs,
            memory_peak_mib=self.memory_peak_mib,
            gpu_util_pct=self._util_pct.value,
            power_w=self._power_w.value,
            fps_per_watt=self._fps_of_watts / self._watts if self._watts > 0 else None,
        )


class TriedArguments:
    """What each set of arguments has reached, over the attempts that have ended."""

    def __init__(self) -> None:
        self._sets: dict[_Key, _Set] = {}
        self._left_out = 0

    def add(self, slot: str, attempt: Attempt) -> None:
        """Take an attempt that has ended."""
        key = arguments_of(attempt)
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = _Set(key)
        found.add(slot, attempt, attempt.started)
        if len(self._sets) > MOST_SETS + _SPARE:
            self._forget()

    def _forget(self) -> None:
        """Keep the fastest sets, and of the others the newest."""
        newest = sorted(self._sets.values(), key=lambda one: one.started, reverse=True)
        fastest = sorted(newest, key=lambda one: one.rate or 0.0, reverse=True)[: MOST_SETS // 2]
        kept = {one.key for one in fastest}
        for one in newest:
            if len(kept) >= MOST_SETS:
                break
            kept.add(one.key)
        self._left_out += len(self._sets) - len(kept)
        self._sets = {key: one for key, one in self._sets.items() if key in kept}

    def view(self, live: Iterable[Ran], now: float) -> TriedView:
        """All sets of arguments, with the `live` attempts among them, the newest first; `now` is Unix seconds."""
        sets = dict(self._sets)
        for ran in live:
            key = arguments_of(ran.attempt)
            found = sets.get(key)
            if found is None:
                found = _Set(key)
            elif found is self._sets.get(key):
                found = deepcopy(found)
            sets[key] = found
            found.add(ran.slot, ran.attempt, now)
        rows = sorted((one.row() for one in sets.values()), key=lambda row: row.started, reverse=True)
        return TriedView(tuple(rows), self._left_out)

    def slow(self, latest: Iterable[Ran], models: Mapping[str, str | None]) -> dict[str, float]:
        """The slots whose `latest` attempt is slow beside those with the same arguments, and how far below their median.

        Slots whose latest attempt has other arguments count with what they reached earlier with these. Only GPUs of one
        model are compared, of which `models` has each slot's.
        """
        groups: dict[tuple[_Key, str], dict[str, float]] = {}
        for ran in latest:
            rate = settled_rate(ran.attempt)
            if rate is not None and ran.model is not None:
                groups.setdefault((arguments_of(ran.attempt), ran.model), {})[ran.slot] = rate
        found: dict[str, float] = {}
        for (key, model), now in groups.items():
            past = self._sets[key].rates if key in self._sets else {}
            earlier = {slot: mean.value for slot, mean in past.items() if models.get(slot) == model}
            rates = {slot: rate for slot, rate in earlier.items() if rate is not None} | now
            found |= {slot: pct for slot, pct in below_median(rates).items() if slot in now}
        return found
