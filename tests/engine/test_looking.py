"""Read-only connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.model import QueueAction, WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import Running, own_name, running, spec_for

NEVER = ("--lines", "0")

STEERING: dict[str, Callable[[EngineClient], object]] = {
    "restart": lambda client: client.act(Action.RESTART, "cpu0"),
    "stop": lambda client: client.act(Action.STOP, "cpu0"),
    "kill": lambda client: client.act(Action.KILL, "cpu0"),
    "edit": lambda client: client.edit(("cpu0",), ("-B", "8"), {}),
    "act on jobs": lambda client: client.act_on_jobs(QueueAction.SKIP, 1),
    "use a slot": lambda client: client.use_slot("cpu0", used=False),
    "stacks": lambda client: client.stacks("cpu0"),
    "end": lambda client: client.end(),
    "end at once": lambda client: client.end(kill=True),
}
"""Requests that change something or affect a worker."""


@asynccontextmanager
async def _looking(run: Running) -> AsyncIterator[EngineClient]:
    client = await EngineClient.connect(Path(run.spec.socket), readonly=True)

    async def listen() -> None:
        async for _ in client.events():
            pass

    listening = asyncio.create_task(listen())
    try:
        yield client
    finally:
        await client.close()
        await listening


async def test_the_engine_refuses_changes_from_read_only_connections() -> None:
    async with running(spec_for(*NEVER, name=own_name())) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        pid = run.worker("cpu0").pid
        async with _looking(run) as client:
            assert client.welcome.readonly
            for steer in STEERING.values():
                with pytest.raises(GmgError, match="read-only"):
                    await steer(client)  # type: ignore[misc]
            assert (await client.details("cpu0")).slot == "cpu0"
            assert (await client.series("cpu0")).slot == "cpu0"
        await run.client.act(Action.STOP, "cpu0")  # the door is the same for those who may steer
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert (stopped.attempt, pid is not None) == (1, True)


async def test_read_only_clients_do_not_keep_the_engine_running() -> None:
    async with running(spec_for("--lines", "3")) as run:
        await run.until(lambda snapshot: snapshot.ended)
        async with _looking(run):
            await run.leave()
            await asyncio.wait_for(run.process.wait(), 60)
    assert run.process.returncode == 0
