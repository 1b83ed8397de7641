"""The processes on a GPU, and the Python stacks of a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gmg_tui.model import GpuProcess, RankGroup, Stacks, WorkerState
from gmg_tui.ui.pages.processes import ProcessesPage
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import asked, press

SMALL = (80, 24)


@asynccontextmanager
async def opened(engine: FakeEngine, *texts: str) -> AsyncIterator[Pilot[Any]]:
    """The page of gpu0."""
    async with play.app_of(engine).run_test(size=SMALL) as pilot:
        await press(pilot, "p")
        await play.sees(pilot, *texts)
        yield pilot


def _with(*processes: GpuProcess) -> FakeEngine:
    engine = play.edited_engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(sessions.details(), processes=processes)
    return engine


def _process(pid: int) -> GpuProcess:
    return GpuProcess(pid, "python", float(pid), "eve", f"job-{pid}")


async def test_each_row_has_the_owner_of_its_process() -> None:
    async with opened(play.edited_engine(), "3 processes", "gpu0", "H100 80GB") as pilot:
        assert tables.rows(pilot.app) == [
            "5200 me 39:12 29.4 GiB gpu0 worker /opt/venv/bin/python franka.py -B 4096",
            "811 root 10d 00h 96 MiB not ours /usr/lib/xorg/Xorg :0",
            "7340112 – – not visible python",
        ]
        await press(pilot, "down", "escape")
        assert not isinstance(pilot.app.screen, ProcessesPage)


async def test_the_cursor_stays_on_its_process_while_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessesPage, "PERIOD_S", 0.2)
    engine = _with(_process(10), _process(20), _process(30))
    async with opened(engine, "job-30") as pilot:
        await press(pilot, "j")
        for left, pid, count in (((20, 30), "20", "2 processes"), ((30,), "30", "1 process ")):
            engine.details_of = _with(*map(_process, left)).details_of
            await play.sees(pilot, count)
            assert tables.selected(pilot.app).startswith(pid)
        engine.details_of = _with().details_of
        await play.sees(pilot, "No process uses memory on this GPU.")
        await play.until(pilot, lambda: "No process" in play.screen(pilot.app)[1], "the reason at the top")
        engine.details_of = _with(_process(40)).details_of
        await play.sees(pilot, "job-40")


async def test_without_a_list_of_processes_the_reason_is_shown() -> None:
    engine = play.edited_engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(sessions.details(), processes=None)
    async with opened(engine, "The driver does not report this GPU's processes."):
        pass
    async with opened(play.engine_of(sessions.cpu_snapshot(), cpus=2), "cpu0 is a share of the CPU and has no GPU."):
        pass


# The Python stacks of the ranks of a group

WAITS = """\
Thread 0x00007f12 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f99 (most recent call first):
  File "/home/ada/sim/loop.py", line 12 in all_reduce
  File "/home/ada/sim/train.py", line 48 in main
"""
READS = """\
Current thread 0x00007f98 (most recent call first):
  File "/home/ada/sim/data.py", line 7 in read_batch
  File "/home/ada/sim/train.py", line 48 in main
"""
STOPPED = "it is stopped by a signal and cannot answer; kill -CONT 4712"


def _engine() -> FakeEngine:
    engine = play.edited_engine()
    group = RankGroup("g0", ("gpu0", "gpu1", "gpu2"), WorkerState.RUNNING)
    grouped = msgspec.structs.replace(engine.snapshot, groups=(group,))
    engine.welcome = msgspec.structs.replace(engine.welcome, snapshot=grouped)
    engine.stacks_of = (
        Stacks("gpu0", 0, WAITS),
        Stacks("gpu1", 1, READS),
        Stacks("gpu2", 2, error=STOPPED),
    )
    return engine


async def test_the_stacks_of_all_ranks_are_asked_for_once_and_scrolled() -> None:
    engine = _engine()
    app = play.app_of(engine)
    async with app.run_test(size=(80, 16)) as pilot:
        engine.answers.clear()
        await press(pilot, "do:stacks")
        await play.sees(pilot, "Waiting for the worker")
        engine.answers.set()
        await play.sees(pilot, "rank 0 · gpu0", "line 12 in all_reduce", "line 324 in wait")
        text = play.shown(app)
        assert text.index("Current thread") < text.index("Thread 0x00007f12")
        await press(pilot, "end")
        await play.sees(pilot, "line 7 in read_batch", "rank 2 · gpu2", "it is stopped by a signal")
        await press(pilot, "home")
        await play.sees(pilot, "rank 0 · gpu0")
        assert asked(engine).count(("stacks", "gpu0")) == 1


async def test_a_refusal_is_shown() -> None:
    engine = _engine()
    engine.refuse = "no job has run on gpu0 yet"
    async with play.app_of(engine).run_test(size=(100, 30)) as pilot:
        await press(pilot, "do:stacks")
        await play.sees(pilot, "no job has run on gpu0 yet")
