"""Whatever was done to the program, in the end no process and no lock of it is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil
import pytest

from gmg_tui import session as sessions
from tests.terminal.screen import sessions_processes

from .scale import FULL

_SETTLE_S = 20.0
"""How long the engine and its warden may take to end what is left, once a test has let go of it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At full length a test takes minutes."""
    if FULL:
        for item in items:
            item.add_marker(pytest.mark.timeout(1800))


def _alive() -> list[psutil.Process]:
    found = sessions_processes(os.environ["XDG_STATE_HOME"])
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(autouse=True)
def nothing_is_left(own_folders: None) -> Iterator[None]:
    """After each test: no process that carries its state folder, and no session that counts as running."""
    yield
    deadline = time.monotonic() + _SETTLE_S
    while (left := _alive()) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.2)
    described = [(process.pid, process.cmdline()) for process in left]
    for process in left:
        process.kill()
    assert described == []
    assert [found.name for found in sessions.listing() if found.state == "running"] == []
