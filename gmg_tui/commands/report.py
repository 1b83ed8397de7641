"""`report`: what a session did, from its store."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.files import write_atomic
from gmg_tui.report import table
from gmg_tui.report.account import Account, account, choose_order
from gmg_tui.results import Results
from gmg_tui.session import STORE, Found
from gmg_tui.store.reader import Stored


def report(name: str | None, *, as_json: bool, as_csv: bool, html: str | None, best: str | None) -> int:
    """Print what a session did, or write it as a page; the exit status.

    Args:
        name: The session's; None for the newest.
        as_json: Print what `detailed_results.json` holds.
        as_csv: Print what `summary_results.csv` holds.
        html: A file for the page.
        best: The column by which the table is ordered, as in `SweepSpec.best`.

    Raises:
        GmgError: There is no such session, store or column, or the page cannot be written.
    """
    if as_json + as_csv + (html is not None) > 1:
        raise GmgError("give one of --json, --csv and --html")
    found = sessions.find(name, running=False)
    with Stored(found.folder / STORE) as stored:
        told = account(stored, found.name, now=time.time() if found.state == "running" else None)
        if best is not None:
            choose_order(told.jobs, best)
        if as_json or as_csv:
            _print(told, found, as_json=as_json)
        elif html is not None:
            _write_page(told, stored, found.state, Path(html))
        else:
            _show(told, found, best)
    return 0


def _print(told: Account, found: Found, *, as_json: bool) -> None:
    results = Results(found.folder)
    results.take(told.jobs, [one for attempts in told.attempts.values() for one in attempts])
    sys.stdout.flush()
    sys.stdout.buffer.write(results.detailed() if as_json else results.summary())


def _show(told: Account, found: Found, best: str | None) -> None:
    sweep = found.record.session.spec.sweep
    if best is None and sweep is not None:
        best = sweep.best
    print(table.heading(told, found.state))
    print(table.render(told, best))
    if found.state == "lost":
        print(found.epitaph())


def _write_page(told: Account, stored: Stored, state: str, path: Path) -> None:
    from gmg_tui.report.page import page  # loads the plotting library

    content = page(told, stored, state)
    try:
        write_atomic(path.absolute(), content)
    except OSError as error:
        raise GmgError(f"--html {path}: {error.strerror}", 1) from error
    print(path)
