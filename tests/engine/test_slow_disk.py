"""A disk that takes less than a worker prints: that worker waits for it, and nobody else."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
import threading
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.engine.children import Children
from gmg_tui.engine.output import log_writer
from gmg_tui.engine.output.backpressure import Backpressure
from gmg_tui.engine.output.log_writer import Log, LogWriter
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.processes.process import Process
from gmg_tui.engine.processes.scans import Scans
from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action

from .harness import running, spec_for
from .test_log_writer import Tape

ENV = {"PATH": os.environ["PATH"], "GMG_SLOT": "cpu0", "PYTHONUNBUFFERED": "1"}
WAITS = "waits for the disk"
LINES = 1_000_000
FLOODS = """
import os, sys, time
floods = os.environ["GMG_SLOT"] == "cpu0"
for number in range(int(sys.argv[1]) if floods else 40):
    print("line", number)
    if not floods:
        time.sleep(0.05)
"""
"""Prints as fast as it can on the first slot, and a little on the others."""


class Logged:
    """A Python one-liner whose output goes to a log, as an attempt's does."""

    def __init__(self, pump: Pump, log: Log) -> None:
        self.size = 0
        self.log = log
        self.process = Process(pump, Children(), Scans(), "cpu0", self._take)
        self.backpressure = Backpressure(log, self.process.hold_output)
        self.came = asyncio.Event()

    def _take(self, chunk: bytes, is_error: bool) -> None:
        self.size += len(chunk)
        self.log.write(chunk)
        self.backpressure.look()
        self.came.set()

    async def start(self, code: str) -> None:
        await self.process.start((sys.executable, "-c", code), cwd="/", env=ENV)

    async def until(self, size: int) -> None:
        while self.size < size:
            self.came.clear()
            await self.came.wait()


async def test_who_prints_too_much_is_not_read_until_the_disk_is_ready_and_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "PATIENCE_S", 1000.0)
    slow, quick, logs, pump = Tape(), Tape(), LogWriter(), Pump()
    slow.running.clear()
    flood, other = Logged(pump, Log(logs, slow)), Logged(pump, Log(logs, quick))
    await flood.start("import os\nfor _ in range(100): os.write(1, b'x' * 100_000)")
    async with asyncio.timeout(30):
        await flood.until(log_writer.CROWDED_BYTES)
    await other.start("import time\nfor _ in range(20): print('x' * 99); time.sleep(0.05)")
    async with asyncio.timeout(30):
        await other.process.wait()
    await other.process.drain()
    assert other.size == 2000
    assert flood.process.exit_code is None
    assert flood.size < 10_000_000
    slow.running.set()
    async with asyncio.timeout(30):
        await flood.process.wait()
    flood.backpressure.release()
    await flood.process.drain()
    assert flood.size == 10_000_000
    logs.close()
    assert len(b"".join(slow.taken)) == 10_000_000


class Reader:
    """Reads a FIFO that stands for a log on a slow disk: 0.4 MB/s, and as fast as it can once it is told to `hurry`."""

    def __init__(self, path: Path) -> None:
        self.hurry = threading.Event()
        self.read = bytearray()
        self._path = path
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._path.open("rb", buffering=0) as file:
            while data := file.read(40_000):
                self.read += data
                self.hurry.wait(0.1)

    def end(self) -> bytes:
        self.hurry.set()
        self._thread.join(30)
        return bytes(self.read)


async def test_a_worker_on_a_slow_disk_says_so_loses_nothing_and_holds_up_nobody(tmp_path: Path) -> None:
    script = tmp_path / "floods.py"
    script.write_text(FLOODS)
    spec = spec_for(str(LINES), script=str(script), cpu=2)
    log = Path(spec.folder) / sessions.LOGS / "cpu0.log"
    log.parent.mkdir(exist_ok=True)
    os.mkfifo(log)
    reader = Reader(log)
    try:
        async with running(spec) as run:
            await run.until(lambda s: WAITS in " ".join(s.workers[0].warnings))
            other = await run.until_state("cpu1", WorkerState.FINISHED)
            assert other.warnings == ()
            await run.client.act(Action.RESTART, "cpu1")
            await run.until_attempt("cpu1", 2)
            assert run.worker("cpu0").state is WorkerState.RUNNING
            reader.hurry.set()
            await run.until_state("cpu0", WorkerState.FINISHED)
            await run.until(lambda s: not s.workers[0].warnings)
    finally:
        written = reader.end()
    assert stat.S_ISFIFO(log.stat().st_mode)
    numbers = [int(number) for number in re.findall(rb"^line (\d+)$", written, re.MULTILINE)]
    assert numbers == list(range(LINES))
