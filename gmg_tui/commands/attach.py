"""`attach`: open the screen on a running session, or on one that has ended, read-only."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_terminal, conclude, is_terminal, show, show_ended, show_in_browser
from gmg_tui.commands.messages import note
from gmg_tui.errors import GmgError
from gmg_tui.options import Options
from gmg_tui.session import SessionEntry, recovery


def attach(name: str | None, options: Options, *, readonly: bool) -> int:
    """Open the screen on a running session, or on one that has ended and is named; the exit status. Raises `GmgError`."""
    if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):  # for a page of `serve`
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is for the server, which closes its pages
        show_in_browser(sessions.find(name, running=True).record.session, options)
        return 0
    recovery.clear(note)
    entry = _running() if name is None else sessions.find(name, running=False)
    if entry.away:
        raise GmgError(entry.away_text, 1)
    if not is_terminal():
        ended = f"for what it did: gmg-tui report {entry.name}"
        running = f"to print a log: gmg-tui logs {entry.name} -f"
        raise GmgError(f"attach needs a terminal; {running if entry.state == 'running' else ended}")
    check_terminal(os.environ)
    if entry.state != "running":
        show_ended(entry, options)
        return 0
    session = entry.record.session
    status = show(Path(session.spec.socket), options, session_id=session.id, readonly=readonly)
    return 0 if status is None else conclude(session.spec, status)


def _running() -> SessionEntry:
    """The newest running session. Raises `GmgError`, which names the newest that has ended."""
    try:
        return sessions.find(None, running=True)
    except GmgError as error:
        newest = next((session for session in sessions.listing() if session.state != "running"), None)
        if newest is None:
            raise
        raise GmgError(f"{error}; the newest that has ended: gmg-tui attach {newest.name}", error.exit_code) from error
