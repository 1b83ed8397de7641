"""One scan of all processes serves simultaneous requests."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process_tree import Scans


async def test_a_child_with_an_unreadable_environment_does_not_block_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a process stuck in a driver, with its memory map locked."""
    answer, slot_of = threading.Event(), process_tree.slot_of

    def stuck(pid: int) -> str:
        answer.wait()
        return slot_of(pid)

    monkeypatch.setattr(process_tree, "slot_of", stuck)
    child = await asyncio.create_subprocess_exec("sleep", "60", env={"GMG_SLOT": "cpu7", "PATH": os.environ["PATH"]})
    scans = Scans()
    try:
        assert (await scans.table()).members(None, "cpu7") == []
        answer.set()
        while [proc.pid for proc in (await scans.table()).members(None, "cpu7")] != [child.pid]:
            pass
    finally:
        answer.set()
        child.kill()
        await child.wait()
