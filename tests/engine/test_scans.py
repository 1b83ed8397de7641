"""One scan of all processes serves simultaneous requests."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

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


async def test_simultaneous_scans_read_the_slot_of_a_child_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, pids, end = 0, [], asyncio.Event()

    async def in_loop(function: Callable[..., object], *args: object) -> object:
        nonlocal begun
        if function is process_tree.scan:
            begun += 1
            await end.wait()
        return function(*args)

    def slot_of(pid: int) -> str:
        pids.append(pid)
        return "cpu7"

    monkeypatch.setattr(process_tree, "in_daemon_thread", in_loop)
    monkeypatch.setattr(process_tree, "slot_of", slot_of)
    monkeypatch.setattr(process_tree, "ROUND_S", 0.0)
    child = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        scans, tables = Scans(), []
        for number in (1, 2):
            tables.append(asyncio.create_task(scans.table()))
            while begun < number:  # noqa: ASYNC110 - it begins in a later round of the loop
                await asyncio.sleep(0)
        end.set()
        await asyncio.gather(*tables)
        assert child.pid in [proc.pid for proc in (await scans.table()).members(None, "cpu7")]
        assert pids.count(child.pid) == 1
    finally:
        child.kill()
        await child.wait()
