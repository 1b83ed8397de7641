"""What the tests of the command line share: no engine outlives the test that started it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil
import pytest

from gmg_tui import session as sessions


@pytest.fixture(autouse=True)
def no_engine_survives(own_folders: None) -> Iterator[None]:
    """End the engines of a test that failed half-way; those that it scripted are this process, or away."""
    yield
    for found in sessions.listing():
        pid = found.record.session.engine_pid
        if found.state == "running" and not found.away and pid != os.getpid():
            # It may end by itself at any moment.
            with contextlib.suppress(psutil.NoSuchProcess):
                engine = psutil.Process(pid)
                for _ in range(2):  # the second asks it to kill its workers
                    engine.terminate()
                engine.wait()
