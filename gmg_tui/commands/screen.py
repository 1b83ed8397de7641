"""The terminal before the screen is opened on it, and what stays on it afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError

MIN_COLUMNS = 20
MIN_ROWS = 5


def is_terminal() -> bool:
    """Whether all three standard streams are a terminal: the screen is drawn on standard error and reads its input."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raise `GmgError` unless a screen can be drawn here; is_terminal() must be true."""
    term = environ.get("TERM", "")
    if term in {"", "dumb"}:
        raise GmgError(f"TERM is {term or 'not set'}: no screen can be drawn; set TERM, or use --headless")
    size = os.get_terminal_size(sys.stdout.fileno())
    if size.columns < MIN_COLUMNS or size.lines < MIN_ROWS:
        raise GmgError(
            f"the terminal is {size.columns} by {size.lines}: no screen fits on less than {MIN_COLUMNS} by {MIN_ROWS}; "
            "make it larger, or use --headless"
        )


def check_theme(theme: str | None) -> None:
    """Raise `GmgError` unless the screen has a theme of that name, or none is asked for."""
    if theme is None:
        return
    from gmg_tui.ui.themes import NAMES

    if theme not in NAMES:
        raise GmgError(f"--theme {theme}: there are {', '.join(NAMES)}")


def show(socket: Path, *, theme: str | None, ascii_only: bool, mouse: bool, settle: Callable[[], None]) -> int:
    """Open the screen on a session, and print what it came to when it ended there; the exit status.

    Args:
        socket: Where the session's engine listens.
        theme: The name of a theme; None leaves the choice to the screen.
        ascii_only: Draw with ASCII signs.
        mouse: Take the mouse.
        settle: Called after the session has ended, before anything is printed.

    Raises:
        GmgError: The engine does not answer, or was lost on the way.
    """
    from gmg_tui import ui

    outcome = ui.run(socket, theme=theme, ascii=ascii_only, mouse=mouse)
    name = outcome.session.spec.name
    if outcome.how == "detached":
        print(f"gmg-tui: session {name} goes on; come back with: gmg-tui attach {name}")
        return 0
    if outcome.how == "lost" or outcome.snapshot is None:
        log = Path(outcome.session.spec.folder) / sessions.ENGINE_LOG
        raise GmgError(f"the engine of session {name} was lost: {outcome.reason or 'it is gone'}; see {log}", 1)
    from gmg_tui.headless.table import exit_status, final  # not before the screen: it would wait for this

    settle()
    print("\n".join(final(outcome.session, outcome.snapshot)))
    return exit_status(outcome.snapshot, interrupted=outcome.how == "stopped")
