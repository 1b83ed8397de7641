"""`attach`: open the screen on a running session, or on one that has ended, read-only."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_terminal, check_theme, is_terminal, show, show_ended, show_in_browser
from gmg_tui.commands.messages import note
from gmg_tui.commands.prestart import END_S
from gmg_tui.errors import GmgError
from gmg_tui.options import Options
from gmg_tui.session import SessionEntry, recovery


def attach(name: str | None, options: Options, *, readonly: bool) -> int:
    """Open the screen on a running session, or on one that has ended and is named; the exit status. Raises `GmgError`."""
    if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):  # for a page of `serve`
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is for the server, which closes its pages
        show_in_browser(sessions.find(name, running=True).record.session, options)
        return 0
    check_theme(options.theme)
    recovery.clear(note)
    entry = _running() if name is None else sessions.find(name, running=False)
    if entry.state == "running" and entry.away:
        raise GmgError(entry.away_text("attach"), 1)
    if not is_terminal():
        ended = f"for what it did: gmg-tui report {entry.name}"
        running = f"to print a log: gmg-tui logs {entry.name} -f"
        raise GmgError(f"attach needs a terminal; {running if entry.state == 'running' else ended}")
    check_terminal(os.environ)
    if entry.state != "running":
        show_ended(entry, options)
        return 0
    session = entry.record.session
    spec = session.spec
    ended_here = False

    def settle() -> None:
        nonlocal ended_here
        ended_here = True
        _await_end(session.engine_pid)

    status = show(Path(spec.socket), options, settle, session_id=session.id, readonly=readonly)
    if not ended_here or spec.sweep is None or spec.tune is not None:
        return status
    from gmg_tui.commands.sweep import conclude

    return conclude(spec, status)


def _await_end(engine_pid: int) -> None:
    """Wait until the engine has written its files and ended, unless another client keeps it alive."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(engine_pid)
        try:
            select.select([descriptor], [], [], END_S)
        finally:
            os.close(descriptor)


def _running() -> SessionEntry:
    """The newest running session. Raises `GmgError`, which names the newest that has ended."""
    try:
        return sessions.find(None, running=True)
    except GmgError as error:
        newest = next((session for session in sessions.listing() if session.state != "running"), None)
        if newest is None:
            raise
        raise GmgError(f"{error}; the newest that has ended: gmg-tui attach {newest.name}", error.exit_code) from error
