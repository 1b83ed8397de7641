"""A job in `detailed_results.json`. Unknown values are null, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gmg_tui.model import AttemptMetrics, Fps, JobRecord
from gmg_tui.store.records import JobAttempt
from gmg_tui.store.rows import encode

_MEANS = ("memory_peak_mib", "gpu_util_mean_pct", "power_mean_w", "energy_j")


def job_text(job: JobRecord, attempts: Iterable[str]) -> str:
    """The JSON text of a job as far as its results, which `with_result` adds; given those of its attempts in their order."""
    head = {field: getattr(job, field) for field in ("name", "number", "state", "reason", "values")}
    gpu = {"index": job.gpu_index, "uuid": job.gpu_uuid}
    head["gpu"] = gpu if any(part is not None for part in gpu.values()) else None
    head["slot"] = job.slot
    head |= {"slots": job.slots or ((job.slot,) if job.slot else ())}
    head |= {"group": job.group, "rank": job.rank, "world_size": job.world_size}
    rest: dict[str, Any] = {"exit_code": job.exit_code, "elapsed_s": rounded(job.elapsed_s), "fps": fps_of(job.fps)}
    rest["n_envs"] = job.n_envs
    rest |= {field: rounded(getattr(job, field)) for field in _MEANS}
    rest |= {"out_dir": job.out_dir, "log": job.log}
    # Joined by hand: an attempt that has ended does not change again, and there may be many.
    return f'{encode(head)[:-1]},"attempts":[{",".join(attempts)}],{encode(rest)[1:-1]}'


def with_result(text: str, result: str) -> str:
    """The whole JSON text of a job, given that of its results."""
    return f'{text},"result":{result}}}'


def attempt_text(one: JobAttempt) -> str:
    """The JSON text of an attempt."""
    attempt = one.attempt
    head = {"number": attempt.number, "started": moment(attempt.started or None), "ended": moment(attempt.ended)}
    outcome = {"exit_code": attempt.exit_code, "state": attempt.state, "reason": attempt.reason}
    where = {"rank": one.rank, "slot": one.slot, "gpu_index": one.gpu_index, "gpu_uuid": one.gpu_uuid}
    reached = attempt.metrics or AttemptMetrics(attempt.number, attempt.args)
    figures = {"n_envs": reached.n_envs, "fps_last": reached.fps, "fps_settled": rounded(reached.settled)}
    means = {name: rounded(getattr(reached, name)) for name in ("memory_peak_mib", "gpu_util_pct", "power_w")}
    return encode({**head, **outcome, **where, "pid": attempt.pid, "args": attempt.args, **figures, **means})


def fps_of(fps: Fps | None) -> dict[str, float | int | None] | None:
    """Environment steps per second, as the session's files have them."""
    if fps is None:
        return None
    means = {"mean": rounded(fps.mean), "max": fps.max, "samples": fps.samples}
    return {"last": fps.last, "settled": rounded(fps.settled), **means}


def rounded(value: float | None) -> float | None:
    """A metric with at most three decimals."""
    return None if value is None else round(value, 3)


def moment(time: float | None) -> str | None:
    """Unix seconds in ISO 8601, UTC, with milliseconds."""
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
