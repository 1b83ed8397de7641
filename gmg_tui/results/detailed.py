"""A job as `detailed_results.json` has it. What is not known is null, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from gmg_tui.model import Fps, JobRecord
from gmg_tui.store.records import JobAttempt
from gmg_tui.store.rows import encode


def job_text(job: JobRecord, attempts: Iterable[str]) -> str:
    """The JSON text of a job.

    Args:
        job: The job.
        attempts: The texts of its attempts, in their order.
    """
    head = {
        "name": job.name,
        "number": job.number,
        "state": job.state.value,
        "reason": job.reason,
        "values": job.values,
        "gpu": None
        if job.gpu_index is None and job.gpu_uuid is None
        else {"index": job.gpu_index, "uuid": job.gpu_uuid},
        "slot": job.slot,
    }
    rest = {
        "exit_code": job.exit_code,
        "elapsed_s": rounded(job.elapsed_s),
        "fps": _fps(job.fps),
        "n_envs": job.n_envs,
        "memory_peak_mib": rounded(job.memory_peak_mib),
        "gpu_util_mean_pct": rounded(job.gpu_util_mean_pct),
        "power_mean_w": rounded(job.power_mean_w),
        "energy_j": rounded(job.energy_j),
        "out_dir": job.out_dir,
        "log": job.log,
    }
    # Put together by hand, for attempts do not change any more once they have ended, and there may be many.
    listed = ",".join(attempts)
    return f'{encode(head)[:-1]},"attempts":[{listed}],{encode(rest)[1:-1]},"result":{encode(job.result)}}}'


def attempt_text(one: JobAttempt) -> str:
    """The JSON text of an attempt."""
    attempt = one.attempt
    return encode(
        {
            "number": attempt.number,
            "started": moment(attempt.started or None),
            "ended": moment(attempt.ended),
            "exit_code": attempt.exit_code,
            "state": attempt.state.value,
            "reason": attempt.reason,
            "slot": one.slot,
            "gpu_index": one.gpu_index,
            "gpu_uuid": one.gpu_uuid,
            "pid": attempt.pid,
            "args": attempt.args,
        }
    )


def _fps(fps: Fps | None) -> dict[str, float | int | None] | None:
    if fps is None:
        return None
    return {"last": fps.last, "mean": rounded(fps.mean), "max": fps.max, "samples": fps.samples}


def rounded(value: float | None) -> float | None:
    """A figure with at most three decimals."""
    return None if value is None else round(value, 3)


def moment(time: float | None) -> str | None:
    """Unix seconds in ISO 8601, UTC, with milliseconds."""
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
