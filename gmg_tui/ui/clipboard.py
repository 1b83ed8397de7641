"""Copies text to the user's clipboard: through tmux if it runs there, or else with OSC 52."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from typing import Any, Final

from textual.app import App

from gmg_tui.model import units

_TMUX_S: Final = 2.0


async def copy(app: App[Any], text: str) -> str:
    """Copies `text`; returns what was done. A terminal does not confirm OSC 52, and may ignore it."""
    amount = units.count(text.count("\n") + 1, "line")
    app.copy_to_clipboard(text)
    if not app.is_web and "TMUX" in os.environ and await _load_into_tmux(text):
        return f"Copied {amount}, also to tmux's paste buffer."
    if app.is_web:
        return "A page in a browser has no clipboard here; select the text with the browser."
    return f"Sent {amount} to the terminal (OSC 52)."


async def _load_into_tmux(text: str) -> bool:
    """Sets tmux's newest buffer, and the clipboard of its terminal: by default tmux ignores OSC 52 of programs."""
    try:
        process = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_TMUX_S):
            await process.communicate(text.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0
