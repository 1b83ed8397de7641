"""When the workers of a session start whose screen is being opened."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from gmg_tui.client import EngineClient
from gmg_tui.model import RunSpec, WorkerState
from tests.engine.harness import Running, spec_for

_LONG = "import gmg_tui.engine.main as main; main._VIEWER_S = 1e6; "
_BOOT = "import runpy; runpy.run_module('gmg_tui.engine', run_name='__main__', alter_sys=True)"


@contextlib.asynccontextmanager
async def _awaiting(spec: RunSpec, boot: str) -> AsyncIterator[Running]:
    """An engine that expects a client."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", boot), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(spec) + b"\nviewer")
    process.stdin.close()
    assert msgspec.json.decode(await process.stdout.readline())["ok"]
    run = Running(process, await EngineClient.connect(Path(spec.socket)), spec)
    try:
        yield run
    finally:
        await run.leave()
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_workers_start_once_a_client_is_connected() -> None:
    async with _awaiting(spec_for("--lines", "1"), _LONG + _BOOT) as run:
        another = await EngineClient.connect(Path(run.spec.socket))
        (worker,) = another.welcome.snapshot.workers
        assert worker.state is WorkerState.WAITING
        await another.close()
        await run.client.follow("cpu0", tail=0)
        await run.until_state("cpu0", WorkerState.FINISHED)


async def test_workers_start_without_a_client_after_a_timeout() -> None:
    async with _awaiting(spec_for("--lines", "1"), _BOOT) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
