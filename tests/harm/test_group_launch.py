"""A group whose launcher is killed while it starts: all ranks run under their engine, or none does."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from tests.engine.test_groups import RANK

from .patience import wait_until
from .sessions import look
from .test_launch_moments import MOMENTS, alive, launch


def _running() -> list[sessions.SessionEntry]:
    return [found for found in sessions.listing() if found.state == "running"]


def _ranks() -> list[psutil.Process]:
    found = []
    for process in alive():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if RANK in words and "gmg_tui" not in words:
                found.append(process)
    return found


def _complete(found: sessions.SessionEntry) -> bool:
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


def _end() -> None:
    """End what runs."""
    for found in _running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.record.session.engine_pid, signal.SIGTERM)
    wait_until(lambda: not alive())
    # A process that ends loses its environment before its locks.
    wait_until(lambda: {found.state for found in sessions.listing()} <= {"ended"})


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_launcher_that_is_killed_leaves_a_whole_group_or_nothing(moment: str) -> None:
    client = launch(signal.SIGKILL, moment, "--ddp", RANK, "--steps", "1000000")
    client.communicate()
    assert client.returncode == -signal.SIGKILL
    wait_until(_settled)
    _end()


def test_a_group_runs_on_without_its_launcher() -> None:
    client = launch(signal.SIGKILL, "never:1", "--ddp", RANK, "--steps", "1000000")
    wait_until(lambda: bool(_running()) and _settled())
    client.kill()
    client.communicate()
    assert _settled()
    _end()
