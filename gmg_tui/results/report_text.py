"""A report as tables for the terminal."""

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
"""Rows to show on a terminal; the others are counted."""
_MAX_FAILURES = 10
_ORDER_PRIORITY = 95
_TRIAL_STYLES: dict[str, str] = {
    **dict.fromkeys(TrialState, "dim"),
    TrialState.MEASURED: "green",
    TrialState.FAILED: "red",
    TrialState.RUNNING: "cyan",
}


def at_end(session: Session, snapshot: Snapshot) -> list[str]:
    """Returns the results to print at a session's end: a plain run's table, or a tuning's answer.

    The `sweep` command prints its table after these lines.
    """
    logs = f"logs: {Path(session.spec.folder) / LOGS}/"
    if snapshot.tuning is not None:
        return [*answer_lines(snapshot.tuning), f"tuning: {Path(session.spec.folder) / TUNE}", logs]
    if snapshot.queue is None:
        return render(report.at_end(session, snapshot), None, *tables.stdout_format()).splitlines()
    if not snapshot.queue.stranded:
        return [logs]
    return [
        "no job can start: every GPU that the jobs may use is benched",
        *(f"{slot}: {why}" for slot, why in snapshot.queue.benched.items()),
        "fix them (nvidia-smi, the kernel's log, gmg-tui doctor), or choose others with --gpus, and continue the sweep",
        logs,
    ]


def render(data: ReportData, best: str | None, width: int | None, colour: bool) -> str:
    """Returns the table with its totals, without a final line end. Raises `GmgError` if there is no column `best`.

    `best` orders it as in `arranged`; `width` limits columns and rows, unless it is None.
    """
    listed, by, order = data.arranged(best)
    kind = "job" if data.plain is None else "worker"
    chosen = listed[: None if width is None else MAX_ROWS]
    what = units.count(len(data.jobs), kind)
    if len(listed) != len(data.jobs):
        what = f"{units.count(len(listed), 'attempt')} of {what}"
    if len(chosen) < len(listed):
        what = f"the first {len(chosen)} of {what}"
    # The sort column stays even on narrow terminals.
    first = by.name if by else ""
    shown = [replace(each, priority=_ORDER_PRIORITY) if each.name == first else each for each in columns(listed)]
    lines = tables.render_lines(shown, chosen, width=width, colour=colour, styles=STATE_STYLES)
    if not data.jobs:
        lines.append("no jobs")
    elif kind == "job" or order != report.UNSORTED or len(chosen) < len(listed) or len(listed) > len(data.jobs):
        lines.append(one_line(f"{what}, {order}"))
    lines += _metrics(data, width, colour)
    return "\n".join([*lines, *map(one_line, _below(data))])


def _metrics(data: ReportData, width: int | None, colour: bool) -> Iterator[str]:
    """Yields a table of the metrics, on a terminal only the first ones."""
    listed = data.metrics[: None if width is None else metric_curves.MAX_ROWS]
    if listed:
        of_metrics = metric_curves.columns(listed, "of job" if data.queued else "of worker")
        yield from ["", *tables.render_lines(of_metrics, listed, width=width, colour=colour)]
    if more := len(data.metrics) - len(listed):
        yield f"and {units.count(more, 'other metric')}: --json or --csv metrics"
    if listed:
        yield ""


def trials(tuning: Tuning, width: int | None, *, colour: bool) -> list[str]:
    """Returns the trials of a tuning by value, then the answer."""
    rows = sorted(tuning.trials, key=lambda trial: (trial.value, trial.number))
    listed = tables.render_lines(
        tuning_text.columns(tuning.spec), rows, width=width, colour=colour, styles=_TRIAL_STYLES
    )
    return [*listed, *answer_lines(tuning)]


def answer_lines(tuning: Tuning) -> list[str]:
    """Returns the answer: a short table, notes, and the command line with the recommended value."""
    spec, answer = tuning.spec, tuning.answer
    headline = [f"{spec.variable} = {rate}"] if (rate := tuning_text.rate_together(answer, spec)) else []
    table = tables.render_lines(tuning_text.answer_columns(spec), tuning_text.values_of(answer, spec))
    notes = [f"{name}: {text}" for name, text in tuning_text.notes(answer, spec)]
    lines = [*filter(None, [tuning_text.cut_short(tuning)]), *headline, *table, *notes]
    if answer.recommended is None:
        return [*lines, f"no value of {spec.variable} was measured"]
    return [*lines, tuning_text.caution(spec), *([f"run it: {join(tuning.command)}"] if tuning.command else [])]


def _below(data: ReportData) -> Iterator[str]:
    """Yields the lines under the table: totals, failures, warnings, and the files."""
    yield _summary(data)
    yield from _failures(data)
    yield from (f"{name} {alert.headline}" for name, alert in data.alerts[:_MAX_FAILURES])
    if more := len(data.alerts) - _MAX_FAILURES:
        yield from [f"and {units.count(more, 'more alert')}"] if more > 0 else []
    if data.plain is not None:
        found = (alert for worker in data.plain.workers for alert in worker.alerts if alert.kind == "output")
        yield from sorted({alert.text for alert in found if alert.severity is Severity.INFO})
        # A user's stops need no explanation; a signal stops all for the same reason.
        yield from sorted({job.reason for job in data.jobs if job.state is WorkerState.STOPPED and job.reason})
    if data.interrupted:
        yield f"{units.count(data.interrupted, 'job')} interrupted, to run again when the session is continued"
    yield from data.slow_slots
    sweep = data.session.spec.sweep
    if sweep is not None:
        yield f"results: {data.folder}/"
        return
    if data.session.idle_text:
        yield data.session.idle_text
    if os.path.exists(summary := data.folder / SUMMARY):  # noqa: PTH110 - never raises; a lost session may have none
        yield f"summary: {summary}"
    yield f"logs: {data.folder / LOGS}/"


def _failures(data: ReportData) -> Iterator[str]:
    """Yields the reasons of failures, with advice."""
    failures = data.failures
    for failure in failures[:_MAX_FAILURES]:
        yield f"{failure.who} failed: {failure.reason}"
        if failure.advice:
            yield f"{'':{len(failure.who)}} {failure.advice}"
    if more := sum(len(failure.names) for failure in failures[_MAX_FAILURES:]):
        yield f"and {more:,} more failed"


def _summary(data: ReportData) -> str:
    """Returns the totals of all jobs as one line."""
    parts = [", ".join(f"{data.states[state]:,} {state}" for state in WorkerState if state in data.states) or "no jobs"]
    if (rate := data.rate) is not None:
        without = f" without {units.count(len(data.failed), 'failed worker')}" if data.failed else ""
        parts.append(f"total {units.fps(rate.mean)} FPS{without}")
        parts += [f"{units.short(rate.env_steps_per_j)} FPS/W"] if rate.env_steps_per_j is not None else []
    parts += [f"{name} {value}" for name, value in data.totals]
    return "  ".join([*(["simulated"] if data.simulated else []), *parts])
