"""Asks the engine again and again, for a screen that shows what does not come by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gmg_tui.errors import GmgError

PERIOD_S: Final = 3.0
"""Seconds from an answer to the next question."""


async def keep_asking(ask: Callable[[], Awaitable[object]], fail: Callable[[str], object]) -> None:
    """Await `ask()` every few seconds until cancelled; `fail` is told in one line why there was no answer."""
    while True:
        try:
            await ask()
        except GmgError as error:
            fail(str(error))
        await asyncio.sleep(PERIOD_S)
