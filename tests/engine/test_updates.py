"""What the engine sends each second: only the workers that have changed, whose times do not depend on the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import gmg_tui
from gmg_tui import protocol
from gmg_tui.model import RunSpec
from gmg_tui.protocol import Hello, Update
from tests.nodes.fleets import sweep_on_nodes

from .harness import job_batch, running, sweep_for


@pytest.mark.parametrize("sweep", [sweep_for, sweep_on_nodes], ids=["here", "nodes"])
async def test_workers_that_have_not_changed_are_not_sent_again(sweep: Callable[..., RunSpec]) -> None:
    spec = sweep([{}] * 2, job_batch("--s", "600"), cpu=1)
    async with running(spec) as run:
        await run.until(lambda snapshot: all(worker.pid for worker in snapshot.workers))
        reader, writer = await asyncio.open_unix_connection(str(Path(spec.socket)))
        writer.write(protocol.frame(Hello(protocol.VERSION, gmg_tui.__version__)))
        async with asyncio.timeout(60):
            while True:
                message = await protocol.read_message(reader)
                if isinstance(message, Update) and message.partial and not message.snapshot.workers:
                    break
        writer.close()
        await run.client.end(kill=True)
