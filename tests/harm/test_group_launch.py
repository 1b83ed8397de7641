"""A group whose launcher is killed while it starts: all ranks run under their engine, or none does."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from tests.engine.test_groups import RANK

from .patience import wait_until
from .scale import full
from .sessions import look
from .test_launch_moments import alive

TRIES = full(60, short=12)
_COMMAND = (sys.executable, "-m", "gmg_tui", "--headless", "--cpu", "2", "--ddp", RANK, "--steps", "1000000")


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(_COMMAND, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _running() -> list[sessions.Found]:
    return [found for found in sessions.listing() if found.state == "running"]


def _ranks() -> list[psutil.Process]:
    found = []
    for process in alive():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if RANK in words and "gmg_tui" not in words:
                found.append(process)
    return found


def _complete(found: sessions.Found) -> bool:
    """Whether both ranks run, in the same attempt, and are children of the session's engine."""
    try:
        snapshot = look(found)
    except GmgError:
        return False
    if [(w.state, w.attempt) for w in snapshot.workers] != [(WorkerState.RUNNING, 1)] * 2:
        return False
    return {w.pid for w in snapshot.workers} == {rank.pid for rank in _ranks()}


def _settled() -> bool:
    """Whether nothing of the start is left, or all of it runs."""
    running = _running()
    return _complete(running[0]) if running else not alive()


def _end() -> bool:
    """End what runs; whether there was a session."""
    running = _running()
    for found in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.record.session.engine_pid, signal.SIGTERM)
    wait_until(lambda: not alive())
    assert {found.state for found in sessions.listing()} <= {"ended"}
    return bool(running)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_launcher_that_is_killed_leaves_a_whole_group_or_nothing() -> None:
    chance = random.Random(15)
    began = time.monotonic()
    client = _start()
    wait_until(lambda: bool(_running()) and _settled())
    start_s = time.monotonic() - began
    client.kill()
    client.wait()
    assert _settled(), "the ranks need no launcher"
    outcomes = {_end()}
    for _ in range(TRIES):
        client = _start()
        time.sleep(chance.uniform(0.0, start_s))
        client.kill()
        client.wait()
        wait_until(_settled)
        outcomes.add(_end())
    assert outcomes == {True, False}, "the moments were not those of the start"
