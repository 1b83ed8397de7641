"""Waits until an app has nothing left to do: its event loop says so itself, when it asks for events to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading

FRAME_S = 0.02
"""Timers that fire within this time belong to what the app is doing: frames, and redraws that were asked for."""
MOST_S = 0.4
"""How long an app that never rests is waited for, seconds."""
_waiting: dict[int, asyncio.Future[None]] = {}
"""Who waits, by the thread of the loop."""


class IdleSelector(selectors.DefaultSelector):
    """What a loop waits with. It has nothing to do once it asks for longer than a frame, and nothing is ready."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. A loop asks with 0 while it has callbacks to run, else with the time up to its next timer."""
        waiting = _waiting.get(threading.get_ident())
        if waiting is None or waiting.done() or (timeout is not None and timeout < FRAME_S):
            return super().select(timeout)
        ready = super().select(0)  # sockets, and what threads hand over
        if not ready:
            waiting.set_result(None)
        return ready


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop, which has an `IdleSelector`, has nothing to run and no timer about to fire.

    Textual's own (`textual._wait`) sleeps at least 20 ms and takes a process that waits for its turn on a busy machine
    for an idle one.
    """
    thread = threading.get_ident()
    idle = _waiting[thread] = asyncio.get_running_loop().create_future()
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(idle, MOST_S)
    finally:
        if _waiting.get(thread) is idle:
            del _waiting[thread]
