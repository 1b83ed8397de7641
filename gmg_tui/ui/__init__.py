"""The terminal interface: a client that draws snapshots and sends commands.

This module is light: Textual is imported when the interface starts, not when the command line is read.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from gmg_tui.ui.view import Outcome

__all__ = ["Outcome", "load", "run", "show_ended"]

_SWITCHES = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0"}
"""Read by Textual when it is imported: nothing moves by itself, and scrolling is by whole rows."""
_GARBAGE = 20_000
"""Objects before the collector looks for garbage. A redraw makes thousands, nearly all of which go by themselves."""


def load() -> None:
    """Import the interface, which can be done while the engine starts."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)
    # None of what is imported is garbage; to look for it takes a twentieth of the time, now and ever after.
    gc.disable()
    try:
        importlib.import_module("gmg_tui.ui.app")
        importlib.import_module("gmg_tui.client")
    finally:
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        gc.enable()


def run(
    socket: Path,
    *,
    session_id: str = "",
    theme: str | None = None,
    ascii: bool = False,  # noqa: A002
    mouse: bool = True,
    readonly: bool = False,
    web: bool = False,
) -> Outcome:
    """Show the session whose engine listens at `socket`, until the user leaves.

    Args:
        socket: The engine's socket.
        session_id: The session's, where it is known.
        theme: One of `options.THEMES`; None for the first.
        ascii: Whether only ASCII characters may be drawn.
        mouse: Whether the terminal should report the mouse.
        readonly: Whether only to look.
        web: Whether a browser draws it (`TEXTUAL_DRIVER` says how); there is no terminal then.

    Raises:
        GmgError: There is no terminal, no engine answers, or the interface failed.
    """

    async def opened() -> Source:
        from gmg_tui.client import EngineClient

        return await EngineClient.connect(socket, session_id, readonly=readonly)

    return asyncio.run(_run(opened, theme, ascii_only=ascii, mouse=mouse, web=web))


def show_ended(
    folder: Path,
    session: Session,
    *,
    loss: str = "",
    theme: str | None = None,
    ascii: bool = False,  # noqa: A002
    mouse: bool = True,
) -> Outcome:
    """Show the last snapshot and the logs of a session that has ended, read-only, until the user leaves.

    Args:
        folder: The session's folder.
        session: The session.
        loss: How the session was lost, in one line; empty if it ended in order.
        theme: As in `run`.
        ascii: As in `run`.
        mouse: As in `run`.

    Raises:
        GmgError: There is no terminal, no snapshot was recorded, it cannot be read, or the interface failed.
    """

    async def opened() -> Source:
        from gmg_tui.ended import EndedSession

        return await EndedSession.open(folder, session, loss=loss)

    return asyncio.run(_run(opened, theme, ascii_only=ascii, mouse=mouse, web=False))


async def _run(
    opened: Callable[[], Awaitable[Source]],
    theme: str | None,
    *,
    ascii_only: bool,
    mouse: bool,
    web: bool,
) -> Outcome:
    from gmg_tui.ui import watchdog
    from gmg_tui.ui.app import GmgApp

    engine = await opened()
    try:
        app = GmgApp(engine, theme=theme, ascii_only=ascii_only, web=web)
        with watchdog.watch(lambda: app.finish("looked" if engine.ended else "detached"), terminal=not web):
            outcome = await app.run_async(mouse=mouse)
        if web and outcome is None:  # its page was closed
            outcome = Outcome("detached", app.view.session, app.view.snapshot)
    finally:
        await engine.close()
        if not web:
            watchdog.drain()
    if outcome is None:
        name = engine.welcome.session.spec.name
        kept = "" if engine.ended else f"; the workers keep running: `gmg-tui attach {name}`"
        raise GmgError(f"the interface failed{kept}", 1)
    return outcome
