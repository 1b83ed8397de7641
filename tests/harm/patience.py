"""Waiting for what nobody announces: files, descriptors, other programs' processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LOOK_S = 0.1


async def eventually(holds: Callable[[], object], *, timeout_s: float = 90.0) -> None:
    """Wait until `holds()` is true, while this test's own loop goes on."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(_LOOK_S)


def wait_until(holds: Callable[[], object], *, timeout_s: float = 90.0) -> None:
    """Wait until `holds()` is true."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not so within {timeout_s:.0f} s"
        time.sleep(_LOOK_S)
