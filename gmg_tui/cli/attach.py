"""`attach`: opens the screen on a session, also for `run` and similar commands, which print their results afterwards."""

from __future__ import annotations

import filecmp
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.model import RunSpec, secrets, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session import ENGINE_LOG, SUMMARY, TUNE
from gmg_tui.session.options import Options

if TYPE_CHECKING:
    from gmg_tui.session.client import Source

_INTERRUPTED = 130
_END_S = 5.0
"""Time for an engine to end after its workers; other clients may keep it alive longer."""
_POLL_S = 0.05


def attach(name: str | None, options: Options, *, readonly: bool) -> int:
    """Open the screen on a running session, or on one that has ended and is named; the exit status. Raises `GmgError`."""
    from gmg_tui import ui

    if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):  # for a page of `serve`
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is for the server, which closes its pages
        session = sessions.find(name, running=True).record.session
        ui.run(
            _connecting(Path(session.spec.socket), session.id, readonly=True),
            **_drawing(options) | {"ascii": options.ascii_only},
            web=True,
        )
        return 0
    sessions.clear_lost(note)
    entry = sessions.find(name, running=name is None)
    if entry.away:
        raise GmgError(entry.remark, 1)
    if not is_terminal():
        ended = f"for what it did: gmg-tui report {entry.name}"
        running = f"to print a log: gmg-tui logs {entry.name} -f"
        raise GmgError(f"attach needs a terminal; {running if entry.state == 'running' else ended}")
    check_terminal(os.environ)
    session = entry.record.session
    if entry.state != "running":
        from gmg_tui.session.ended_session import EndedSession

        ui.run(partial(EndedSession.open, entry.folder, session, loss=entry.remark), **_drawing(options))
        return 0
    status = show(Path(session.spec.socket), options, session_id=session.id, readonly=readonly)
    return 0 if status is None else conclude(session.spec, status)


def is_terminal() -> bool:
    """True if all three standard streams are a terminal: the screen is drawn on standard error and reads standard input."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raise `GmgError` unless the screen can be drawn here; `is_terminal()` must be true."""
    term = environ.get("TERM", "")
    if term in {"", "dumb"}:
        raise GmgError(f"TERM is {term or 'not set'}: the screen cannot be drawn; set TERM, or use --headless")


def draws_utf8(environ: Mapping[str, str], encoding: str) -> bool:
    """True if the terminal takes UTF-8: neither the locale nor the stream names another encoding."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    charset = locale.partition(".")[2].partition("@")[0]
    return all(name.lower().replace("-", "") == "utf8" for name in (charset, encoding) if name)


def show(socket: Path, options: Options, *, session_id: str = "", readonly: bool = False) -> int | None:
    """Open the screen on a session, and print its results if it ended there.

    Args:
        socket: Where the session's engine listens.
        options: How the screen is drawn.
        session_id: The session's id; empty to accept any session.
        readonly: Refuse all that would change the session.

    Returns:
        The session's exit status; None when the user detached from it.

    Raises:
        GmgError: The engine does not answer, or died.
    """
    from gmg_tui import ui

    outcome = ui.run(_connecting(socket, session_id, readonly=readonly), **_drawing(options))
    name = outcome.session.spec.name
    if outcome.how == "detached":
        back = f"{'--readonly ' if readonly else ''}{name}"
        print(f"gmg-tui: session {name} keeps running; return with: gmg-tui attach {back}")
        return None
    if outcome.how == "lost" or outcome.snapshot is None:
        raise GmgError(sessions.parting_text(outcome.session, outcome.reason or "it is gone"), 1)
    from gmg_tui.results.report_text import at_end  # not before the screen: it would wait for this

    await_end(Path(outcome.session.spec.folder))
    print("\n".join(at_end(outcome.session, outcome.snapshot)))
    return _INTERRUPTED if outcome.how == "stopped" else outcome.snapshot.exit_status


def await_end(folder: Path, within_s: float = _END_S) -> bool:
    """Waits until the engine of the session in `folder` has written its files and ended. Returns False if time runs out."""
    deadline = time.monotonic() + within_s
    while sessions.is_locked(folder):  # `flock` cannot be awaited
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def conclude(spec: RunSpec, status: int, best: str | None = None) -> int:
    """Print the results of a sweep that has ended, or how to continue a tuning; the exit status.

    Args:
        spec: The session's.
        status: The session's exit status.
        best: The column to order the table of a sweep by.
    """
    _check_summary(spec)
    if spec.tune is not None:
        if status == _INTERRUPTED:
            note(sessions.resume_hint(spec))
        elif status:
            note(f"no answer; for what was tried: gmg-tui report {spec.name}")
    elif spec.sweep is not None:
        from gmg_tui.results import report as data
        from gmg_tui.results import report_text as text
        from gmg_tui.results import table as tables

        try:
            report = data.load(sessions.find(spec.name, running=False))
            print(text.render(report, best, *tables.output()))
        except GmgError as error:
            note(f"gmg-tui: {error}")
            return status or 1
        if left := sum(not job.state.ended for job in report.jobs):
            note(f"{units.count(left, 'job')} left; {sessions.resume_hint(spec)}")
            return status or 1  # results that a full disk has lost count as not done
    return status


def _check_summary(spec: RunSpec) -> None:
    """Prints a note if the file of `--summary` is missing, or its engine has not ended."""
    folder = Path(spec.folder)
    if spec.summary is None:
        return
    if sessions.is_locked(folder):
        note(f"gmg-tui: --summary {spec.summary} is complete once the engine has ended, which other clients may delay")
        return
    with suppress(OSError):
        if filecmp.cmp(spec.summary, folder / (TUNE if spec.tune is not None else SUMMARY), shallow=False):
            return
    note(f"gmg-tui: --summary {spec.summary} was not written; see {folder / ENGINE_LOG}")


def _connecting(socket: Path, session_id: str, *, readonly: bool) -> Callable[[], Awaitable[Source]]:
    """Connects to a session's engine."""
    from gmg_tui.session.client import EngineClient

    return partial(EngineClient.connect, socket, session_id, readonly=readonly)


def _drawing(options: Options) -> dict[str, Any]:
    if options.show_env and is_terminal():
        secrets.show()
    utf8 = draws_utf8(os.environ, getattr(sys.__stderr__, "encoding", ""))
    return {"theme": options.theme, "ascii": options.ascii_only or not utf8, "mouse": not options.no_mouse}
