"""Leftover processes of a script, such as a logger that still uploads: waits for them for a limited time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from gmg_tui.engine.attempts.attempt import Report
from gmg_tui.engine.attempts.process import Process
from gmg_tui.machine import process_tree
from gmg_tui.machine.process_tree import Proc
from gmg_tui.model import units

MAX_IDLE_S = 10.0
"""Seconds a leftover process may be idle before it is ended."""
MAX_BUSY_S = 120.0
"""Seconds a leftover process may use the CPU or the network."""
_CHECK_S = 0.5
_MIN_CPU_S = 0.005
"""CPU time between two checks that counts as work: 1 % of a core."""
_MIN_SWITCHES = 5
"""Voluntary context switches between two checks that count as work, such as packets sent."""


async def remaining(process: Process, skipped: asyncio.Event, report: Report) -> str | None:
    """Waits for the processes left behind to end by themselves, while they work and not much longer.

    Args:
        process: The attempt's, whose first process has ended.
        skipped: Ends the wait.
        report: Gets the wait reason.

    Returns:
        What has to be ended; None if no process is left.
    """
    began = busy_at = time.monotonic()
    work: tuple[float, int] | None = None
    while (left := await process.remaining()) != []:
        now = time.monotonic()
        if left is None:  # too many open files: they are looked for again
            if skipped.is_set() or now - began >= MAX_BUSY_S:
                return None
            await asyncio.sleep(_CHECK_S)
            continue
        what = f"{units.count(len(left), 'process')} that the script left behind"
        before, work = work, _work(left)
        if before is not None and (work[0] - before[0] >= _MIN_CPU_S or work[1] - before[1] >= _MIN_SWITCHES):
            busy_at = now
        if skipped.is_set() or now - busy_at >= MAX_IDLE_S or now - began >= MAX_BUSY_S:
            return what
        report(f"for {what} ({process_tree.command_name(left[0].pid)})")
        waiting = asyncio.ensure_future(skipped.wait())
        try:
            await asyncio.wait([waiting], timeout=_CHECK_S)
        finally:
            waiting.cancel()
    return None


def _work(procs: Sequence[Proc]) -> tuple[float, int]:
    """Returns the CPU seconds and the voluntary context switches of all these processes together."""
    return sum(proc.cpu_s for proc in procs), sum(process_tree.switches(proc.pid) for proc in procs)
