"""The settled rate on its way: from a worker's lines to the summary, the store, and what an edit is compared with."""

from __future__ import annotations

import os
import signal
import sys
from asyncio import create_subprocess_exec, subprocess
from pathlib import Path

import pytest

from gmg_tui.model import WorkerState, total_fps
from gmg_tui.session import STORE
from gmg_tui.store.reader import open_store
from tests.patience import eventually

from .harness import running, spec_for

_LONG = ("--lines", "0", "--fps", "128000")


async def _report(name: str, *words: str) -> str:
    process = await create_subprocess_exec(
        sys.executable, "-m", "gmg_tui", "report", name, *words, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_the_summary_contains_the_settled_and_the_printed_rate() -> None:
    # Genesis' average is far from settled after so few lines.
    async with running(spec_for("--lines", "20", "--fps", "128000", cpu=2)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
        summary = run.summary()
    lasts = [worker["fps"]["last"] for worker in summary["workers"]]
    settled = [worker["fps"]["settled"] for worker in summary["workers"]]
    assert all(rate == pytest.approx(128_000, rel=0.01) for rate in settled)
    assert all(last < 100_000 for last in lasts)
    assert summary["total_fps"] == sum(lasts)
    assert summary["total_fps_settled"] == pytest.approx(sum(settled))


def _ends_in_a_gap(store: Path, slot: str) -> bool:
    with open_store(store) as stored:
        return [row.fps is None for row in stored.metrics(10_000) if row.slot == slot][-1:] == [True]


async def test_a_rate_without_recent_lines_is_marked_and_leaves_a_gap() -> None:
    async with running(spec_for(*_LONG, cpu=2)) as run:
        await run.until(lambda _: all(worker.current_fps is not None for worker in run.snapshot.workers))
        pid = run.worker("cpu0").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await run.until(lambda _: run.worker("cpu0").fps_silent_since is not None)
            silent, other = run.worker("cpu0"), run.worker("cpu1")
            assert silent.fps_silent_since is not None
            assert run.snapshot.time - silent.fps_silent_since >= 5
            assert (silent.state, silent.current_fps) == (WorkerState.RUNNING, None)
            assert silent.fps is not None
            assert other.fps is not None
            assert other.fps_silent_since is None
            assert total_fps(run.snapshot.workers) == other.fps.settled
            await eventually(lambda: _ends_in_a_gap(run.folder / STORE, "cpu0"))
        finally:
            os.kill(pid, signal.SIGCONT)
        await run.until(lambda _: run.worker("cpu0").current_fps is not None)
