"""`attach`: open the screen on a session. Other commands use its functions too."""

import filecmp
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.model import RunSpec, secrets, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session.options import Options

_INTERRUPTED = 130
_END_TIMEOUT_S = 5.0
"""Timeout for an engine to exit after its workers; other clients may keep it alive longer."""
_POLL_S = 0.05


SERVED_VARIABLE = "GMG_SERVED_ID"
"""Environment variable with the id of the session that the pages of `serve` show."""


def attach(name: str | None, options: Options, *, readonly: bool) -> int:
    """Opens the screen on a running session or, if named, on one that has ended.

    Returns the exit status. Raises `GmgError`.
    """
    from gmg_tui import ui
    from gmg_tui.session.client import EngineClient

    if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):  # for a page of `serve`
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server closes its pages on ctrl+c
        session = sessions.find(name, running=True).record.session
        served_id = os.environ.get(SERVED_VARIABLE, session.id)  # a later session may have the same name
        connect = partial(EngineClient.connect, Path(session.spec.socket), served_id, readonly=True)
        ui.run(connect, **_screen_options(options) | {"ascii": options.ascii_only}, web=True)
        return 0
    sessions.clear_lost(note)
    entry = sessions.find(name, running=name is None)
    if entry.runs_elsewhere:
        raise GmgError(entry.remark, 1)
    if not is_terminal():
        alternative = f"logs {entry.name} -f" if entry.state == "running" else f"report {entry.name}"
        raise GmgError(f"attach needs a terminal; without one: gmg-tui {alternative}")
    check_terminal(os.environ)
    session = entry.record.session
    if entry.state != "running":
        from gmg_tui.session.ended_session import EndedSession

        ui.run(partial(EndedSession.open, entry.folder, session, loss=entry.remark), **_screen_options(options))
        return 0
    status = show(Path(session.spec.socket), options, session_id=session.id, readonly=readonly)
    return 0 if status is None else conclude(session.spec, status)


def is_terminal() -> bool:
    """True if all standard streams are terminals: the screen draws on standard error and reads standard input."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raises `GmgError` if the terminal cannot draw the screen."""
    term = environ.get("TERM", "")
    if term in {"", "dumb"}:
        raise GmgError(f"TERM is {term or 'not set'}: the screen cannot be drawn; set TERM, or use --headless")


def draws_utf8(environ: Mapping[str, str], encoding: str) -> bool:
    """True unless the locale or the stream names an encoding other than UTF-8."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    charset = locale.partition(".")[2].partition("@")[0]
    return all(name.lower().replace("-", "") == "utf8" for name in (charset, encoding) if name)


def show(socket: Path, options: Options, *, session_id: str = "", readonly: bool = False) -> int | None:
    """Opens the screen on a session. Prints the results if the session ends while the screen is open.

    `session_id` is the expected session's id, empty for any. Returns the exit status; None if the user detached. Raises
    `GmgError` if the engine died.
    """
    from gmg_tui import ui
    from gmg_tui.session.client import EngineClient

    outcome = ui.run(partial(EngineClient.connect, socket, session_id, readonly=readonly), **_screen_options(options))
    name = outcome.session.spec.name
    if outcome.kind == "detached":
        arguments = f"{'--readonly ' if readonly else ''}{name}"
        print(f"gmg-tui: session {name} keeps running; return with: gmg-tui attach {arguments}")
        return None
    if outcome.kind == "lost" or outcome.snapshot is None:
        raise GmgError(sessions.engine_lost_text(outcome.session, outcome.reason or "it is gone"), 1)
    from gmg_tui.results.report_text import render_end  # imported late, so that the screen opens sooner

    await_end(Path(outcome.session.spec.folder))
    print("\n".join(render_end(outcome.session, outcome.snapshot)))
    return _INTERRUPTED if outcome.kind == "stopped" else outcome.snapshot.exit_status


def await_end(folder: Path, within_s: float = _END_TIMEOUT_S) -> bool:
    """Waits until the engine of the session in `folder` has exited. Returns False after the timeout."""
    deadline = time.monotonic() + within_s
    while sessions.is_locked(folder):  # `flock` cannot be awaited
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def conclude(spec: RunSpec, status: int, best: str | None = None) -> int:
    """Prints the results of a sweep, sorted by `best`, or the next command after an unfinished tuning.

    Returns the exit status: `status`, or 1 if it is 0 but results are missing.
    """
    _check_summary(spec)
    if spec.tune is not None:
        if status == _INTERRUPTED:
            note(sessions.resume_hint(spec))
        elif status:
            note(f"the tuning found no answer; for its trials: gmg-tui report {spec.name}")
    elif spec.sweep is not None:
        from gmg_tui.results import report as report_data
        from gmg_tui.results import report_text
        from gmg_tui.results import table as tables

        try:
            report = report_data.load(sessions.find(spec.name, running=False))
            print(report_text.render(report, best, *tables.stdout_format()))
        except GmgError as error:
            note(f"gmg-tui: {error}")
            return status or 1
        if unfinished := sum(not job.state.ended for job in report.jobs):
            note(f"{units.count(unfinished, 'job')} left; {sessions.resume_hint(spec)}")
            return status or 1  # results may be lost on a full disk
    return status


def _check_summary(spec: RunSpec) -> None:
    """Prints a note if the file of `--summary` is missing or incomplete."""
    folder = Path(spec.folder)
    if spec.summary is None:
        return
    if sessions.is_locked(folder):
        note(f"gmg-tui: --summary {spec.summary} will be complete once the other clients have detached")
        return
    original = sessions.SUMMARY if spec.tune is None else sessions.TUNE
    with suppress(OSError):
        if filecmp.cmp(spec.summary, folder / original, shallow=False):
            return
    note(f"gmg-tui: --summary {spec.summary} was not written; see {folder / sessions.ENGINE_LOG}")


def _screen_options(options: Options) -> dict[str, Any]:
    """Returns the keyword arguments for `ui.run`; unmasks secrets if `--show-env` was given on a terminal."""
    if options.show_env and is_terminal():
        secrets.disable_masking()
    utf8 = draws_utf8(os.environ, getattr(sys.__stderr__, "encoding", ""))
    return {"theme": options.theme, "ascii": options.ascii_only or not utf8, "mouse": not options.no_mouse}
