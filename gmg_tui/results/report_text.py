"""Renders a report as tables for the terminal."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import join

from gmg_tui.model import Session, Severity, Snapshot, TrialState, Tuning, WorkerState, units
from gmg_tui.model.text import one_line
from gmg_tui.results import metric_curves, report, tuning_text
from gmg_tui.results import table as tables
from gmg_tui.results.job_columns import STATE_STYLES, columns
from gmg_tui.results.report import ReportData
from gmg_tui.session import LOGS, SUMMARY, TUNE

MAX_ROWS = 40
"""Maximum rows to show on a terminal; a line below the table gives the total."""
_MAX_FAILURES = 10
"""Maximum failures, and maximum alerts, to list."""
_SORT_COLUMN_PRIORITY = 95
"""High enough to keep the column on narrow terminals."""
_TRIAL_STYLES: dict[str, str] = {
    **dict.fromkeys(TrialState, "dim"),
    TrialState.MEASURED: "green",
    TrialState.FAILED: "red",
    TrialState.RUNNING: "cyan",
}


def render_end(session: Session, snapshot: Snapshot) -> list[str]:
    """Returns the lines to print at a session's end: a plain run's table, a tuning's answer, or the logs' folder.

    The `sweep` command prints its table itself.
    """
    logs = f"logs: {Path(session.spec.folder) / LOGS}/"
    if snapshot.tuning is not None:
        return [*render_answer(snapshot.tuning), f"tuning: {Path(session.spec.folder) / TUNE}", logs]
    if snapshot.queue is None:
        return render(report.from_snapshot(session, snapshot), None, *tables.stdout_format()).splitlines()
    if not snapshot.queue.stranded:
        return [logs]
    return [
        "no job can start: every slot that the jobs may use is benched",
        *(f"{slot}: {reason}" for slot, reason in snapshot.queue.benched.items()),
        "fix them (nvidia-smi, the kernel's log, gmg-tui doctor), or choose others with --gpus, and continue the sweep",
        logs,
    ]


def render(data: ReportData, best: str | None, width: int | None, colour: bool) -> str:
    """Returns a session's tables and totals, without a final line end. Raises `GmgError` if there is no column `best`.

    The order is that of `ReportData.sorted_rows`; a `width` limits columns and rows.
    """
    rows, sort_column, order = data.sorted_rows(best)
    noun = "job" if data.plain_snapshot is None else "worker"
    shown = rows[: None if width is None else MAX_ROWS]
    counts = units.count(len(data.jobs), noun)
    if len(rows) != len(data.jobs):
        counts = f"{units.count(len(rows), 'attempt')} of {counts}"
    if len(shown) < len(rows):
        counts = f"the first {len(shown)} of {counts}"
    shown_columns = [
        replace(column, priority=_SORT_COLUMN_PRIORITY) if sort_column and column.name == sort_column.name else column
        for column in columns(rows)
    ]
    lines = tables.render_lines(shown_columns, shown, width=width, colour=colour, styles=STATE_STYLES)
    if not data.jobs:
        lines.append("no jobs")
    elif noun == "job" or order != report.UNSORTED or len(shown) < len(rows) or len(rows) > len(data.jobs):
        lines.append(one_line(f"{counts}, {order}"))
    lines += _render_metrics(data, width, colour)
    return "\n".join([*lines, *map(one_line, _footer(data))])


def _render_metrics(data: ReportData, width: int | None, colour: bool) -> Iterator[str]:
    """Yields the lines of a table of the metrics; on a terminal, only of the first ones."""
    shown = data.metrics[: None if width is None else metric_curves.MAX_ROWS]
    if shown:
        metric_columns = metric_curves.columns(shown, "of job" if data.queued else "of worker")
        yield from ["", *tables.render_lines(metric_columns, shown, width=width, colour=colour)]
    if more := len(data.metrics) - len(shown):
        yield f"and {units.count(more, 'other metric')}: --json or --csv metrics"
    if shown:
        yield ""


def render_trials(tuning: Tuning, width: int | None, *, colour: bool) -> list[str]:
    """Returns the lines of a tuning's trials by value, then of the answer."""
    rows = sorted(tuning.trials, key=lambda trial: (trial.value, trial.number))
    table = tables.render_lines(
        tuning_text.columns(tuning.spec), rows, width=width, colour=colour, styles=_TRIAL_STYLES
    )
    return [*table, *render_answer(tuning)]


def render_answer(tuning: Tuning) -> list[str]:
    """Returns the lines of a tuning's answer: a short table, notes, and the command line with the recommended value."""
    spec, answer = tuning.spec, tuning.answer
    headline = [f"{spec.variable} = {rate}"] if (rate := tuning_text.rate_together(answer, spec)) else []
    table = tables.render_lines(tuning_text.answer_columns(spec), tuning_text.named_values(answer, spec))
    notes = [f"{name}: {text}" for name, text in tuning_text.notes(answer, spec)]
    lines = [*filter(None, [tuning_text.incomplete_text(tuning)]), *headline, *table, *notes]
    if answer.recommended is None:
        return [*lines, f"no value of {spec.variable} was measured"]
    return [*lines, tuning_text.caution(spec), *([f"run it: {join(tuning.command)}"] if tuning.command else [])]


def _footer(data: ReportData) -> Iterator[str]:
    """Yields the lines below the tables: totals, failures, alerts, and files."""
    yield _total_line(data)
    yield from _failures(data)
    yield from (f"{name} {alert.headline}" for name, alert in data.alerts[:_MAX_FAILURES])
    if more := len(data.alerts) - _MAX_FAILURES:
        yield from [f"and {units.count(more, 'more alert')}"] if more > 0 else []
    if data.plain_snapshot is not None:
        alerts = (alert for worker in data.plain_snapshot.workers for alert in worker.alerts if alert.kind == "output")
        yield from sorted({alert.text for alert in alerts if alert.severity is Severity.INFO})
        # A user's stops need no explanation; a signal stops all for the same reason.
        yield from sorted({job.reason for job in data.jobs if job.state is WorkerState.STOPPED and job.reason})
    if data.interrupted:
        yield f"{units.count(data.interrupted, 'job')} interrupted, to be run again when the session is resumed"
    yield from data.slow_slots
    sweep = data.session.spec.sweep
    if sweep is not None:
        yield f"results: {data.folder}/"
        return
    if data.session.idle_text:
        yield data.session.idle_text
    if os.path.exists(summary := data.folder / SUMMARY):  # a lost session may have none
        yield f"summary: {summary}"
    yield f"logs: {data.folder / LOGS}/"


def _failures(data: ReportData) -> Iterator[str]:
    """Yields the reasons for failures, with advice."""
    failures = data.failures
    for failure in failures[:_MAX_FAILURES]:
        yield f"{failure.subject} failed: {failure.reason}"
        if failure.advice:
            yield f"{'':{len(failure.subject)}} {failure.advice}"
    if more := sum(len(failure.names) for failure in failures[_MAX_FAILURES:]):
        yield f"and {more:,} more failed"


def _total_line(data: ReportData) -> str:
    texts = [", ".join(f"{data.states[state]:,} {state}" for state in WorkerState if state in data.states) or "no jobs"]
    if (rate := data.rate) is not None:
        without = f" without {units.count(len(data.failed), 'failed worker')}" if data.failed else ""
        texts.append(f"total {units.fps(rate.mean)} FPS{without}")
        texts += [f"{units.short(rate.env_steps_per_j)} FPS/W"] if rate.env_steps_per_j is not None else []
    texts += [f"{name} {value}" for name, value in data.totals]
    return "  ".join([*(["simulated"] if data.simulated else []), *texts])
