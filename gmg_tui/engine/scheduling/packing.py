"""Finds out if several jobs on one GPU (`--per-gpu`) get more done than one: by the rates while they run together and alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.model import WorkerState

_SETTLE_S = 12.0
"""A rate is the mean of 10 s: until then it has something of other jobs."""
_MIN_SECONDS = 20
"""Seconds of each that are compared."""
_SAME_PCT = 1.0


class Running(NamedTuple):
    """A job that makes progress on a GPU."""

    attempt: Hashable
    n_envs: int | None
    rate: float


class Packing:
    """Compares `per_gpu` jobs on a GPU with one; `report` gets the result once both were observed."""

    def __init__(self, per_gpu: int, report: Callable[[str], None]) -> None:
        self._per_gpu, self._report = per_gpu, report
        self._since: dict[str, tuple[Hashable, float]] = {}
        """The attempts that run on each GPU, and since when."""
        self._totals: dict[tuple[int, int | None], list[float]] = {}
        """The sums of rates, by number of jobs and environments of each."""

    def watch(self, slots: Iterable[EngineSlot], now: float) -> None:
        """Adds the jobs that run on all GPUs at `now`, monotonic seconds; call it each second."""
        running: dict[str, list[Running]] = {}
        for slot in slots:
            worker, jobs = slot.worker, running.setdefault(slot.gpu_uuid or "", [])
            if worker is None or worker.state is not WorkerState.RUNNING or (attempt := worker.attempt) is None:
                continue
            if attempt.fps is not None and attempt.fps.settled is not None:
                jobs.append(Running((slot.slot.name, attempt.started), attempt.n_envs, attempt.fps.settled))
        for gpu, jobs in running.items():
            self.add(gpu, jobs, now)

    def add(self, gpu: str, running: Sequence[Running], now: float) -> None:
        """Adds the jobs that run on a GPU at `now`, monotonic seconds; call it each second."""
        attempts = frozenset(job.attempt for job in running)
        if self._since.get(gpu, (None, 0.0))[0] != attempts:
            self._since[gpu] = attempts, now
        size = running[0].n_envs if running else None
        if any(job.n_envs != size for job in running) or not running or now - self._since[gpu][1] < _SETTLE_S:
            return
        totals = self._totals.setdefault((len(running), size), [])
        if len(totals) < _MIN_SECONDS:
            totals.append(sum(job.rate for job in running))
            if (advice := self._compare()) is not None:
                self._report(advice)

    def _compare(self) -> str | None:
        for (count, size), totals in self._totals.items():
            if count != self._per_gpu or len(totals) < _MIN_SECONDS:
                continue
            for other in dict.fromkeys((size and size * count, size)):
                alone = self._totals.get((1, other), [])
                if len(alone) >= _MIN_SECONDS and sum(alone) > 0:
                    return _verdict(count, size, other, 100 * (sum(totals) / sum(alone) - 1))
        return None


def _verdict(count: int, size: int | None, other: int | None, gain_pct: float) -> str:
    sized = size is not None and other is not None
    packed, alone = (f"{count} × {size:,} is", f"1 × {other:,}") if sized else (f"{count} jobs are", "1 job")
    if abs(gain_pct) < _SAME_PCT:
        return f"{packed} as fast as {alone}: packing gains nothing"
    if gain_pct > 0:
        return f"{packed} {gain_pct:.0f} % faster than {alone}: packing pays"
    return f"{packed} {-gain_pct:.0f} % slower than {alone}: do not pack"
