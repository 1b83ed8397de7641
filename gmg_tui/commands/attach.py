"""`attach`: open the screen on a running session, or look back on one that has ended."""

from __future__ import annotations

import os
from pathlib import Path

from gmg_tui import recovery, shares
from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_terminal, check_theme, is_terminal, look_back, show
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.session import Found


def attach(name: str | None, *, readonly: bool, theme: str | None, ascii_only: bool, mouse: bool, confirm: bool) -> int:
    """Open the screen on a running session, or on what is kept of one that is named; the exit status. Raises `GmgError`."""
    check_theme(theme)
    if name is not None and "/" in name:
        address = shares.parse(name)
        shares.check(address)
        if not is_terminal():
            raise GmgError("attach needs a terminal")
        check_terminal(os.environ)
        return show(
            address.path,
            theme=theme,
            ascii_only=ascii_only,
            mouse=mouse,
            confirm=confirm,
            settle=lambda: None,
            readonly=True,
            address=name,
        ).status
    recovery.clear(tell)
    if name is not None:
        named = sessions.find(name, running=False)
        if named.state != "running":
            return _look_back(named, theme=theme, ascii_only=ascii_only, mouse=mouse)
    found = _running(name)
    if not is_terminal():
        raise GmgError(f"attach needs a terminal; to print a log: gmg-tui logs {found.name} SLOT -f")
    check_terminal(os.environ)
    session = found.record.session
    spec = session.spec
    ended: list[bool] = []
    shown = show(
        Path(spec.socket),
        session_id=session.id,
        theme=theme,
        ascii_only=ascii_only,
        mouse=mouse,
        confirm=confirm,
        settle=lambda: ended.append(True),
        readonly=readonly,
    )
    if shown.after is not None:
        from gmg_tui.commands.options import RunOptions
        from gmg_tui.commands.run import follow_up

        return follow_up(
            shown, RunOptions(theme=theme, ascii_only=ascii_only, no_mouse=not mouse, no_confirm=not confirm)
        )
    if not ended or spec.sweep is None or spec.tune is not None:
        return shown.status
    from gmg_tui.commands.sweep import conclude

    return conclude(spec, shown.status)


def _running(name: str | None) -> Found:
    """The running session of that name, or the newest. Raises `GmgError`, which names one to look back on."""
    try:
        return sessions.find(name, running=True)
    except GmgError as error:
        newest = next((one for one in sessions.listing() if one.state != "running"), None)
        if name is not None or newest is None:
            raise
        raise GmgError(
            f"{error}; to look back on {newest.name}: gmg-tui attach {newest.name}", error.exit_code
        ) from error


def _look_back(found: Found, *, theme: str | None, ascii_only: bool, mouse: bool) -> int:
    """Open the screen on what is kept of a session that has ended or was lost."""
    if not is_terminal():
        raise GmgError(f"attach needs a terminal; to tell what it did: gmg-tui report {found.name}")
    check_terminal(os.environ)
    look_back(found, theme=theme, ascii_only=ascii_only, mouse=mouse)
    return 0
