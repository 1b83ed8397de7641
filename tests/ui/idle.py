"""Waits until an app is idle: its event loop has no callbacks to run and no timer about to fire."""

import asyncio
import selectors
import threading

FRAME_S = 0.02
"""Timers that fire within this time belong to current work: frames and requested redraws."""
_FRAMES = 50
"""The number of timers to wait for in an app that is never idle."""


class _Wait:
    """Futures that wait for a loop to be idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.idle = loop.create_future()
        self.frames = 0


_waits: dict[int, _Wait] = {}
"""By the thread of the loop."""


class IdleSelector(selectors.DefaultSelector):
    """The selector of a loop. The loop is idle once it waits for longer than a frame and nothing is ready."""

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
