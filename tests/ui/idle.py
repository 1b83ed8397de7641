"""Waits until an app has nothing left to do: its event loop says so itself, when it asks for events to wait for."""

from __future__ import annotations

import asyncio
import selectors
import threading

FRAME_S = 0.02
"""Timers that fire within this time belong to what the app is doing: frames, and redraws that were asked for."""
_FRAMES = 50
"""How many timers of an app that never rests are waited for."""


class _Wait:
    """What waits for a loop to be idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.idle = loop.create_future()
        self.frames = 0


_waits: dict[int, _Wait] = {}
"""By the thread of the loop."""


class IdleSelector(selectors.DefaultSelector):
    """What a loop waits with. It has nothing to do once it asks for longer than a frame, and nothing is ready."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. A loop asks with 0 while it has callbacks to run, else with the time up to its next timer."""
        wait = _waits.get(threading.get_ident())
        if wait is None or timeout == 0:
            return super().select(timeout)
        ready = super().select(0)  # sockets, and what threads hand over
        if ready:
            return ready
        if timeout is not None and timeout < FRAME_S and wait.frames < _FRAMES:
            wait.frames += 1
            return super().select(timeout)
        if not wait.idle.done():
            wait.idle.set_result(None)
        return []


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop, which has an `IdleSelector`, has nothing to run and no timer about to fire.

    Textual's own (`textual._wait`) sleeps at least 20 ms and takes a process that waits for its turn on a busy machine
    for an idle one.
    """
    thread = threading.get_ident()
    wait = _waits[thread] = _Wait(asyncio.get_running_loop())
    try:
        await wait.idle
    finally:
        if _waits.get(thread) is wait:
            del _waits[thread]
