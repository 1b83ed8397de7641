"""When an app has done what it was told to, however little of the CPU it gets."""

from __future__ import annotations

import asyncio
from time import process_time

_STEP_S = 0.005
_STEPS = 4
"""Together they are longer than a frame of Textual, 1/60 s, after which it draws what has changed."""
_QUIET_CPU_S = 0.004
"""The CPU time that a round of steps may take at most: threads of the app work as well."""
_ROUNDS = 40


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop has nothing to do for more than a frame; with an app that never rests, for 40 such times.

    Textual's own (`textual._wait`) takes a process for idle that has used little CPU time in 20 ms, which is also
    true of one that waits for its turn on a busy machine.
    """
    loop = asyncio.get_running_loop()
    for _ in range(_ROUNDS):
        cpu_s, quiet = process_time(), True
        for _ in range(_STEPS):
            await asyncio.sleep(_STEP_S)
            while loop._ready:  # type: ignore[attr-defined]  # nothing public tells what is about to run
                quiet = False
                await asyncio.sleep(0)
        if quiet and process_time() - cpu_s < _QUIET_CPU_S:
            return
