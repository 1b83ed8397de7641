"""The rows of a report: each attempt of a job is one."""

from __future__ import annotations

import math

from msgspec import Struct, structs

from gmg_tui.model import Fps, JobRecord
from gmg_tui.report.data import ReportData, attempt_span, job_s
from gmg_tui.store.records import JobAttempt


class Row(Struct, frozen=True):
    """An attempt of a job, or a job that has none."""

    record: JobRecord
    """The job as it was in this attempt; what is of the whole job (energy, results) stands in the row of its last one."""
    args: tuple[str, ...] | None
    """The attempt's arguments, placeholders filled in; None for a job without an attempt."""


def rows_of(data: ReportData) -> list[Row]:
    """The rows of all jobs, in their order; the attempts of a job in theirs."""
    return [row for job in data.jobs for row in _of_job(data, job)]


def _of_job(data: ReportData, job: JobRecord) -> list[Row]:
    # The ranks of an attempt are one row: that of the first.
    attempts = list({one.attempt.number: one for one in reversed(data.attempts.get(job.number, []))}.values())[::-1]
    if len(attempts) < 2:
        record = structs.replace(job, elapsed_s=job_s(data, job))
        return [Row(record, attempts[0].attempt.args if attempts else None)]
    *earlier, last = attempts
    newest = structs.replace(job, started=last.attempt.started, elapsed_s=_seconds(data, last))
    rows = [Row(_before(data, job, one), one.attempt.args) for one in earlier]
    return [*rows, Row(newest, last.attempt.args)]


def _before(data: ReportData, job: JobRecord, one: JobAttempt) -> JobRecord:
    """The job as it was at the end of an attempt that others followed."""
    attempt = one.attempt
    record = structs.replace(
        job,
        state=attempt.state,
        reason=attempt.reason,
        slot=one.slot,
        gpu_index=one.gpu_index,
        gpu_uuid=one.gpu_uuid,
        attempts=attempt.number,
        exit_code=attempt.exit_code,
        started=attempt.started,
        ended=attempt.ended,
        elapsed_s=_seconds(data, one),
        energy_j=None,
        result={},
        fps=None,
        n_envs=None,
        memory_peak_mib=None,
        gpu_util_mean_pct=None,
        power_mean_w=None,
    )
    reached = attempt.metrics
    if reached is None:
        return record
    mean = math.nan if reached.fps_mean is None else reached.fps_mean
    return structs.replace(
        record,
        fps=None if reached.fps is None else Fps(reached.fps, mean, math.nan, 0, reached.settled),
        n_envs=reached.n_envs,
        memory_peak_mib=reached.memory_peak_mib,
        gpu_util_mean_pct=reached.gpu_util_pct,
        power_mean_w=reached.power_w,
    )


def _seconds(data: ReportData, one: JobAttempt) -> float | None:
    span = attempt_span(data, one)
    return None if span is None else span[1] - span[0]
