"""A job's `result.json` that is not a file, or that a disk does not return."""

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
import os, socket, sys, time
from pathlib import Path
os.chdir(os.environ["GMG_OUT_DIR"])  # a socket's path has room for 107 bytes
kind, result = sys.argv[1], Path("result.json")
if kind == "fifo":
    os.mkfifo(result)
elif kind == "socket":
    socket.socket(socket.AF_UNIX).bind(result.name)
elif kind == "to-fifo":
    os.mkfifo("fifo")
    result.symlink_to("fifo")
elif kind == "to-file":
    Path("real").write_text('{"score": 1}')
    result.symlink_to("real")
else:
    result.symlink_to(kind)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Makes a `result.json` of the kind that it is given, and goes on for some seconds."""
    path = tmp_path / "odd.py"
    path.write_text(_SCRIPT)
    return str(path)


async def test_only_a_regular_file_is_read_and_the_next_job_follows(script: str) -> None:
    kinds = ("fifo", "to-fifo", "/dev/tty", "/dev/zero", "socket", "to-file")
    spec = sweep_for([{"kind": kind} for kind in kinds], Batch(script=script, args=("{kind}", "0")), cpu=2)
    async with running(spec) as run:
        queue = await run.until_done()
        assert (queue.finished, queue.jobs) == (6, 6)
        await run.client.end()
    assert run.log().count("is no regular file and is left out") + run.log().count("result.json cannot be read") == 5
    results = [job.result for job in reader.load_jobs(run.folder / sessions.STORE)]
    assert results == [*[{}] * 5, {"score": 1}]


async def test_a_hung_disk_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(script_results, "read_file", lambda _: answers.wait())
    monkeypatch.setattr(script_results, "_DISK_S", 0.05)
    async with asyncio.timeout(60):
        assert await script_results.in_folder(tmp_path) == {}
    answers.set()


async def test_sigterm_ends_an_engine_while_a_job_has_a_pipe_for_a_result(script: str) -> None:
    async with running(sweep_for([{}], Batch(script=script, args=("fifo", "600")), cpu=1)) as run:
        await run.until_state("cpu0", WorkerState.STARTING)
        run.process.terminate()
        async with asyncio.timeout(60):
            assert await run.process.wait() == 0
