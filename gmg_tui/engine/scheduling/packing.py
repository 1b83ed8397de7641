"""Packs several jobs onto one GPU (`--per-gpu`): checks that memory suffices, and compares speeds."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from gmg_tui.engine import clock
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import JobRecord, WorkerState, units
from gmg_tui.scripts.genesis.output.failures import FailureKind

_WARM_UP_S = 12.0
"""Seconds to wait after the jobs on a GPU change, as rates are means over 10 s."""
_SAMPLES = 20
"""Samples of each combination, one per second, needed to compare them."""
_MIN_DIFFERENCE_PCT = 1.0
_MAX_COMBINATIONS = 64
"""Maximum number of combinations compared; the oldest is dropped."""


_MIN_OTHERS_SHARE = 0.1
"""Share of a GPU's memory from which on the use of others may be the cause of a failure."""


def crowding(engine_slot: EngineSlot, worker: Worker) -> str | None:
    """Returns why a job lacked GPU memory at its start, if others use much of it; None otherwise."""
    failure, attempt, sample = worker.failure, worker.attempt, engine_slot.sample
    if failure is None or failure.kind is not FailureKind.MEMORY or attempt is None or attempt.has_worked(clock.now()):
        return None
    used_mib = sum(process.memory_mib or 0.0 for process in engine_slot.others)
    if (memory := engine_slot.memory) is not None and not memory.shared:  # else they may be the session's own
        used_mib = max(used_mib, memory.before_mib, memory.others_peak_mib, failure.others_mib)
    if sample is None or not sample.memory_total_mib or used_mib < _MIN_OTHERS_SHARE * sample.memory_total_mib:
        return None
    return f"others use {units.mib(used_mib)} of its GPU's memory"


class Running(NamedTuple):
    """A job making progress on a GPU."""

    attempt: Hashable
    n_envs: int | None
    rate: float


class Packing:
    """Compares the speed of `per_gpu` jobs on a GPU with that of one; calls `report` with the verdict."""

    def __init__(self, per_gpu: int, report: Callable[[str], None]) -> None:
        self._per_gpu, self._report = per_gpu, report
        self._running: dict[str, tuple[Hashable, float]] = {}
        """The attempts running on each GPU with their environments, and the time (monotonic seconds) of their last change."""
        self._totals: dict[tuple[int, int | None], list[float]] = {}
        """Total rates, by number of jobs and environments per job."""

    def sample(self, slots: Iterable[EngineSlot], now: float) -> None:
        """Samples the jobs on all GPUs at `now`, monotonic seconds; call this every second."""
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
        """Adds a sample of the jobs on one GPU."""
        attempts = frozenset((job.attempt, job.n_envs) for job in running)
        if self._running.get(gpu, (None, 0.0))[0] != attempts:
            self._running[gpu] = attempts, now
        size = running[0].n_envs if running else None
        if any(job.n_envs != size for job in running) or not running or now - self._running[gpu][1] < _WARM_UP_S:
            return
        totals = self._totals.setdefault((len(running), size), [])
        if len(self._totals) > _MAX_COMBINATIONS:
            del self._totals[next(iter(self._totals))]
        if len(totals) < _SAMPLES:
            totals.append(sum(job.rate for job in running))
            if (advice := self._compare()) is not None:
                self._report(advice)

    def _compare(self) -> str | None:
        for (count, size), totals in self._totals.items():
            if count != self._per_gpu or len(totals) < _SAMPLES:
                continue
            for alone_size in dict.fromkeys((size and size * count, size)):
                alone = self._totals.get((1, alone_size), [])
                if len(alone) >= _SAMPLES and sum(alone) > 0:
                    return _verdict(count, size, alone_size, 100 * (sum(totals) / sum(alone) - 1))
        return None


def _verdict(count: int, size: int | None, alone_size: int | None, gain_pct: float) -> str:
    has_sizes = size is not None and alone_size is not None
    packed, alone = (f"{count} × {size:,} is", f"1 × {alone_size:,}") if has_sizes else (f"{count} jobs are", "1 job")
    if abs(gain_pct) < _MIN_DIFFERENCE_PCT:
        return f"{packed} as fast as {alone}: packing gains nothing"
    if gain_pct > 0:
        return f"{packed} {gain_pct:.0f} % faster than {alone}: packing pays"
    return f"{packed} {-gain_pct:.0f} % slower than {alone}: do not pack"


_MAX_IDLE_MIB = 1024.0
"""A GPU with at most this much memory in use counts as idle."""
_PEAK_TOLERANCE = 0.05
"""A job's need may differ from its last peak by this share: assume less, or more if the job failed."""


def free_mib(engine_slot: EngineSlot, running: Iterable[tuple[EngineSlot, float | None]]) -> float | None:
    """Returns the memory free for another job on a slot's GPU; None if unknown, or if the whole GPU is free.

    `running` has the GPU's other slots with a job, and its known peak in MiB: memory it may still need is not free. Without
    one, memory counts as used only if NVML lists whose it is: otherwise a job's peak may have been another process's.
    """
    sample, jobs = engine_slot.sample, list(running)
    if sample is None or sample.memory_free_mib is None or sample.memory_used_mib is None:
        return None
    is_known = any(not process.foreign for process in sample.processes or ())
    if not jobs and (sample.memory_used_mib <= _MAX_IDLE_MIB or not is_known):
        return None
    growth_mib = 0.0
    for other, known_mib in jobs:
        attempt = other.worker.attempt if other.worker is not None else None
        peak_mib = attempt.memory_peak_mib if attempt is not None else None
        growth_mib += max(0.0, (known_mib or 0.0) - (peak_mib or 0.0))
    return max(0.0, sample.memory_free_mib - growth_mib)


def shortage(job: JobRecord, available_mib: float | None) -> str | None:
    """Describes the shortage if a job does not fit, judged by its last peak; None if it may fit."""
    need_mib = job.last.memory_peak_mib
    if need_mib is None or available_mib is None:
        return None
    has_failed = job.last.state is WorkerState.FAILED
    if need_mib * (1 + _PEAK_TOLERANCE if has_failed else 1 - _PEAK_TOLERANCE) <= available_mib:
        return None
    return f"{units.mib(need_mib)}, as before, but only {units.mib(available_mib)} is free"


def peak_mib(job: JobRecord, slot: str) -> float | None:
    """Returns a job's last memory peak; None if it was measured on another node, which may have other GPUs, or lie."""
    is_same_node = (job.slot or "").rpartition("/")[0] == slot.rpartition("/")[0]
    return job.last.memory_peak_mib if is_same_node else None
