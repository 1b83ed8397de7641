"""What the engine sends its clients each second."""

from __future__ import annotations

import asyncio
from pathlib import Path

import gmg_tui
from gmg_tui import protocol
from gmg_tui.model import WorkerState

from .harness import running, spec_for

_SCRIPT = """
import sys, time
for number in range(1 if sys.argv[1] == "0" else 10_000):
    print("line", number, flush=True)
    time.sleep(0.05)
"""


async def test_unchanged_workers_are_not_sent_again(tmp_path: Path) -> None:
    """Issue 24, bug 10: a state that contained its age changed, and was sent, each second."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    async with running(spec_for("{i}", script=str(script), cpu=2)) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        await run.until_state("cpu1", WorkerState.RUNNING)
        reader, writer = await asyncio.open_unix_connection(run.spec.socket)
        writer.write(protocol.frame(protocol.Hello(protocol.VERSION, gmg_tui.__version__)))
        updates: list[protocol.Update] = []
        async with asyncio.timeout(60):
            while len(updates) < 5:
                message = await protocol.read_message(reader)
                if isinstance(message, protocol.Update):
                    updates.append(message)
        writer.close()
        first, *others = updates
        assert [worker.slot for worker in first.snapshot.workers] == ["cpu0", "cpu1"]
        sent = [worker.slot for update in others for worker in update.snapshot.workers]
        assert all(update.partial for update in others)
        assert "cpu0" not in sent
        assert "cpu1" in sent
        await run.client.end(kill=True)
