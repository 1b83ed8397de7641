"""A job's `result.json` that is no file, or that a disk does not give."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.engine.output import script_results
from gmg_tui.model import Batch, WorkerState
from gmg_tui.store import reader
from tests.engine.harness import running, sweep_for

_SCRIPT = """
import os, sys
from pathlib import Path
here = Path(os.environ["GMG_OUT_DIR"])
kind, result = sys.argv[1], here / "result.json"
if kind == "fifo":
    os.mkfifo(result)
elif kind == "socket":
    import socket
    os.chdir(here)  # a socket's path has room for 107 bytes
    socket.socket(socket.AF_UNIX).bind(result.name)
elif kind == "to-fifo":
    os.mkfifo(here / "fifo")
    result.symlink_to("fifo")
elif kind == "to-tty":
    result.symlink_to("/dev/tty")
elif kind == "to-zero":
    result.symlink_to("/dev/zero")
elif kind == "to-file":
    (here / "real").write_text('{"score": 1}')
    result.symlink_to("real")
"""


async def test_only_a_regular_file_is_read_and_the_next_job_follows(tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(_SCRIPT)
    kinds = ("fifo", "to-fifo", "to-tty", "to-zero", "socket", "to-file")
    spec = sweep_for([{"kind": kind} for kind in kinds], Batch(script=str(script), args=("{kind}",)), cpu=2)
    async with running(spec) as run:
        queue = await run.until_done()
        assert (queue.finished, queue.jobs) == (6, 6)
        await run.client.end()
    assert run.log().count("is no regular file and is left out") + run.log().count("result.json cannot be read") == 5
    results = [job.result for job in reader.load_jobs(run.folder / sessions.STORE)]
    assert results == [*[{}] * 5, {"score": 1}]


async def test_a_disk_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(script_results, "read_file", lambda _: answers.wait())
    monkeypatch.setattr(script_results, "_DISK_S", 0.05)
    async with asyncio.timeout(60):
        assert await script_results.in_folder(tmp_path) == {}
    answers.set()


async def test_an_engine_is_ended_by_sigterm_while_a_job_has_a_pipe_for_a_result(tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(_SCRIPT + "import time; time.sleep(600)")
    async with running(sweep_for([{}], Batch(script=str(script), args=("fifo",)), cpu=1)) as run:
        await run.until_state("cpu0", WorkerState.STARTING)
        run.process.terminate()
        async with asyncio.timeout(60):
            assert await run.process.wait() == 0
