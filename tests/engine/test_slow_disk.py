"""A disk that takes less than a worker prints: the worker waits for it, and loses nothing."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action

from .harness import running, spec_for

WAITS = "waits for the disk"
LINES = 4_000_000
FLOODS = """
import os, sys, time
floods = os.environ["GMG_SLOT"] == "cpu0"
for number in range(int(sys.argv[1]) if floods else 40):
    print("line", number)
    if not floods:
        time.sleep(0.05)
"""
"""Prints as fast as it can on the first slot, and a little on the others."""


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


async def test_a_worker_on_a_slow_disk_says_so_loses_nothing_and_its_end_is_waited_for(tmp_path: Path) -> None:
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
            assert other.newest.exit_code == 0
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
