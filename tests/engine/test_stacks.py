"""The Python stacks of workers and ranks: written by their own interpreters, or why there are none."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gmg_tui.engine.attempts.stacks import stacks_of
from gmg_tui.model import Stacks, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import probe

from .harness import Running, running, spec_for
from .test_groups import group_of


async def _all_run(run: Running) -> None:
    await run.until(lambda snapshot: all(worker.state is WorkerState.RUNNING for worker in snapshot.workers))


async def test_each_rank_writes_its_own_stacks_and_a_stopped_one_cannot() -> None:
    async with running(group_of("--steps", "40", "--hang", "sleep", cpu=3, stuck_after_s=3.0)) as run:
        await run.until(lambda snapshot: snapshot.groups[0].stuck)
        for _ in range(2):
            stacks = await run.client.stacks("cpu2")
            assert [each.rank for each in stacks] == [0, 1, 2]
            assert ["in harm" in each.text for each in stacks] == [False, True, False]
            assert stacks[1].text.count("most recent call first") == 1, "an earlier answer is not part of the next"
        rank = psutil.Process(run.worker("cpu1").pid)
        rank.suspend()
        running_rank, stopped, _ = await run.client.stacks("cpu0")
        assert "in step" in running_rank.text
        assert stopped.error == f"it cannot answer: stopped by a signal; kill -CONT {rank.pid}"
        await run.client.end(kill=True)


@pytest.mark.parametrize("is_probed", [True, False], ids=["probe", "no probe"])
async def test_a_single_worker_with_the_probe_writes_its_stacks(is_probed: bool) -> None:
    async with running(spec_for("--lines", "0", probe=is_probed)) as run:
        await _all_run(run)
        (stacks,) = await run.client.stacks("cpu0")
        assert ("most recent call first" in stacks.text) is is_probed, stacks.error
        before = run.worker("cpu0").log_lines
        await run.until(lambda _: run.worker("cpu0").log_lines > before + 10)  # the signal has not ended it
        with pytest.raises(GmgError, match="no slot cpu9"):
            await run.client.stacks("cpu9")
        await run.client.end(kill=True)


_DAEMON = """
import os, time
os.closerange(3, 256)
checkpoint = open("checkpoint.bin", "wb", buffering=0)
while True:
    print("fd", checkpoint.fileno(), flush=True)
    checkpoint.write(b"data")
    time.sleep(0.05)
"""


async def test_stacks_are_not_written_into_a_file_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "daemonish.py"
    script.write_text(_DAEMON)
    async with running(spec_for(script=str(script), cwd=str(tmp_path))) as run:
        await _all_run(run)
        (stacks,) = await run.client.stacks("cpu0")
        assert stacks.error == "the script has closed the file for its stacks, perhaps along with all inherited files"
        await run.client.end(kill=True)
    assert set((tmp_path / "checkpoint.bin").read_bytes().split(b"data")) == {b""}


def _python(folder: Path, code: str, **env: str) -> str:
    added = {probe.FOLDER_VARIABLES[0]: str(folder)} | probe.python_path(env)
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env, **added}, capture_output=True, text=True, check=True
    )
    return ended.stdout + ended.stderr


_ENDING = """
import os, signal, sys, time
stacks = os.path.join(os.environ["GMG_PROBE_DIR"], "stacks")
print("up", flush=True)
while not os.path.getsize(stacks):
    time.sleep(0.01)
signal.signal(46, signal.SIG_DFL)  # as for a program that it executes
sys.stdin.read()
"""


def test_sampling_kills_no_process_that_no_longer_handles_the_signal(tmp_path: Path) -> None:
    env = {**os.environ, probe.FOLDER_VARIABLES[0]: str(tmp_path)} | probe.python_path({})
    command = (sys.executable, "-c", _ENDING)
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        stacks = asyncio.run(stacks_of(process.pid, tmp_path, Stacks("cpu0"), 20))
        assert stacks.text.count("most recent call first") >= 1
        assert process.poll() is None
    assert process.returncode == 0


def test_the_signal_is_ignored_once_python_has_ended(tmp_path: Path) -> None:
    """Libraries may take seconds then, for example to save or to release a GPU."""
    code = "import faulthandler, os; faulthandler.unregister(46); os.kill(os.getpid(), 46); print('lives')"
    assert _python(tmp_path, code) == "lives\n"


def test_a_script_does_not_see_our_path_entry(tmp_path: Path) -> None:
    assert probe.SITE not in _python(tmp_path, "import sys; print(sys.path)", PYTHONPATH=str(tmp_path))
    assert "Error" not in _python(tmp_path, "print(1)", PYTHONPATH="")
    assert probe.python_path({"PYTHONPATH": ""})["PYTHONPATH"] == probe.SITE


def test_an_unwritable_folder_does_not_fail_the_script(tmp_path: Path) -> None:
    assert _python(tmp_path / "missing", "print(1)") == "1\n"
