"""Checks the terminal, opens the screen on it, and prints the results afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from gmg_tui.options import Options
from gmg_tui.session import SessionEntry

MIN_COLUMNS = 20
MIN_ROWS = 5


def is_terminal() -> bool:
    """Whether all three standard streams are a terminal: the screen is drawn on standard error and reads its input."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raise `GmgError` unless the screen can be drawn here; `is_terminal()` must be true."""
    term = environ.get("TERM", "")
    if term in {"", "dumb"}:
        raise GmgError(f"TERM is {term or 'not set'}: the screen cannot be drawn; set TERM, or use --headless")
    size = os.get_terminal_size(sys.stdout.fileno())
    if size.columns < MIN_COLUMNS or size.lines < MIN_ROWS:
        raise GmgError(
            f"the terminal is {size.columns} by {size.lines}: the screen needs at least {MIN_COLUMNS} by {MIN_ROWS}; "
            "enlarge it, or use --headless"
        )


def draws_utf8(environ: Mapping[str, str], encoding: str) -> bool:
    """Whether the terminal takes UTF-8: neither the locale nor the stream names another encoding."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    named = locale.partition(".")[2].partition("@")[0]
    return all(name.lower().replace("-", "") == "utf8" for name in (named, encoding) if name)


def check_theme(theme: str | None) -> None:
    """Raise `GmgError` unless the screen has a theme of that name, or none is asked for."""
    if theme is None:
        return
    from gmg_tui.ui.drawing.themes import NAMES

    if theme not in NAMES:
        raise GmgError(f"--theme {theme}: choose one of {', '.join(NAMES)}")


def show(
    socket: Path, options: Options, settle: Callable[[], None], *, session_id: str = "", readonly: bool = False
) -> int:
    """Open the screen on a session, and print its results if it ended there.

    Args:
        socket: Where the session's engine listens.
        options: How the screen is drawn.
        settle: Called after the session has ended, before anything is printed.
        session_id: The session's id; None to accept any session.
        readonly: Refuse all that would change the session.

    Returns:
        The exit status.

    Raises:
        GmgError: The engine does not answer, or died.
    """
    from gmg_tui import ui

    outcome = ui.run(
        socket, session_id=session_id, confirm=not options.no_confirm, readonly=readonly, **_drawing(options)
    )
    name = outcome.session.spec.name
    if outcome.how == "detached":
        back = f"{'--readonly ' if readonly else ''}{name}"
        print(f"gmg-tui: session {name} keeps running; return with: gmg-tui attach {back}")
        return 0
    if outcome.how == "lost" or outcome.snapshot is None:
        raise GmgError(sessions.parting_text(outcome.session, outcome.reason or "it is gone"), 1)
    from gmg_tui.headless.table import exit_status, final  # not before the screen: it would wait for this

    settle()
    print("\n".join(final(outcome.session, outcome.snapshot)))
    return exit_status(outcome.snapshot, interrupted=outcome.how == "stopped")


def show_ended(entry: SessionEntry, options: Options) -> None:
    """Open the screen on a session that has ended.

    Raises:
        GmgError: No snapshot was recorded, or it cannot be read.
    """
    from gmg_tui import ui

    loss = entry.loss_text() if entry.state == "lost" else ""
    ui.show_ended(entry.folder, entry.record.session, loss=loss, **_drawing(options))


def show_in_browser(session: Session, options: Options) -> None:
    """Open the screen of a running session, read-only, on the pipes of `serve`. Raises `GmgError`."""
    from gmg_tui import ui

    drawing = {**_drawing(options), "ascii": options.ascii_only}
    ui.run(Path(session.spec.socket), session_id=session.id, readonly=True, web=True, **drawing)


def _drawing(options: Options) -> dict[str, Any]:
    utf8 = draws_utf8(os.environ, getattr(sys.__stderr__, "encoding", ""))
    return {"theme": options.theme, "ascii": options.ascii_only or not utf8, "mouse": not options.no_mouse}
