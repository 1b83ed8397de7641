"""The details of one worker: four sections, on any terminal, and the keys that act on the worker shown."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from gmg_tui.model import Attempt, AttemptMetrics, Fps, Slot, WorkerState
from gmg_tui.ui import Outcome
from gmg_tui.ui.drawing import words
from gmg_tui.ui.screens.details import comparison, sections
from gmg_tui.ui.screens.details.screen import SECTIONS, DetailsScreen
from gmg_tui.ui.screens.details.sections import Subject
from gmg_tui.ui.widgets.row_view import RowView
from tests.ui import play, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, press

SIZES = [(60, 12), (80, 24), (120, 36)]
_LOOK = stage.app().appearance


@asynccontextmanager
async def detailed(
    engine: FakeEngine | None = None, *keys: str, size: tuple[int, int] = (80, 24), slot: str = ""
) -> AsyncIterator[Pilot[Outcome]]:
    app = stage.app(engine)
    async with app.run_test(size=size) as pilot:
        app.state.choose(slot)
        await press(pilot, "enter", *keys)
        yield pilot


# Attempts


def test_the_figures_before_and_after_an_edit_stand_beside_each_other_with_the_difference() -> None:
    worker, appearance = stage.snapshot().workers[0], _LOOK
    subject = Subject(stage.GPU_SESSION.slots[0], worker, None, stage.NOW, stage.details(), None)
    rows = [" ".join(strip.text.split()) for strip in sections.attempts(subject, 80, appearance)[0]]
    for row in (
        "before after difference",
        "attempt 1 2",
        "FPS 13,020,115 24,013,029 +84 %",
        "envs 2,048 4,096 +100 %",
        "VRAM peak GiB 16.6 30.2 +82 %",
        "GPU % 71 97 +37 %",
        "power W 455 612 +35 %",
        "args before -B 2048 -e run-0",
        "args after -B 4096 -e run-0",
        "2 ● running 4,096 24,200,311 97 30.2 612 39.5k",
        "39:12 -B 4096 -e run-0",
        "1 ■ stopped 2,048 13,020,115 71 16.6 455 28.6k",
        "40 s -B 2048 -e run-0",
        "stopped by a person, exit SIGINT",
    ):
        assert row in rows
    assert rows.index("stopped by a person, exit SIGINT") > rows.index("39:12 -B 4096 -e run-0")


def test_with_room_the_attempts_have_all_columns_and_how_even_their_rate_was() -> None:
    told = stage.details()
    metrics = msgspec.structs.replace(told.attempts[0].metrics or AttemptMetrics(1, ()), settled=13.1e6, spread=310e3)
    attempts = (msgspec.structs.replace(told.attempts[0], metrics=metrics), *told.attempts[1:])
    details = msgspec.structs.replace(told, attempts=attempts)
    subject = Subject(stage.GPU_SESSION.slots[0], stage.snapshot().workers[0], None, stage.NOW, details, None)
    rows = [" ".join(strip.text.split()) for strip in sections.attempts(subject, 100, _LOOK)[0]]
    for row in (
        "# state exit elapsed envs FPS ~ GPU % VRAM GiB W FPS/W",
        "2 ● running 39:12 4,096 24,200,311 97 30.2 612 39.5k",
        "1 ■ stopped SIGINT 40 s 2,048 13,100,000 ~310k 71 16.6 455 28.8k",
        "stopped by a person",
    ):
        assert row in rows


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (100.0, 184.4, "+84 %"),
        (100.0, 50.0, "-50 %"),
        (2.0, 2.0, "+0 %"),
        (0.0, 5.0, ""),
        (None, 5.0, ""),
        (5, None, ""),
    ],
)
def test_a_difference_is_said_where_it_can_be(before: float | None, after: float | None, said: str) -> None:
    assert words.difference(before, after) == said


@pytest.mark.parametrize(("code", "said"), [(None, ""), (0, "0"), (3, "3"), (-9, "SIGKILL"), (-40, "signal 40")])
def test_an_exit_code_is_named(code: int | None, said: str) -> None:
    assert comparison.exit_of(code) == said


async def test_a_failed_attempt_has_its_reason_and_figures_not_known_are_dashes() -> None:
    engine = stage.engine()
    failed = Attempt(3, ("-B", "9"), 9, stage.NOW - 9, stage.NOW, 1, WorkerState.FAILED, "out of memory on the card")
    engine.details_of["gpu0"] = msgspec.structs.replace(stage.details(), attempts=(failed,))
    async with detailed(engine, "2") as pilot:
        await play.sees(pilot, "✗ failed            –", "9 s  -B 9", "out of memory on the card, exit 1")


# Setup and GPU


async def test_setup_has_command_environment_and_why_there_is_no_egl_device() -> None:
    engine = stage.engine()
    why = "unset: no EGL device of this card is open to this user"
    engine.details_of["gpu1"] = msgspec.structs.replace(stage.details("gpu1"), egl=why)
    async with detailed(engine, "3", slot="gpu1") as pilot:
        await play.sees(
            pilot,
            "/home/ada/venv/bin/python franka.py -B 4096 -e run-1 --seed 1",
            "-B 4096 -e run-{i} --seed {seed}",
            "GS_CACHE=/tmp/cache-{i}",
            "CUDA_VISIBLE_DEVICES=1",
            "DISPLAY LOCAL_RANK",
        )
        await press(pilot, "end")
        await play.sees(pilot, why)


async def test_gpu_has_what_the_gpu_reports_and_its_processes() -> None:
    async with detailed(None, "4", size=(120, 60)) as pilot:
        shown = re.sub(" +", " ", play.shown(pilot.app))
    for text in (
        "GPU NVIDIA H100 80GB HBM3",
        "index 0, PCI 00000000:01:00.0",
        "UUID GPU-4d23aa10-0000",
        "persistence on",
        "FPS 24,013,029",
        "mean, max 24.0M, 24.4M of 812 samples",
        "progress iteration 412 of 1,000, 55:40 left",
        "process tree CPU 131 %, RAM 6.0 GiB",
        "Genesis 1.4.5 on cuda, NVIDIA H100 80GB HBM3",
        "GPU 97 %, memory 41 %",
        "VRAM 30.2 of 79.6 GiB",
        "power 612 of 700 W",
        "temperature 61 °C",
        "SM clock 1755 of 1980 MHz",
        "throttled power cap",
        "fan n/a",
        "PCIe in 312, out 4 MiB/s",
        "energy 397 Wh here, 25.4 kWh total",
        "5200 ada 39:12 29.4 GiB gpu0 worker",
        "811 root 10d 00h 96 MiB not ours /usr/lib/xorg/Xorg :0",
    ):
        assert text in shown, text


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("section", "last"), [("2", "stopped by a person"), ("3", "EGL device 0 is the card"), ("4", "not visible")]
)
async def test_scrolling_reaches_the_last_line_on_any_terminal(size: tuple[int, int], section: str, last: str) -> None:
    async with detailed(None, section, size=size) as pilot:
        await press(pilot, "end")
        await play.sees(pilot, last)
        body = pilot.app.screen.query_one("#body")
        assert body.scroll_y == body.max_scroll_y
        await press(pilot, "pageup", "home", "j", *["k"] * 20)
        assert body.scroll_y == 0
        await play.sees(pilot, "esc back", "1 of 4")


# Keys


async def test_sections_are_reached_by_their_numbers_and_by_tab() -> None:
    async with detailed() as pilot:
        await play.sees(pilot, "[1 charts]", "1 column")
        for key, name in (("tab", "2 attempts"), ("tab", "3 setup"), ("tab", "4 GPU"), ("tab", "1 charts")):
            await press(pilot, key)
            await play.sees(pilot, f"[{name}]")
        await press(pilot, "shift+tab")
        await play.sees(pilot, "[4 GPU]")
        await press(pilot, "2")
        await play.sees(pilot, "[2 attempts]", "+84 %")


async def test_h_and_l_show_the_neighbour_and_choose_it() -> None:
    async with detailed(None, "3") as pilot:
        app = cast("FakedApp", pilot.app)
        await press(pilot, "l", "right", "h")
        await play.sees(pilot, "2 of 4", "-e run-1", "[3 setup]")
        assert app.state.chosen == "gpu1"
        await press(pilot, "h", "h", "left")
        await play.sees(pilot, "1 of 4", "-e run-0")
        await press(pilot, *"llllll")
        await play.sees(pilot, "4 of 4", "-e run-3")
        await press(pilot, "escape")
        assert app.screen is app.main
        await play.sees(pilot, "gpu3 log")


@pytest.mark.parametrize(
    ("keys", "request_"),
    [
        (["r"], ("restart", "gpu1")),
        (["x"], ("stop", "gpu1")),
        (["X", "y"], ("kill", "gpu1")),
        (
            ["e", "end", "backspace", "ctrl+s"],
            ("edit", ("gpu1",), (*stage.ARGS[:-1], "{seed"), {"GS_CACHE": "/tmp/cache-{i}"}),
        ),
    ],
)
async def test_keys_act_on_the_worker_shown(keys: list[str], request_: tuple[object, ...]) -> None:
    engine = stage.engine()
    async with detailed(engine, "l", *keys) as pilot:
        assert asked(engine) == [request_]
        await play.sees(pilot, "2 of 4")


async def test_other_screens_open_above_and_the_main_screens_keys_do_nothing() -> None:
    async with detailed() as pilot:
        await press(pilot, "t", "f", "slash", "enter", "n")
        await play.sees(pilot, "[1 charts]")
        await press(pilot, "p")
        await play.sees(pilot, "processes on the GPU")
        await press(pilot, "escape", "question_mark")
        await play.sees(pilot, "Help")
        await press(pilot, "escape")
        await play.sees(pilot, "[1 charts]")
        await press(pilot, "q")
        await play.sees(pilot, "Quit franka-1")


async def test_what_the_engine_refuses_is_shown_at_once() -> None:
    engine = stage.engine()
    async with detailed(engine) as pilot:
        await play.sees(pilot, "1 column")
        engine.refuse = "gpu0 is being stopped already"
        await press(pilot, "x")
        assert "gpu0 is being stopped already" in play.shown(pilot.app)


# What comes


async def test_each_snapshot_is_shown_and_trouble_stands_above_the_section() -> None:
    engine = stage.engine()
    async with detailed(engine) as pilot:
        await play.sees(pilot, "FPS 24,013,029", "attempt 2")
        engine.push(stage.snapshot(fps=Fps(31.5, 31.0, 32.0, 4), stuck="no output for 74 s", attempt=3, pid=77))
        await play.sees(pilot, "FPS 31.50", "attempt 3  PID 77", "STUCK running", "▸ no output for 74 s")
        engine.push(stage.snapshot(state=WorkerState.FAILED, reason="nan in entity 3", advice="a smaller dt", pid=None))
        await play.sees(pilot, "✗ failed", "▸ nan in entity 3", "▸ a smaller dt")
        assert "STUCK" not in play.shown(pilot.app)


@pytest.mark.parametrize("size", SIZES)
async def test_many_warnings_leave_room_for_the_section_which_has_them_all(size: tuple[int, int]) -> None:
    engine = stage.engine(warnings=tuple(f"warning {number} " + "and more " * 12 for number in range(6)))
    async with detailed(engine, size=size) as pilot:
        await play.sees(pilot, "see section 4 for all of this", "[1 charts]", "esc back")
        await press(pilot, "4")
        body = pilot.app.screen.query_one("#body")
        seen = play.shown(pilot.app)
        while body.scroll_y < body.max_scroll_y:
            await press(pilot, "pagedown")
            seen += play.shown(pilot.app)
        assert all(f"warning {number} " in seen for number in range(6))


async def test_an_engine_that_gives_no_details_is_said_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.ui.screens.queries.PERIOD_S", 0.01)
    engine = stage.engine()
    engine.refuse = "the engine is busy"
    async with detailed(engine, "3") as pilot:
        await play.sees(pilot, "the engine is busy", "Waiting for the engine")
        engine.refuse = ""
        await play.sees(pilot, "DISPLAY LOCAL_RANK")
        assert "busy" not in play.shown(pilot.app)


async def test_a_share_of_the_cpu_is_shown_without_a_gpu() -> None:
    async with detailed(stage.cpu_engine(), "1") as pilot:
        await play.sees(pilot, "cpu0 · CPU", "FPS 24,013,029")
        assert "VRAM" not in play.shown(pilot.app)
        await press(pilot, "4", "end")
        await play.sees(pilot, "cpu0 is a share of the CPU and has no GPU.")


async def test_a_slot_without_a_worker_breaks_nothing() -> None:
    engine = stage.engine()
    slots = (*stage.GPU_SESSION.slots, Slot("gpu9", stage.GPU_SESSION.slots[0].kind, stage.gpu(9)))
    engine.welcome = msgspec.structs.replace(
        engine.welcome, session=msgspec.structs.replace(stage.GPU_SESSION, slots=slots)
    )
    async with detailed(engine, slot="gpu9") as pilot:
        await press(pilot, "2", "3", "4", "h")
        await play.sees(pilot, "4 of 5")


def test_figures_of_an_edit_that_has_none_yet_are_dashes() -> None:
    worker = msgspec.structs.replace(stage.snapshot().workers[0], now=None, before=AttemptMetrics(1, (), fps=5000.0))
    subject = Subject(stage.GPU_SESSION.slots[0], worker, None, stage.NOW, None, None)
    rows = [" ".join(strip.text.split()) for strip in sections.attempts(subject, 80, _LOOK)[0]]
    assert "FPS 5,000 –" in rows
    assert "args before no arguments" in rows


@pytest.mark.parametrize("section", ["2", "3", "4"])
async def test_no_letter_is_under_the_scroll_bar(section: str) -> None:
    engine = stage.engine(reason="r" * 500)
    words = [f"--word-{number:03}" for number in range(60)]
    details = stage.details()
    attempts = tuple(msgspec.structs.replace(one, args=tuple(words)) for one in details.attempts)
    processes = tuple(msgspec.structs.replace(one, command=None) for one in details.processes or ())
    engine.details_of["gpu0"] = msgspec.structs.replace(
        details, command=tuple(words), attempts=attempts, processes=processes * 9
    )
    async with detailed(engine, section, size=(60, 15)) as pilot:
        body = pilot.app.screen.query_one("#body", VerticalScroll)
        await pilot.pause()
        assert body.max_scroll_y > 0
        rows = pilot.app.screen.query_one("#body > RowView", RowView)._rows
        assert max(len(row.text.rstrip()) for row in rows) <= body.scrollable_content_region.width
        if section != "4":
            assert " ".join(words) in " ".join(" ".join(row.text for row in rows).split())


async def test_setup_names_the_log_and_what_prints_it() -> None:
    async with detailed(None, "3") as pilot:
        await play.sees(pilot, "sessions/franka-1/logs/gpu0.log", "gmg-tui logs franka-1 gpu0")


async def test_setup_names_the_log_of_the_job_in_a_sweep() -> None:
    app = sweeps.app()
    async with app.run_test(size=(120, 36)) as pilot:
        await press(pilot, "enter", "3")
        await play.sees(pilot, "sweep-1/logs/0013-", "gmg-tui logs sweep-1 13")


async def test_an_answer_that_comes_when_it_is_being_closed_breaks_nothing() -> None:
    app = stage.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "[1 charts]")
        page = app.screen
        assert isinstance(page, DetailsScreen)
        await page.remove_children()  # as the first step of taking it away
        for section in SECTIONS:
            page.action_show(section)
        await page.ask()
        await press(pilot, "escape")
        await play.sees(pilot, "gpu0 log")
