"""`report`: print or export the results of a session, or a comparison of several."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note, print_data, print_json
from gmg_tui.machine.files import write_atomic
from gmg_tui.model.errors import GmgError, join_words
from gmg_tui.results import bundle as archive
from gmg_tui.results import column as columns
from gmg_tui.results import json_csv_export, metric_curves, report_text
from gmg_tui.results import report as report_data
from gmg_tui.results import table as tables
from gmg_tui.results.comparison import Comparison, load
from gmg_tui.results.report import ReportData
from gmg_tui.scripts import interpreter
from gmg_tui.session.store.reader import open_store

RAW, METRICS = "raw", "metrics"
"""Values of `--csv`."""


def report(names: Sequence[str], *, best: str | None, fail_below: float | None, **exports: Any) -> int:
    """Prints or exports the results of sessions, by default of the newest; returns the exit status. Raises `GmgError`.

    `exports` are the options for formats other than text, such as `csv`; at most one may be given.
    """
    chosen = [(export, value) for export, value in exports.items() if value is not None and value is not False]
    if len(chosen) > 1:
        raise GmgError("--json, --csv, --html and --bundle are mutually exclusive; give one of them")
    export, value = chosen[0] if chosen else ("text", None)
    if export == "html" and find_spec("plotly") is None:
        install = interpreter.install_command(sys.executable, "plotly")
        raise GmgError(f"--html needs plotly; install it with: {install}", 1)
    if len(names) > 1:
        if best is not None or export == "bundle":
            raise GmgError(f"{'--best' if best is not None else '--bundle'} is for one session; give one name")
        comparison = _compare(names, export, value)
        if fail_below is None or not (slower := comparison.find_slower(fail_below)):
            return 0
        note(f"gmg-tui: {join_words(slower)}: more than {fail_below:g} % slower than {names[0]}")
        return 1
    if fail_below is not None:
        raise GmgError("--fail-below compares sessions; give two names")
    entry = sessions.find(names[0] if names else None, running=False)
    if export == "bundle":
        path = f"gmg-tui-{entry.name}.zip"
        if os.path.islink(path):  # another user may have predicted the name
            raise GmgError(f"--bundle: {path} is a link; remove it, or change to another folder", 1)
        _write_file(archive.bundle(entry), path, "--bundle")
    else:
        _print_session(entry, export, value, best)
    return 0


def _print_session(entry: sessions.SessionEntry, export: str, value: Any, best: str | None) -> None:
    """Prints or exports the results of one session."""
    with open_store(entry.folder / sessions.STORE, copied=True) as stored:
        collected = report_data.collect(entry, stored)
        jobs = collected.jobs if best is None else report_data.sort_jobs(collected.jobs, best)[0]
        if export == "as_json":
            print_data(json_csv_export.detailed_json(jobs, stored))
        elif export == "csv" and value == METRICS:
            print_data(metric_curves.points_csv(jobs, stored))
        elif export == "csv":
            print_data(json_csv_export.table_csv(jobs, raw=value == RAW))
        elif export == "html":
            from gmg_tui.results import report_page

            _write_file(report_page.render_session(collected, stored, best), value)
        else:
            _print_text(collected, entry, best)


def _compare(names: Sequence[str], export: str, value: Any) -> Comparison:
    """Prints or exports the comparison of sessions, and returns it. Raises `GmgError`."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise GmgError(f"{repeated} is named twice; give the names of different sessions")
    comparison = Comparison(*zip(*[load(sessions.find(name, running=False)) for name in names], strict=True))
    if export == "as_json":
        print_json(comparison.as_json())
    elif export == "csv":
        print_data(columns.as_csv(*comparison.tables[1], raw=value == RAW))
    elif export == "html":
        from gmg_tui.results import report_page

        _write_file(report_page.render_comparison(comparison), value)
    else:
        print(comparison.render(*tables.stdout_format()))
    return comparison


def _print_text(report: ReportData, entry: sessions.SessionEntry, best: str | None) -> None:
    width, colour = tables.stdout_format()
    if report.tuning is not None and best is None:
        lines = report_text.render_trials(report.tuning, width, colour=colour)
        if os.path.exists(tune_file := entry.folder / sessions.TUNE):  # may be missing in a lost session
            lines.append(f"tuning: {tune_file}")
    else:
        lines = [report_text.render(report, best, width, colour)]
    print("\n".join([report.heading, *lines, *filter(None, [entry.remark])]))


def _write_file(content: bytes, path: str, option: str = "--html") -> None:
    try:
        write_atomic(Path(path), content)
    except OSError as error:
        raise GmgError(f"{option} {path}: {error.strerror}", 1) from error
    print(path)
