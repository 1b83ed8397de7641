"""All that was tried: what the rows have, their order, and the way into the edit dialog."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot

from gmg_tui.model import ArgumentResults
from gmg_tui.ui.pages.tried import TriedPage
from tests import tunings
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import asked, click, press
from tests.ui.screens.pictures import LARGE, SMALL


def _tried(n_envs: int, rate: float | None, **more: Any) -> ArgumentResults:
    fields: dict[str, Any] = {
        "slots": tuple(f"gpu{index}" for index in range(8)),
        "attempts": 8,
        "started": sessions.NOW - n_envs,
        "elapsed_s": 8 * 190.0,
        "measured": 8 if rate else 0,
        "rate": rate,
        "n_envs": n_envs,
        "memory_peak_mib": 430 + 0.79 * n_envs,
        "gpu_util_pct": 97.0,
        "power_w": 612.0,
        "fps_per_watt": rate / 612 if rate else None,
    }
    return ArgumentResults(("-B", str(n_envs), "--seed", "{seed}"), **(fields | more))


OUT_OF_MEMORY = "CUDA out of memory: 61.4 GiB more were asked for, 12.1 GiB were free"
ROWS = (
    _tried(131_072, None, failed=8, reason=OUT_OF_MEMORY, power_w=None, elapsed_s=72.0),
    _tried(16_384, 24_910_400.0, running=8),
    _tried(32_768, 22_014_000.0, measured=1, slots=("gpu3",), attempts=1),
    _tried(4096, 21_100_000.0, env={"GS_ENABLE_NDARRAY": "0"}),
    _tried(1024, 9_870_000.0),
)


def engine(rows: tuple[ArgumentResults, ...] = ROWS) -> FakeEngine:
    fake = play.engine_of(sessions.busy_snapshot())
    fake.tried_so_far = rows
    return fake


@asynccontextmanager
async def opened(engine: FakeEngine, *texts: str, size: tuple[int, int] = SMALL) -> AsyncIterator[Pilot[Any]]:
    async with play.app_of(engine).run_test(size=size) as pilot:
        await press(pilot, "a")
        await play.sees(pilot, "Tried", *texts)
        yield pilot


async def test_each_set_of_arguments_is_listed_with_its_rate_best_first() -> None:
    async with opened(engine(), "5 sets of arguments") as pilot:
        assert tables.headings(pilot.app).startswith("state envs FPS↓ VRAM GiB FPS/W GPU % W slots arguments")
        first, second, *_, last = tables.rows(pilot.app)
        assert first.startswith("fastest running 16,384 24,910,400 13.1 40.7k 97 612 8 slots -B 16384 --seed {seed}")
        assert second.startswith("32,768 22,014,000 25.7")
        assert last.startswith("failed 131,072 – 101.5")
        await play.sees(pilot, "-B 16384 --seed {seed}", "8 attempts (8 running) on gpu0, gpu1")
        await press(pilot, "end")
        await play.sees(pilot, "8 attempts (8 failed)", OUT_OF_MEMORY)


async def test_a_long_reason_leaves_room_for_the_attempts_below_it() -> None:
    async with opened(engine((_tried(1024, None, failed=8, reason="cut " * 50),)), "8 attempts (8 failed)"):
        pass


async def test_in_a_tuning_the_recommended_value_is_marked() -> None:
    fake = FakeEngine(tunings.session(tunings.EDGE), tunings.snapshot(tunings.EDGE))
    app = play.app_of(fake)
    fake.tried_so_far = (_tried(17_000, 9.1e6), _tried(16_384, 9.0e6))
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "a")
        await play.sees(pilot, "2 sets of arguments")
        assert [row.split()[:2] for row in tables.rows(app)] == [["17,000", "9,100,000"], ["recommended", "16,384"]]


async def test_each_number_that_scripts_name_is_a_column() -> None:
    rows = (_tried(1024, 9e6, metrics={"reward": 12.5}), _tried(2048, 8e6, metrics={"reward": 21.0, "state": 1.0}))
    async with opened(engine(rows), "2 sets of arguments") as pilot:
        assert tables.headings(pilot.app).startswith("state envs FPS↓ reward state VRAM GiB")
        assert tables.column(pilot.app, "metric_reward") == ["12.5", "21"]
        assert tables.column(pilot.app, "metric_state") == ["–", "1"]
        await click(pilot, "reward")
        assert tables.column(pilot.app, "metric_reward") == ["21", "12.5"]


async def test_a_diverged_number_is_shown_and_sorted_last_both_ways() -> None:
    rewards = {1024: math.nan, 2048: 6.0, 4096: math.inf, 8192: 7.0}
    rows = tuple(_tried(n_envs, 9e6, metrics={"reward": reward}) for n_envs, reward in rewards.items())
    async with opened(engine(rows), "4 sets of arguments") as pilot:
        await click(pilot, "reward")
        assert tables.column(pilot.app, "metric_reward") == ["7", "6", "nan", "inf"]
        await click(pilot, "reward↓")
        assert tables.column(pilot.app, "metric_reward") == ["6", "7", "nan", "inf"]


async def test_rows_are_sorted_by_heading_or_palette_with_unknown_values_last() -> None:
    async with opened(engine(), "16,384") as pilot:
        app = pilot.app
        assert tables.column(app, "n_envs") == ["16,384", "32,768", "4,096", "1,024", "131,072"]
        await click(pilot, "FPS↓")
        assert tables.column(app, "n_envs") == ["1,024", "4,096", "32,768", "16,384", "131,072"]
        assert "16,384" in tables.selected(app)
        await press(pilot, "ctrl+p", *"sort by envs")
        await play.sees(pilot, "Sort by envs")
        await press(pilot, "enter")
        await play.until(pilot, lambda: "envs↓" in tables.headings(app))
        assert tables.column(app, "n_envs") == ["131,072", "32,768", "16,384", "4,096", "1,024"]
        assert "16,384" in tables.selected(app)


async def test_the_rows_are_current_and_the_cursor_stays_on_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TriedPage, "POLL_INTERVAL_S", 0.2)
    fake = engine()
    async with opened(fake, "16,384") as pilot:
        await press(pilot, "down", "down")
        better = structs.replace(ROWS[3], rate=25_000_000.0)
        fake.tried_so_far = (_tried(2048, 23e6), *ROWS[:3], better, ROWS[4])
        await play.sees(pilot, "25,000,000")
        assert tables.column(pilot.app, "n_envs") == ["4,096", "16,384", "2,048", "32,768", "1,024", "131,072"]
        assert "25,000,000" in tables.selected(pilot.app)
        fake.tried_so_far = ROWS[:2]
        await play.sees(pilot, "2 sets of arguments")
        assert tables.column(pilot.app, "n_envs") == ["16,384", "131,072"]


async def test_the_edit_dialog_opens_with_the_arguments() -> None:
    fake = engine()
    async with play.app_of(fake).run_test(size=LARGE) as pilot:
        await press(pilot, "right", "a")
        await play.sees(pilot, "16,384")
        await press(pilot, "down", "down", "enter")
        await play.sees(pilot, "Edit gpu1", "-B 4096 --seed {seed}", "GS_ENABLE_NDARRAY=0")
        await press(pilot, "escape", "up")
        await click(pilot, "21,100,000")
        await click(pilot, "21,100,000")
        await play.sees(pilot, "Edit gpu1", "-B 4096 --seed {seed}")
        await press(pilot, "ctrl+s")
        await pilot.pause()
        args, env = ("-B", "4096", "--seed", "{seed}"), {"GS_ENABLE_NDARRAY": "0"}
        assert ("edit", ("gpu1",), args, env) in asked(fake)


async def test_before_the_first_start_the_page_shows_a_message() -> None:
    async with opened(engine(()), "Nothing has been tried yet.") as pilot:
        await press(pilot, "down", "enter", "right", "end")


async def test_sets_that_differ_in_a_masked_value_are_two_rows() -> None:
    rows = tuple(_tried(64, rate, env={"API_KEY": str(rate)}) for rate in (100.0, 200.0))
    async with opened(engine(rows), "2 sets of arguments") as pilot:
        assert len(tables.rows(pilot.app)) == 2
