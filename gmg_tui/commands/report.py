"""`report`: print what a session did, or how several compare, or write it as a page."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.files import write_where_asked
from gmg_tui.model import Tuning
from gmg_tui.report import health, table
from gmg_tui.report.data import ReportData, choose_order, collect
from gmg_tui.report.tuning import text_lines
from gmg_tui.results import Results
from gmg_tui.results.tuning import TUNE
from gmg_tui.results.tuning import read as read_tuning
from gmg_tui.session import STORE, Found
from gmg_tui.store.reader import Stored, open_store


def report(names: Sequence[str], *, as_json: bool, as_csv: bool, html: str | None, best: str | None) -> int:
    """Print what a session did, or how several compare, or write it as a page; the exit status.

    Args:
        names: The session's, or those of several; none for the newest.
        as_json: Print the content of `detailed_results.json`, and what has happened to the health of the GPUs.
        as_csv: Print the content of `summary_results.csv`.
        html: The file to write the page to.
        best: The column to order the table by, as in `SweepSpec.best`.

    Raises:
        GmgError: There is no such session, store or column, or the page cannot be written.
    """
    if as_json + as_csv + (html is not None) > 1:
        raise GmgError("--json, --csv and --html are mutually exclusive; give one of them")
    if len(names) > 1:
        if best is not None:
            raise GmgError("--best orders the jobs of one session; give one name")
        _compare(names, as_json=as_json, as_csv=as_csv, html=html)
        return 0
    found = sessions.find(names[0] if names else None, running=False)
    with open_store(found.folder / STORE, away=found.away) as stored:
        data = _collect(stored, found)
        if best is not None:
            choose_order(data.jobs, best)
        tuning = None if as_json or as_csv else _tuning(found.folder)
        if as_json or as_csv:
            _print(data, found, as_json=as_json)
        elif html is not None:
            _write_page(data, stored, found.state, tuning, Path(html))
        else:
            _show(data, found, tuning, best)
    return 0


def _collect(stored: Stored, found: Found) -> ReportData:
    now = found.written if found.away else time.time()  # another machine's is known up to its last word
    return collect(stored, found.name, now=now if found.state == "running" else None)


def _compare(names: Sequence[str], *, as_json: bool, as_csv: bool, html: str | None) -> None:
    from gmg_tui.report.compare import files, text
    from gmg_tui.report.compare.comparison import compare
    from gmg_tui.report.compare.settings import settings
    from gmg_tui.report.compare.sides import side

    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise GmgError(f"{twice} is named twice; give the names of different sessions")
    sides = []
    for found in [sessions.find(name, running=False) for name in names]:
        with open_store(found.folder / STORE, away=found.away) as stored:
            data = _collect(stored, found)
        sides.append(side(data, found.state, found.folder, settings(data)))
    made = compare(sides)
    if as_json or as_csv:
        sys.stdout.flush()
        sys.stdout.buffer.writelines([files.as_json(made)] if as_json else files.as_csv(made))
    elif html is not None:
        from gmg_tui.report.compare.page import page

        _write(page(made), Path(html))
    else:
        print(text.render(made))


def _print(data: ReportData, found: Found, *, as_json: bool) -> None:
    results = Results(found.folder)
    results.take(data.jobs, [one for attempts in data.attempts.values() for one in attempts])
    sys.stdout.flush()
    sys.stdout.buffer.writelines(results.detailed(health=health.as_json(data)) if as_json else results.summary())


def _tuning(folder: Path) -> Tuning | None:
    """What was tuned; None where nothing was, or its file is damaged, which is told."""
    try:
        recorded = read_tuning(folder)
    except GmgError as error:
        tell(f"gmg-tui: {error}")
        return None
    return None if recorded is None else recorded.tuning


def _show(data: ReportData, found: Found, tuning: Tuning | None, best: str | None) -> None:
    print(table.heading(data, found.state))
    if tuning is not None and best is None:
        width, colour = table.output()
        print("\n".join(text_lines(tuning, width, colour=colour)))
        print(f"tuning: {found.folder / TUNE}")
    else:
        sweep = found.record.session.spec.sweep
        print(table.render(data, sweep.best if best is None and sweep is not None else best))
    if said := found.loss_text() if found.state == "lost" else found.away_text("attach"):
        print(said)


def _write_page(data: ReportData, stored: Stored, state: str, tuning: Tuning | None, path: Path) -> None:
    from gmg_tui.report.page import page

    content, has_charts = page(data, stored, state, tuning)
    _write(content, path)
    if not has_charts:
        tell("gmg-tui: the page has no charts: plotly is not installed; get it with: pip install 'gmg-tui[report]'")


def _write(content: bytes, path: Path) -> None:
    try:
        is_file = write_where_asked(path.absolute(), content)
    except OSError as error:
        raise GmgError(f"--html {path}: {error.strerror}", 1) from error
    if is_file:
        print(path)
