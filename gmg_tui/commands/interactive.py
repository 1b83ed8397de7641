"""Checks the terminal, opens the screen on it, and prints the results afterwards."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.model import Session, Tunable
from gmg_tui.session import Found

MIN_COLUMNS = 20
MIN_ROWS = 5
_UTF8 = re.compile(r"utf-?8", re.IGNORECASE)


class Shown(NamedTuple):
    """How a session was left that was on the screen."""

    status: int
    """The exit status."""
    session: Session
    after: int | Tunable | None = None
    """What the user wants in its place: a plain run with this value that it has found, or the tuning of a number."""
    slots: tuple[str, ...] = ()
    """The names of the slots that were tuned on."""


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


def speaks_utf8(environ: Mapping[str, str], written: str, *, coerced: bool) -> bool:
    """Whether the terminal's encoding is UTF-8, as far as anything names one.

    Args:
        environ: The environment with the locale.
        written: The encoding of what the screen is drawn on.
        coerced: Whether Python took UTF-8 because the locale is not installed, and set LC_CTYPE to say so (PEP 538).
    """
    set_by_python = {"LC_CTYPE": "C.UTF-8"} if coerced else {}
    names = (
        name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name, "") not in {"", set_by_python.get(name)}
    )
    locale = environ.get(next(names, ""), "")
    named = locale.partition(".")[2].partition("@")[0]
    return all(_UTF8.fullmatch(encoding) for encoding in (named, written) if encoding)


def check_theme(theme: str | None) -> None:
    """Raise `GmgError` unless the screen has a theme of that name, or none is asked for."""
    if theme is None:
        return
    from gmg_tui.ui.drawing.themes import NAMES

    if theme not in NAMES:
        raise GmgError(f"--theme {theme}: choose one of {', '.join(NAMES)}")


def show(
    socket: Path,
    *,
    session_id: str = "",
    theme: str | None,
    ascii_only: bool,
    mouse: bool,
    confirm: bool,
    settle: Callable[[], None],
    readonly: bool = False,
    address: str = "",
) -> Shown:
    """Open the screen on a session, and print its results if it ended there.

    Args:
        socket: Where the session's engine listens.
        session_id: The session's, where it is known.
        theme: The name of a theme; None leaves the choice to the screen.
        ascii_only: Draw with ASCII signs even if the terminal's encoding is UTF-8.
        mouse: Use the mouse.
        confirm: Ask before more than a minute of running is lost.
        readonly: Only look.
        address: What `attach` is given to return, where that is not the session's name.
        settle: Called after the session has ended, before anything is printed.

    Raises:
        GmgError: The engine does not answer, or died.
    """
    from gmg_tui import ui

    outcome = ui.run(
        socket,
        session_id=session_id,
        theme=theme,
        ascii=ascii_only or not _draws_utf8(),
        mouse=mouse,
        confirm=confirm,
        readonly=readonly,
    )
    name = outcome.session.spec.name
    if outcome.how == "detached":
        back = f"{'--readonly ' if readonly and not address else ''}{address or name}"
        print(f"gmg-tui: session {name} keeps running; return with: gmg-tui attach {back}")
        return Shown(0, outcome.session)
    if address and outcome.how == "lost":
        raise GmgError(f"{address}: {outcome.reason}", 1)
    if outcome.how == "lost" or outcome.snapshot is None:
        raise GmgError(sessions.parting_text(outcome.session, outcome.reason or "it is gone"), 1)
    from gmg_tui.headless.table import exit_status, final  # not before the screen: it would wait for this

    settle()
    print("\n".join(final(outcome.session, outcome.snapshot)))
    status = exit_status(outcome.snapshot, interrupted=outcome.how == "stopped")
    tuning = outcome.snapshot.tuning
    return Shown(status, outcome.session, outcome.after, tuning.slots if tuning is not None else ())


def look_back(found: Found, *, theme: str | None, ascii_only: bool, mouse: bool) -> None:
    """Open the screen on what is kept of a session; the options are those of `show`.

    Raises:
        GmgError: Nothing is kept, or it cannot be read.
    """
    from gmg_tui import ui

    ui.look_back(
        found.folder,
        found.record.session,
        away=found.away,
        loss=found.loss_text() if found.state == "lost" else "",
        theme=theme,
        ascii=ascii_only or not _draws_utf8(),
        mouse=mouse,
    )


def _draws_utf8() -> bool:
    """Whether the terminal that the screen is drawn on takes UTF-8."""
    written = getattr(sys.__stderr__, "encoding", "")
    return speaks_utf8(os.environ, written, coerced=bool(sys.flags.utf8_mode))
