"""Waits for what goes on with a script's work after its first process has ended: a daemon that has left its session.

`python sim.py --daemonize` ends at once, and a grandchild in a session of its own simulates and prints. That is the
worker then, for as long as it computes or prints. A process that a script has left behind does neither: it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from gmg_tui import units
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process import Process

_FIRST_S = 3.0
"""How long it may neither compute nor print at first: what goes on with the work does one of both."""
_LOOK_S = 0.5
_BUSY_S = 0.1
"""CPU time by which it has computed; an idle process that wakes up now and then uses less in `_FIRST_S`."""


async def end_of_successors(
    process: Process,
    output_bytes: Callable[[], int],
    idle_s: Callable[[], float],
    most_idle_s: float,
    told: Callable[[str | None], None],
) -> int:
    """Wait for the processes that go on with the work of `process`, whose first one has ended with exit code 0.

    Args:
        process: The attempt's.
        output_bytes: How much it has printed so far.
        idle_s: For how long it has neither printed nor computed.
        most_idle_s: After how many of these seconds it is not waited for any longer.
        told: Is given what is waited for, in one line, or why it is not any longer; None when it has ended.

    Returns:
        Their exit code, negative for a signal; 0 where none went on, or it is not known.
    """
    while (successor := await process.succeeded()) is not None:
        if not await _goes_on(successor, output_bytes):
            return 0
        told(f"its first process ended; PID {successor.pid} goes on")
        code = await _exit_code(successor, lambda: idle_s() >= most_idle_s)
        if code is None:
            told(
                f"its first process ended; PID {successor.pid} went on, and was ended after {units.span(most_idle_s)} without output and CPU time"
            )
            return 0
        told(None)
        if code != 0:
            return code
    return 0


async def _goes_on(successor: process_tree.Proc, output_bytes: Callable[[], int]) -> bool:
    """Whether it computes or prints, or ends meanwhile."""
    before, deadline = output_bytes(), asyncio.get_running_loop().time() + _FIRST_S
    while asyncio.get_running_loop().time() < deadline:
        now = process_tree.read(successor.pid)
        if now is None or now.state in "ZX" or output_bytes() > before or now.cpu_s > successor.cpu_s + _BUSY_S:
            return True
        await asyncio.sleep(_LOOK_S)
    return False


async def _exit_code(successor: process_tree.Proc, is_idle: Callable[[], bool]) -> int | None:
    """Wait for its end. Returns the exit code, 0 where another process is its parent; None once it is idle."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        handle = os.pidfd_open(successor.pid)
    except ProcessLookupError:
        return 0
    loop.add_reader(handle, ended.set)
    try:
        while not ended.is_set():
            if is_idle():
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await ended.wait()
        return _reap(handle)
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _reap(handle: int) -> int:
    """The exit code of an adopted child that has ended, by its pidfd; 0 where it is not known."""
    try:
        found = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return 0
    if found is None:
        return 0
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
