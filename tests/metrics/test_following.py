"""Sessions that come, go, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gmg_tui import session as sessions
from gmg_tui.metrics import following as module
from gmg_tui.metrics.following import Following
from gmg_tui.model import WorkerState
from tests.cli.scripted import ScriptedEngine
from tests.harm.patience import eventually


@asynccontextmanager
async def _following(*names: str) -> AsyncIterator[tuple[Following, asyncio.Task[None]]]:
    found = Following(names, lambda _: None)
    task = asyncio.create_task(found.run())
    try:
        yield found, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_session_that_somebody_keeps_open_is_left_when_it_has_ended_and_followed_when_it_goes_on() -> None:
    async with ScriptedEngine(("cpu0",), "sim.py") as engine, _following() as (found, _):
        await eventually(lambda: "sim-1" in found.views)
        engine.move("cpu0", WorkerState.FAILED)
        sessions.write_record(sessions.Record(engine.session, engine.briefs))
        await engine.left.wait()
        await eventually(lambda: found.ended["failed"] == 1)
        assert found.views["sim-1"].left is not None
        engine.move("cpu0", WorkerState.RUNNING, attempt=2)
        sessions.write_record(sessions.Record(engine.session, engine.briefs))
        await eventually(lambda: found.views["sim-1"].left is None)
        assert found.views["sim-1"].snapshot.workers[0].attempt == 2
        assert found.ended.total() == 1


async def test_an_end_is_counted_once_while_the_record_does_not_say_it_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    async with ScriptedEngine(("cpu0",), "sim.py") as engine, _following() as (found, _):
        await eventually(lambda: "sim-1" in found.views)
        engine.move("cpu0", WorkerState.FINISHED)
        await engine.left.wait()
        for _ in range(3):  # it looks again, is answered, and leaves
            engine.left.clear()
            await asyncio.wait_for(engine.left.wait(), 60)
        assert found.ended == {"finished": 1}


async def test_a_session_that_does_not_answer_is_known_to_be_silent_until_it_has_gone() -> None:
    said: list[str] = []
    async with ScriptedEngine(("cpu0",), "sim.py") as engine:
        assert engine._server is not None
        engine._server.close()
        found = Following((), said.append)
        task = asyncio.create_task(found.run())
        await eventually(lambda: "sim-1" in found.views)
        assert found.views["sim-1"].silent
        assert len(said) == 1
        assert "no engine answers" in said[0]
        await engine.leave(ended=True)
        await eventually(lambda: not found.views)
        assert found.ended.total() == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_with_names_it_follows_no_others_and_ends_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_S", 0.0)
    async with (
        ScriptedEngine(("cpu0",), "sim.py") as engine,
        ScriptedEngine(("cpu0",), "other.py") as other,
        _following("sim-1") as (found, task),
    ):
        await eventually(lambda: "sim-1" in found.views)
        engine.end_all()
        await engine.leave(ended=True)
        await asyncio.wait_for(task, 60)
        assert found.ended == {"finished": 1}
        assert not other.left.is_set()  # nobody has come who could go
        assert "other-1" not in found.views
