"""Benched GPUs: no job starts there any more.

Job after job failed there at once, or the driver has lost the GPU, or reports an error after which what it computes may
be wrong.
"""

from __future__ import annotations

import time

from gmg_tui import units
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.genesis.output.failures import FailureKind
from gmg_tui.model import GpuSample, WorkerState

AFTER = 3
"""Failures in a row before the GPU is blamed rather than the jobs."""
AT_ONCE_S = 600.0
"""A job that fails later than this has computed, even if it has reported no progress."""
LOST_S = 60.0
"""How long a GPU may be lost before it is benched."""


class Bench:
    """Counts each GPU's failures, by UUID, and determines which jobs are to run elsewhere."""

    def __init__(self) -> None:
        self._failed: dict[str, list[int]] = {}
        """The jobs that have failed on a GPU since the last one that computed there."""
        self._reasons: dict[str, str] = {}
        """Why a GPU is benched."""
        self._requeued: dict[int, str] = {}
        """Jobs that were queued again, and the GPU they had failed on. A job that fails on two GPUs keeps its failure."""
        self._lost_since: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        """The last fatal error that the driver has reported of a GPU; it benches the GPU once."""

    def why(self, gpu: str | None) -> str | None:
        """Why a GPU is benched, in one line; None where it is not, and on the CPU."""
        return self._reasons.get(gpu) if gpu is not None else None

    def judge(self, gpu: str, worker: Worker, sample: GpuSample | None) -> tuple[int, ...]:
        """Count how a job has ended on a GPU.

        Args:
            gpu: The GPU's UUID.
            worker: The job's, which has ended.
            sample: The GPU's latest.

        Returns:
            The jobs to be queued again, the worker's own last; empty where the outcome stands.
        """
        failure, attempt, job = worker.failure, worker.attempt, worker.task.job
        if attempt is None or job is None or worker.state is WorkerState.STOPPED:
            return ()
        if failure is not None and sample is not None and sample.lost:
            return self.failed(gpu, job, failure.reason) or (job,)
        computed = attempt.had_progress or attempt.elapsed_s(time.time()) >= AT_ONCE_S
        if computed or worker.state is WorkerState.FINISHED:
            self._failed.pop(gpu, None)
            return ()
        if failure is None or failure.kind not in (FailureKind.DEVICE, FailureKind.LOST):
            return ()
        return self.failed(gpu, job, failure.reason)

    def failed(self, gpu: str, job: int, reason: str) -> tuple[int, ...]:
        """Count a job that failed on a GPU at once, in a way that is the GPU's. Returns what `judge` does."""
        if job in self._requeued:
            return ()
        row = self._failed.setdefault(gpu, [])
        row[:] = [*(other for other in row if other != job), job]
        if gpu not in self._reasons:
            if len(row) < AFTER:
                return ()
            self._reasons[gpu] = f"{units.count(len(row), 'job')} in a row failed there: {reason}"
        del self._failed[gpu]
        self._requeued |= dict.fromkeys(row, gpu)
        return tuple(row)

    def check(self, sample: GpuSample, now: float) -> bool:
        """Check a sample at `now`, monotonic seconds. Returns whether it has benched the GPU."""
        gpu, fatal = sample.uuid, sample.health.fatal if sample.health is not None else None
        benched = gpu in self._reasons
        if fatal is not None and self._errors.get(gpu) != fatal.text:
            self._errors[gpu] = fatal.text
            self._reasons.setdefault(gpu, f"{fatal.text}; {fatal.advice}")
        if not sample.lost:
            self._lost_since.pop(gpu, None)
        elif now - self._lost_since.setdefault(gpu, now) >= LOST_S:
            self._reasons.setdefault(gpu, f"lost: {sample.error or 'the driver does not reach it'}")
        return not benched and gpu in self._reasons

    def release(self, gpu: str) -> None:
        """Let jobs start on a GPU again."""
        self._reasons.pop(gpu, None)
        self._failed.pop(gpu, None)
        self._lost_since.pop(gpu, None)
        self._requeued = {job: other for job, other in self._requeued.items() if other != gpu}
