"""All that was tried in a session, by arguments, in bounded memory however many attempts there are."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from msgspec import structs

from gmg_tui.model import Attempt, Tried, TriedView, WorkerState
from gmg_tui.model.tried import Mean, arguments_of, comparable_rate

MOST_SETS = 300
"""Sets of arguments that are kept: half of them for being the fastest, the others for being the newest."""
_SPARE = 50
"""So many more may gather before they are looked through."""
_MOST_METRICS = 8
"""Named numbers of a set that are kept."""

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class _Set:
    """The attempts with one set of arguments."""

    def __init__(self, key: _Key) -> None:
        self.row = Tried(key[0], dict(key[1]))
        self._rate, self._gpu_util_pct, self._power_w = Mean(), Mean(), Mean()
        self._metrics: dict[str, Mean] = {}
        self._env_steps = self._energy_j = 0.0

    def add(self, slot: str, attempt: Attempt, now: float) -> None:
        """Take an attempt, which runs until `now` (Unix seconds) unless it has ended."""
        row, failed = self.row, attempt.state is WorkerState.FAILED
        rate = comparable_rate(attempt)
        if rate is not None:
            self._rate.add(rate)
            self._gpu_util_pct.add(attempt.gpu_util_mean_pct)
            self._power_w.add(attempt.power_mean_w)
            if attempt.fps is not None and attempt.fps.env_steps_per_j is not None:
                self._env_steps += attempt.fps.env_steps or 0.0
                self._energy_j += attempt.fps.energy_j or 0.0
        if attempt.comparable or attempt.state is WorkerState.FINISHED:
            for name, value in attempt.metrics.items():
                if name in self._metrics or len(self._metrics) < _MOST_METRICS:
                    self._metrics.setdefault(name, Mean()).add(value)
        # One that ran out of memory has filled the GPU.
        peaks = (row.memory_peak_mib, None if failed else attempt.memory_peak_mib)
        self.row = structs.replace(
            row,
            slots=row.slots if slot in row.slots else (*row.slots, slot),
            attempts=row.attempts + 1,
            running=row.running + attempt.state.live,
            failed=row.failed + failed,
            reason=attempt.reason or row.reason if failed else row.reason,
            started=max(row.started, attempt.started),
            elapsed_s=row.elapsed_s + max(0.0, (now if attempt.ended is None else attempt.ended) - attempt.started),
            measured=self._rate.count,
            rate=self._rate.value,
            margin=self._rate.margin_95,
            n_envs=attempt.n_envs or row.n_envs,
            memory_peak_mib=max(filter(None, peaks), default=None),
            gpu_util_pct=self._gpu_util_pct.value,
            power_w=self._power_w.value,
            fps_per_watt=self._env_steps / self._energy_j if self._energy_j else None,
            metrics={name: mean.value for name, mean in self._metrics.items() if mean.value is not None},
        )


class TriedArguments:
    """What each set of arguments has reached, over the attempts that have ended."""

    def __init__(self) -> None:
        self._sets: dict[_Key, _Set] = {}

    def add(self, slot: str, attempt: Attempt) -> None:
        """Take an attempt that has ended."""
        key = arguments_of(attempt)
        self._sets.setdefault(key, _Set(key)).add(slot, attempt, attempt.started)
        if len(self._sets) > MOST_SETS + _SPARE:
            newest = sorted(self._sets, key=lambda key: self._sets[key].row.started, reverse=True)
            fastest = sorted(newest, key=lambda key: self._sets[key].row.rate or 0.0, reverse=True)
            kept = list(dict.fromkeys([*fastest[: MOST_SETS // 2], *newest]))[:MOST_SETS]
            self._sets = {key: self._sets[key] for key in kept}

    def view(self, live: Iterable[tuple[str, Attempt]], now: float) -> TriedView:
        """All sets of arguments, with the `live` attempts (each after its slot), the newest first; `now` is Unix seconds."""
        changed: dict[_Key, _Set] = {}
        for slot, attempt in live:
            key = arguments_of(attempt)
            if key not in changed:
                changed[key] = deepcopy(self._sets.get(key, _Set(key)))
            changed[key].add(slot, attempt, now)
        rows = (tried.row for tried in (self._sets | changed).values())
        return TriedView(tuple(sorted(rows, key=lambda row: row.started, reverse=True)))
