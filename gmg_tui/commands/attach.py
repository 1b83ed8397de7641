"""`attach`: come back to a running session."""

from __future__ import annotations

import os
from pathlib import Path

from gmg_tui import lost
from gmg_tui import session as sessions
from gmg_tui.commands.screen import check_terminal, check_theme, is_terminal, show
from gmg_tui.commands.tell import tell
from gmg_tui.errors import GmgError


def attach(name: str | None, *, theme: str | None, ascii_only: bool, mouse: bool) -> int:
    """Open the screen on a running session; the exit status. Raises `GmgError`."""
    check_theme(theme)
    lost.clear(tell)
    found = sessions.find(name, running=True)
    if not is_terminal():
        raise GmgError(f"attach needs a terminal; a log as text: gmg-tui logs {found.name} SLOT -f")
    check_terminal(os.environ)
    spec = found.record.session.spec
    ended: list[bool] = []
    status = show(Path(spec.socket), theme=theme, ascii_only=ascii_only, mouse=mouse, settle=lambda: ended.append(True))
    if not ended or spec.sweep is None:
        return status
    from gmg_tui.commands.sweep import conclude

    return conclude(spec, status)
