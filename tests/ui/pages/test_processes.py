"""The processes on a GPU: whose they are, kept up to date."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gmg_tui.model import GpuProcess
from gmg_tui.ui.pages.processes import ProcessesPage
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import press

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


async def test_without_a_list_of_processes_the_reason_is_shown() -> None:
    engine = play.edited_engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(sessions.details(), processes=None)
    async with opened(engine, "The driver does not report this GPU's processes."):
        pass
    async with opened(play.engine_of(sessions.cpu_snapshot(), cpus=2), "cpu0 is a share of the CPU and has no GPU."):
        pass
