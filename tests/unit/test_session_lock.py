"""The engine's lock, which others take for a moment to see whether the engine lives."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError


def test_an_engine_begins_although_somebody_looks_at_its_session(tmp_path: Path) -> None:
    looking = os.open(tmp_path / sessions.ENGINE_LOG, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    leaving = threading.Timer(1.5, os.close, [looking])  # it had to wait for the CPU meanwhile
    leaving.start()
    try:
        os.close(sessions.lock(tmp_path))
    finally:
        leaving.join()


def test_two_engines_do_not_run_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_LOCK_TIMEOUT_S", 0.05)
    locked = sessions.lock(tmp_path)
    with pytest.raises(GmgError, match="an engine is already running in"):
        sessions.lock(tmp_path)
    os.close(locked)
