"""Converts monotonic times to Unix times, and waits for events with a timeout."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

_TOLERANCE_S = 0.5
"""Smaller adjustments of the system clock do not change the Unix times of past events."""


class _Clock:
    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def unix(self, moment: float) -> float:
        """Returns the Unix time of `moment` (monotonic seconds), to the millisecond; stable until the clock is set."""
        offset_s = time.time() - time.monotonic()
        if abs(offset_s - self._offset_s) > _TOLERANCE_S:
            self._offset_s = offset_s
        return round(moment + self._offset_s, 3)


unix = _Clock().unix


def now() -> float:
    """Returns the current Unix time, which advances with the monotonic clock."""
    return unix(time.monotonic())


async def any_of(*waitables: asyncio.Event | Coroutine[Any, Any, None], timeout_s: float | None = None) -> None:
    """Waits until an event is set, a coroutine returns or the timeout expires. Raises a coroutine's error."""
    waits = [asyncio.ensure_future(item.wait() if isinstance(item, asyncio.Event) else item) for item in waitables]
    try:
        for wait in (await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED))[0]:
            wait.result()
    finally:
        for wait in waits:
            wait.cancel()
