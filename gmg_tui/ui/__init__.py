"""The terminal interface: a client that draws snapshots and sends commands.

This module is light: Textual is imported when the interface starts, not when the command line is read.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from pathlib import Path
from typing import NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.model import Session, Snapshot

_SWITCHES = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0"}
"""Read by Textual when it is imported: nothing moves by itself, and scrolling is by whole rows."""


class Outcome(NamedTuple):
    """How the interface ended, and the session as it was then."""

    how: str
    """`ended`: all workers had; `stopped`: they were stopped from here; `detached`: they go on; `lost`: the engine is
    gone."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """Why the engine was lost, in one line."""


def load() -> None:
    """Import what the interface draws with, so that this can be done while the engine starts."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)
    # Nothing of what is being imported is garbage; to look for it takes a twentieth of the time, now and ever after.
    gc.disable()
    try:
        importlib.import_module("gmg_tui.ui.app")
        importlib.import_module("gmg_tui.client")
    finally:
        gc.freeze()
        gc.enable()


def run(socket: Path, *, theme: str | None = None, ascii: bool = False, mouse: bool = True) -> Outcome:  # noqa: A002
    """Show the session whose engine listens at `socket`, until a person leaves.

    Args:
        socket: The engine's socket.
        theme: A name of `themes.NAMES`; None for the default.
        ascii: Whether only ASCII characters may be drawn.
        mouse: Whether the terminal is to report the mouse.

    Raises:
        GmgError: There is no terminal, no engine answers, or the interface failed.
    """
    from gmg_tui.ui import lifeline

    lifeline.check_terminal()
    load()
    return asyncio.run(_run(socket, theme, ascii_only=ascii, mouse=mouse))


async def _run(socket: Path, theme: str | None, *, ascii_only: bool, mouse: bool) -> Outcome:
    from gmg_tui.client import EngineClient
    from gmg_tui.ui import lifeline
    from gmg_tui.ui.app import GmgApp

    engine = await EngineClient.connect(socket)
    try:
        app = GmgApp(engine, theme=theme, ascii_only=ascii_only)
        with lifeline.watch(lambda: app.finish("detached")):
            outcome = await app.run_async(mouse=mouse)
    finally:
        await engine.close()
    if outcome is None:
        name = engine.welcome.session.spec.name
        raise GmgError(f"the interface failed; the workers go on: `gmg-tui attach {name}`", 1)
    return outcome
