"""`attach`: open the screen on a running session."""

from __future__ import annotations

import os
from pathlib import Path

from gmg_tui import recovery, shares
from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_terminal, check_theme, is_terminal, show
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError


def attach(name: str | None, *, readonly: bool, theme: str | None, ascii_only: bool, mouse: bool, confirm: bool) -> int:
    """Open the screen on a running session; the exit status. Raises `GmgError`."""
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
    found = sessions.find(name, running=True)
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
