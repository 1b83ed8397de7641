"""The terminal interface: a client that draws snapshots and sends commands.

Importing this module is cheap: only `load` and `run` import Textual, so the command line is parsed without it.
"""

import asyncio
import gc
import importlib
import os
from collections.abc import Awaitable, Callable

from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import Source
from gmg_tui.ui.outcome import Outcome

__all__ = ["Outcome", "load", "run"]

_TEXTUAL_ENV = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0"}
"""Variables that Textual reads on import: no animations, and scrolling by whole rows."""
_WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
_DEVELOPERS_ENV = ("TEXTUAL", "TEXTUAL_DEBUG", "TEXTUAL_LOG", "TEXTUAL_PRESS", "TEXTUAL_SHOW_RETURN")
_DEVELOPERS_PREFIXES = ("TEXTUAL_SCREENSHOT", "TEXTUAL_DEVTOOLS")
"""Textual's variables for developers press keys, write files and send logs."""
_GC_THRESHOLD = 20_000
"""Net allocations before a garbage collection: a redraw makes thousands, nearly all freed by reference counting."""


def load() -> None:
    """Imports the interface, so that `run` starts sooner, and tunes the garbage collector."""
    _set_environment()
    # Imports leave no garbage: do not collect now and, with `freeze`, exclude these objects later.
    gc.disable()
    try:
        importlib.import_module("gmg_tui.ui.app")
        importlib.import_module("gmg_tui.session.client")
    finally:
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        gc.enable()


def _set_environment() -> None:
    """Removes what `sudo -E` or `su` may have kept of another user's variables, or of another program's development."""
    for name in [*os.environ]:
        is_class = name == "TEXTUAL_DRIVER" and os.environ[name] != _WEB_DRIVER
        if name in _DEVELOPERS_ENV or name.startswith(_DEVELOPERS_PREFIXES) or is_class:
            del os.environ[name]
    for name, value in _TEXTUAL_ENV.items():
        os.environ.setdefault(name, value)


def run(
    connect: Callable[[], Awaitable[Source]],
    *,
    theme: str | None = None,
    ascii: bool = False,  # noqa: A002
    mouse: bool = True,
    web: bool = False,
) -> Outcome:
    """Shows a session until the user leaves.

    Args:
        connect: Returns a connection to the session's engine, or the records of an ended session.
        theme: One of `themes.names()`; None for the first.
        ascii: True to draw only ASCII characters.
        mouse: True to receive mouse events from the terminal.
        web: True to draw in a browser instead of a terminal, with the driver in `TEXTUAL_DRIVER`.

    Raises:
        GmgError: The session cannot be opened, or the interface failed.
    """
    _set_environment()
    return asyncio.run(_run(connect, theme, ascii_only=ascii, mouse=mouse, web=web))


async def _run(
    connect: Callable[[], Awaitable[Source]], theme: str | None, *, ascii_only: bool, mouse: bool, web: bool
) -> Outcome:
    from gmg_tui.ui import terminal
    from gmg_tui.ui.app import GmgApp

    engine = await connect()
    try:
        app = GmgApp(engine, theme=theme, ascii_only=ascii_only, web=web)
        with terminal.watch(lambda: app.finish("viewed" if engine.ended else "detached"), terminal=not web):
            outcome = await app.run_async(mouse=mouse)
        if web and outcome is None:  # the browser has closed the page
            outcome = Outcome("detached", app.view.session, app.view.snapshot)
    finally:
        await engine.close()
        if not web:
            terminal.drop_keys()
    task = asyncio.current_task()
    if outcome is None and task is not None and task.cancelling():  # ctrl+c before the first frame
        raise asyncio.CancelledError
    if outcome is None:
        name = engine.welcome.session.spec.name
        hint = "" if engine.ended else f"; the workers keep running: `gmg-tui attach {name}`"
        raise GmgError(f"the interface failed{hint}", 1)
    return outcome
