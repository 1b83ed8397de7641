"""Waiting for what is not announced: files, descriptors, other programs' processes."""

import asyncio
import os
import time
from collections.abc import Callable

import psutil

LONG_S = 120.0
"""The longest wait of a test, seconds: it only matters when something is wrong, so it is long on any machine."""
_INTERVAL_S = 0.1


async def eventually(holds: Callable[[], object], *, timeout_s: float = LONG_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_INTERVAL_S)


def wait_until(holds: Callable[[], object], *, timeout_s: float = LONG_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not so within {timeout_s:.0f} s"
        time.sleep(_INTERVAL_S)


def alive(process: psutil.Process) -> bool:
    """Whether a process runs. One that has ended counts as dead before its parent has waited for it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def processes_of_test() -> list[psutil.Process]:
    """All processes that carry this test's state folder in their environment, except pytest itself."""
    processes = []
    for process in psutil.process_iter():
        try:
            same_folder = process.environ().get("XDG_STATE_HOME") == os.environ["XDG_STATE_HOME"]
        except (psutil.Error, OSError):
            continue
        if same_folder and process.pid != os.getpid() and alive(process):
            processes.append(process)
    return processes
