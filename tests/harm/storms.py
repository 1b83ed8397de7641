"""Random commands of several clients at once, the same ones for the same seed."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from tests.engine.harness import Running
from tests.engine.test_groups import RANK

COMMANDS = 50
Command = Callable[[EngineClient, str, random.Random], Coroutine[Any, Any, object]]
"""A command to a client, for a slot."""


async def act(client: EngineClient, slot: str, chance: random.Random) -> None:
    await client.act(chance.choice((Action.RESTART, Action.STOP, Action.KILL)), slot)


async def _send(client: EngineClient, slots: tuple[str, ...], chance: random.Random, commands: list[Command]) -> None:
    for _ in range(COMMANDS):
        await asyncio.sleep(chance.choice((0.0, 0.0, chance.uniform(0.0, 0.3))))
        with contextlib.suppress(GmgError):  # what has ended meanwhile cannot be stopped
            await chance.choice(commands)(client, chance.choice(slots), chance)


async def storm(run: Running, seed: int, slots: tuple[str, ...], *commands: Command) -> None:
    other = Running(run.process, await EngineClient.connect(Path(run.spec.socket)), run.spec)
    try:
        await asyncio.gather(
            _send(run.client, slots[:-1], random.Random(2 * seed), [act, *commands]),
            _send(other.client, slots[1:], random.Random(2 * seed + 1), [act, *commands]),
        )
    finally:
        await other.leave()


def ranks(engine: psutil.Process) -> list[psutil.Process]:
    """The ranks among the engine's processes."""
    processes = []
    for process in engine.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if RANK in process.cmdline():
                processes.append(process)
    return processes
