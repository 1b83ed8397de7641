"""The processes on a GPU: whose they are, and how strangers' are ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
import pytest
from textual.pilot import Pilot

from gmg_tui.model import GpuProcess
from gmg_tui.ui import Outcome
from gmg_tui.ui.screens.confirm import ConfirmScreen
from gmg_tui.ui.screens.main import MainScreen
from gmg_tui.ui.screens.processes.screen import ProcessesScreen
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, press


class Looking(NamedTuple):
    """The list of processes, open."""

    pilot: Pilot[Outcome]
    engine: FakeEngine

    def row(self, word: str) -> str:
        """The first row with `word` in it."""
        return next((row for row in play.screen(self.pilot.app) if word in row), "")


def _ask_again(screen: Looking) -> None:
    """Have the screen ask the engine now rather than when its time comes."""
    shown = screen.pilot.app.screen
    assert isinstance(shown, ProcessesScreen)
    shown.keep_asking()


@asynccontextmanager
async def looking(engine: FakeEngine | None = None, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Looking]:
    engine = engine or stage.engine()
    app = stage.app(engine)
    async with app.run_test(size=size) as pilot:
        await press(pilot, "p")
        await play.sees(pilot, "processes on the GPU")
        yield Looking(pilot, engine)


def _on_gpu(engine: FakeEngine, *processes: GpuProcess) -> None:
    engine.details_of["gpu0"] = msgspec.structs.replace(stage.details(), processes=processes)


async def test_each_row_says_whose_the_process_is() -> None:
    async with looking() as screen:
        await play.sees(screen.pilot, "3 processes", "gpu0", "H100 80GB")
        assert screen.row(" 5200 ").split()[:8] == ["▸", "5200", "ada", "39:12", "29.4", "GiB", "gpu0", "worker"]
        xorg = screen.row(" 811 ")
        assert xorg.split()[:7] == ["811", "root", "10d", "00h", "96", "MiB", "not"]
        assert "not ours" in xorg
        hidden = screen.row(" 7340112 ")
        assert hidden.split()[:4] == ["7340112", "–", "–", "n/a"]
        assert "not visible" in hidden
        await play.sees(screen.pilot, "/home/ada/venv/bin/python franka.py -B 4096")
        await press(screen.pilot, "escape")
        assert isinstance(screen.pilot.app.screen, MainScreen)


@pytest.mark.parametrize(("key", "signal", "kill"), [("x", "SIGTERM", False), ("X", "SIGKILL", True)])
async def test_a_strangers_process_is_ended_after_a_question(key: str, signal: str, kill: bool) -> None:
    async with looking() as screen:
        await play.sees(screen.pilot, "Xorg")
        await press(screen.pilot, "down", key)
        await play.sees(screen.pilot, f"Send {signal} to root's process 811, /usr/lib/xorg/Xorg :0?")
        await press(screen.pilot, "enter")
        assert asked(screen.engine) == []
        await press(screen.pilot, key, "y")
        assert asked(screen.engine) == [("end_process", "gpu0", 811, kill)]
        await play.sees(screen.pilot, f"Sent {signal} to process 811.")


@pytest.mark.parametrize("keys", [("x", "x"), ("X", "X"), ("x", "X")])
async def test_two_keys_in_one_burst_ask_once(keys: tuple[str, str]) -> None:
    async with looking() as screen:
        await play.sees(screen.pilot, "Xorg")
        await press(screen.pilot, "down")
        play.burst(screen.pilot, *keys)
        await play.sees(screen.pilot, "to root's process 811")
        for _ in range(4):
            await screen.pilot.pause()
        assert [type(one) for one in screen.pilot.app.screen_stack].count(ConfirmScreen) == 1
        await press(screen.pilot, "n")
        assert isinstance(screen.pilot.app.screen, ProcessesScreen)
        assert asked(screen.engine) == []


async def test_a_workers_own_process_is_refused() -> None:
    async with looking() as screen:
        await play.sees(screen.pilot, "Xorg")
        await press(screen.pilot, "x", "X")
        await play.sees(screen.pilot, "Process 5200 is the worker of gpu0")
        assert asked(screen.engine) == []
        await press(screen.pilot, "j")
        assert "is the worker of gpu0" not in play.shown(screen.pilot.app)


async def test_r_asks_for_the_processes_again_and_restarts_nothing() -> None:
    engine = stage.engine()
    async with looking(engine) as screen:
        await play.sees(screen.pilot, "Xorg")
        _on_gpu(engine, GpuProcess(4, "python", 96.0, "eve", "another job"))
        await press(screen.pilot, "r")
        await play.sees(screen.pilot, "another job", "1 process ")
        await press(screen.pilot, "R", "e")
        assert asked(engine) == []
        assert isinstance(screen.pilot.app.screen, ProcessesScreen)


async def test_what_the_engine_refuses_is_shown() -> None:
    async with looking() as screen:
        await play.sees(screen.pilot, "Xorg")
        screen.engine.refuse = "process 811 is root's: ask them, or use sudo kill 811"
        await press(screen.pilot, "j", "x", "y")
        await play.sees(screen.pilot, "process 811 is root's: ask them, or use sudo kill 811")


async def test_the_choice_stays_on_its_process_while_others_come_and_go() -> None:
    engine = stage.engine()
    one, two, three = (GpuProcess(pid, "python", 96.0, "eve", f"job-{pid}") for pid in (10, 20, 30))
    _on_gpu(engine, one, two, three)
    async with looking(engine) as screen:
        await play.sees(screen.pilot, "job-30")
        await press(screen.pilot, "j")
        _on_gpu(engine, two, three)
        _ask_again(screen)
        await play.sees(screen.pilot, "2 processes")
        assert screen.row("▸").split()[1] == "20"
        _on_gpu(engine, three)
        _ask_again(screen)
        await play.sees(screen.pilot, "1 process ")
        assert screen.row("▸").split()[1] == "30"
        _on_gpu(engine)
        _ask_again(screen)
        await play.sees(screen.pilot, "No process uses memory on this GPU.")
        await press(screen.pilot, "x")
        await play.sees(screen.pilot, "There is no process to end.")


@pytest.mark.parametrize("size", [(60, 12), (80, 24), (120, 36)])
async def test_more_processes_than_rows_scroll_with_the_choice(size: tuple[int, int]) -> None:
    engine = stage.engine()
    many = 60
    _on_gpu(engine, *(GpuProcess(1000 + n, "python", 96.0, "eve", f"job-{n}") for n in range(many)))
    async with looking(engine, size) as screen:
        await play.sees(screen.pilot, "job-0")
        play.burst(screen.pilot, *["down"] * (many + 3))
        await play.sees(screen.pilot, f"▸ {' ' * 4}{1000 + many - 1}")
        play.burst(screen.pilot, *["k"] * (many + 3))
        await play.sees(screen.pilot, f"▸ {' ' * 4}1000")
        await press(screen.pilot, "down", "down")
        await play.sees(screen.pilot, f"▸ {' ' * 4}1002")
        assert "esc back" in play.shown(screen.pilot.app)


async def test_a_share_of_the_cpu_has_no_gpu() -> None:
    async with looking(stage.cpu_engine()) as screen:
        await play.sees(screen.pilot, "cpu0 is a share of the CPU and has no GPU.")
        await press(screen.pilot, "x")
        await play.sees(screen.pilot, "There is no process to end.")


async def test_a_gpu_without_a_report_is_not_an_empty_one() -> None:
    engine = stage.engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(stage.details(), processes=None)
    async with looking(engine) as screen:
        await play.sees(screen.pilot, "The driver does not report this GPU's processes.")
