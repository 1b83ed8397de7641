"""The Python stacks of ranks: who writes them, and what is said where nobody does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gmg_tui import probe
from gmg_tui.ddp import stack_signal
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState

from .harness import Running, running, spec_for
from .test_groups import group_of

SPY = """#!/bin/sh
echo "Process $4: python"
echo "Thread $4 (active): \\"MainThread\\""
echo "    step (rank.py:7)"
"""


@pytest.fixture
def no_py_spy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH without py-spy; what is put into the folder is found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


async def _all_run(run: Running) -> None:
    await run.until(lambda snapshot: all(worker.state is WorkerState.RUNNING for worker in snapshot.workers))


async def test_each_rank_writes_its_own_stack(no_py_spy: Path) -> None:
    async with running(group_of("--steps", "40", "--hang", "sleep", cpu=3, stuck_after_s=3.0)) as run:
        await run.until(lambda snapshot: snapshot.groups[0].stuck)
        for _ in range(2):
            first, second, third = await run.client.stacks("cpu2")
            assert [one.rank for one in (first, second, third)] == [0, 1, 2]
            assert {one.source for one in (first, second, third)} == {"faulthandler"}
            assert "in harm" in second.text
            for waits in (first, third):
                assert "in step" in waits.text
                assert "in harm" not in waits.text
            assert second.text.count("most recent call first") == 1, "an earlier answer is not part of the next"
        await run.client.end(kill=True)


async def test_a_stopped_rank_says_so_and_the_others_answer(no_py_spy: Path) -> None:
    async with running(group_of("--steps", "100000")) as run:
        await _all_run(run)
        rank = psutil.Process(run.worker("cpu1").pid)
        rank.suspend()
        other, stopped = await run.client.stacks("cpu0")
        assert "in main" in other.text
        assert (stopped.text, stopped.error) == (
            "",
            f"it is stopped by a signal and cannot answer; kill -CONT {rank.pid}",
        )
        rank.resume()
        assert "in main" in (await run.client.stacks("cpu0"))[1].text
        await run.client.end(kill=True)


async def test_py_spy_is_asked_first_and_does_without_the_signal(no_py_spy: Path) -> None:
    (no_py_spy / "py-spy").write_text(SPY)
    (no_py_spy / "py-spy").chmod(0o755)
    async with running(spec_for("--lines", "0")) as run:
        await _all_run(run)
        (found,) = await run.client.stacks("cpu0")
        assert (found.source, found.rank, found.error) == ("py-spy", None, None)
        assert "step (rank.py:7)" in found.text
        await run.client.end(kill=True)


async def test_a_single_worker_without_py_spy_is_not_sent_a_signal(no_py_spy: Path) -> None:
    async with running(spec_for("--lines", "0")) as run:
        await _all_run(run)
        (found,) = await run.client.stacks("cpu0")
        assert "py-spy is not installed" in (found.error or "")
        before = run.worker("cpu0").log_lines
        await run.until(lambda _: run.worker("cpu0").log_lines > before + 10)
        with pytest.raises(GmgError, match="no slot cpu9"):
            await run.client.stacks("cpu9")
        await run.client.end(kill=True)


async def test_other_requests_are_answered_while_a_rank_keeps_silent(no_py_spy: Path) -> None:
    """A py-spy that hangs takes its whole time."""
    (no_py_spy / "py-spy").write_text("#!/bin/sh\nexec sleep 60\n")
    (no_py_spy / "py-spy").chmod(0o755)
    async with running(group_of("--steps", "100000")) as run:
        await _all_run(run)
        asked = asyncio.create_task(run.client.stacks("cpu0"))
        await run.client.details("cpu0")
        assert not asked.done()
        assert {one.source for one in await asked} == {"faulthandler"}
        await run.client.end(kill=True)


def _python(tmp_path: Path, code: str, **env: str) -> str:
    added = stack_signal.variables(str(tmp_path / "stacks.txt")) | probe.on_path(env)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env, **added}, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def test_a_script_sees_a_path_without_ours(tmp_path: Path) -> None:
    assert probe.SITE not in _python(tmp_path, "import sys; print(sys.path)", PYTHONPATH=str(tmp_path))
    assert "Error" not in _python(tmp_path, "print(1)", PYTHONPATH="")
    assert probe.on_path({"PYTHONPATH": ""})["PYTHONPATH"] == probe.SITE


def test_a_file_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    assert _python(tmp_path / "missing", "print(1)") == "1\n"
