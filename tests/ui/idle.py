"""Waits until an app has nothing left to do, by draining its loop instead of sleeping."""

from __future__ import annotations

import asyncio

FRAME_S = 0.02
"""Timers that fire within this time belong to what the app is doing: frames, and redraws that were asked for."""
_ROUNDS = 25
"""How often an app that never rests is waited for."""
_EMPTY = 3
"""Turns of the loop without work after which it has none: a turn also reads sockets and what threads hand over."""


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop has nothing to run and no timer about to fire.

    Textual's own (`textual._wait`) sleeps at least 20 ms and takes a process that waits for its turn on a busy machine
    for an idle one.
    """
    loop = asyncio.get_running_loop()
    for _ in range(_ROUNDS):
        empty = 0
        while empty < _EMPTY:
            await asyncio.sleep(0)
            empty = 0 if loop._ready else empty + 1  # type: ignore[attr-defined]  # nothing public has it
        now = loop.time()
        due = [timer.when() for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        due = [when for when in due if when < now + FRAME_S]
        if not due:
            return
        await asyncio.sleep(max(0.0, max(due) - now) + 0.0005)
