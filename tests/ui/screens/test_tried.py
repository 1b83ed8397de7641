"""The table of all that was tried: what it shows, its order, its cursor, and the way into the edit dialog."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec import structs
from textual.pilot import Pilot

from gmg_tui.model import Tried, TriedView
from gmg_tui.ui import Outcome
from gmg_tui.ui.screens import queries
from gmg_tui.ui.screens.tried import table
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens.pictures import LARGE, SMALL, Compare, drawn
from tests.ui.screens.stage import asked, click, press

_LOOK = play.busy(1).appearance
_PLAIN = play.app_of(play.engine_of(sessions.busy_snapshot(1)), ascii_only=True).appearance


def _tried(n_envs: int, rate: float | None, **more: Any) -> Tried:
    fields: dict[str, Any] = {
        "slots": tuple(f"gpu{index}" for index in range(8)),
        "attempts": 8,
        "started": sessions.NOW - n_envs,
        "elapsed_s": 8 * 190.0,
        "measured": 8 if rate else 0,
        "rate": rate,
        "margin": 0.004 * rate if rate else None,
        "n_envs": n_envs,
        "memory_peak_mib": 430 + 0.79 * n_envs,
        "gpu_util_pct": 97.0,
        "power_w": 612.0,
        "fps_per_watt": rate / 612 if rate else None,
    }
    return Tried(("-B", str(n_envs), "--seed", "{seed}"), **(fields | more))


OUT_OF_MEMORY = "CUDA out of memory: 61.4 GiB more were asked for, 12.1 GiB were free"
ROWS = (
    _tried(131_072, None, failed=8, reason=OUT_OF_MEMORY, power_w=None, elapsed_s=72.0),
    _tried(16_384, 24_910_400.0, running=8),
    _tried(32_768, 22_014_000.0, measured=1, margin=None, spread=310e3, slots=("gpu3",), attempts=1),
    _tried(4096, 21_100_000.0, env={"GS_ENABLE_NDARRAY": "0"}),
    _tried(1024, 9_870_000.0),
)


def _engine(rows: tuple[Tried, ...] = ROWS, left_out: int = 0) -> FakeEngine:
    engine = play.engine_of(sessions.busy_snapshot())
    engine.tried_so_far = TriedView(rows, left_out)
    return engine


@asynccontextmanager
async def looking(engine: FakeEngine, size: tuple[int, int] = SMALL) -> AsyncIterator[Pilot[Outcome]]:
    async with play.app_of(engine).run_test(size=size) as pilot:
        await press(pilot, "a")
        await play.sees(pilot, "tried", "▸" if engine.tried_so_far.rows else "Nothing")
        yield pilot


def _envs(pilot: Pilot[Outcome]) -> list[str]:
    """The environments of the rows, in their order; `▸` before the chosen one."""
    found = []
    for row in play.screen(cast("FakedApp", pilot.app))[2:-3]:
        words = row.replace("best", "").replace("●", "").replace("✗", "").split()
        if words and words[0] == "▸":
            found.append(f"▸{words[1]}")
        elif words and words[0][0].isdigit():
            found.append(words[0])
    return found


def _plain(row: str) -> str:
    """A row with single spaces."""
    return " ".join(row.split())


async def test_it_has_what_each_set_of_arguments_reached_and_marks_the_best() -> None:
    async with looking(_engine()) as pilot:
        rows = play.screen(cast("FakedApp", pilot.app))
        assert _plain(rows[0]) == "tried 5 sets of arguments by FPS, the largest first 1 of 5"
        assert _plain(rows[1]) == "envs FPS ± VRAM GiB GPU % W FPS/W slots time"
        assert _plain(rows[2]) == "▸● best 16,384 24,910,400 ±99.6k 13.1 97 612 40.7k 8 slots 25:20"
        assert _plain(rows[3]) == "32,768 22,014,000 ~310k 25.7 97 612 36.0k gpu3 25:20"
        assert _plain(rows[6]) == "✗ 131,072 – 101.5 97 – – 8 slots 1:12"
        await play.sees(pilot, "-B 16384 --seed {seed}", "8 attempts (8 running) on gpu0, gpu1")
        await press(pilot, "end")
        await play.sees(pilot, "8 attempts (8 failed)", OUT_OF_MEMORY)


async def test_a_wide_terminal_has_the_arguments_in_the_rows() -> None:
    async with looking(_engine(), LARGE) as pilot:
        await play.sees(pilot, "tries  arguments", "8  GS_ENABLE_NDARRAY=0 -B 4096 --seed {seed}")


@pytest.mark.parametrize("width", [1, 2, 5, 8, *range(20, 200, 7)])
def test_rows_fit_any_width(width: int) -> None:
    for look in (_LOOK, _PLAIN):
        assert table.heading(width, table.ORDERS[0], look).strip().cell_length == width
        for one in ROWS:
            row = table.row(one, width, look, chosen=True, best=True).strip()
            assert row.cell_length == width
            assert look is _LOOK or row.text.isascii()
            for line in table.detail(one, width, look).rows:
                assert line.cell_length == width


async def test_it_sorts_by_every_column_and_the_other_way_round() -> None:
    async with looking(_engine()) as pilot:
        assert _envs(pilot) == ["▸16,384", "32,768", "4,096", "1,024", "131,072"]
        await press(pilot, "s")
        # What has no rate stays at the end, and the cursor on its row.
        assert _envs(pilot) == ["1,024", "4,096", "32,768", "▸16,384", "131,072"]
        await press(pilot, "right")
        assert _envs(pilot) == ["131,072", "32,768", "▸16,384", "4,096", "1,024"]
        for order in table.ORDERS[2:]:
            await press(pilot, "l")
            await play.sees(pilot, f"by {order.name}, the {'newest' if order.name == 'start' else 'largest'} first")
        assert _envs(pilot) == ["1,024", "4,096", "▸16,384", "32,768", "131,072"]
        await press(pilot, "l")
        await play.sees(pilot, "by FPS, the largest first")
        await press(pilot, "left", "h")
        await play.sees(pilot, "by time, the largest first")


async def test_while_it_is_open_it_refreshes_and_the_cursor_stays_on_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PERIOD_S", 0.01)
    engine = _engine()
    async with looking(engine) as pilot:
        await press(pilot, "down", "down")
        assert _envs(pilot)[2] == "▸4,096"
        better = structs.replace(ROWS[3], rate=25_000_000.0)
        engine.tried_so_far = TriedView((_tried(2048, 23e6), *ROWS[:3], better, ROWS[4]))
        await play.sees(pilot, "25,000,000")
        assert _envs(pilot) == ["▸4,096", "16,384", "2,048", "32,768", "1,024", "131,072"]
        engine.tried_so_far = TriedView(ROWS[:2])
        await play.sees(pilot, "2 sets of arguments")
        assert _envs(pilot) == ["▸16,384", "131,072"]


async def test_a_long_table_scrolls_with_the_cursor_and_the_mouse() -> None:
    rows = tuple(_tried(number, 1000.0 - number) for number in range(1, 301))
    async with looking(_engine(rows, left_out=4711)) as pilot:
        await play.sees(pilot, "4,711 more are not kept", "300 sets of arguments", "▸")
        await press(pilot, "end")
        assert _envs(pilot)[-1] == "▸300"
        await press(pilot, "pageup")
        await play.sees(pilot, "▸")
        await press(pilot, "home")
        assert _envs(pilot)[0] == "▸1"
        await press(pilot, "pagedown")
        assert _envs(pilot)[-1] == "▸17"
        await click(pilot, "997")
        assert _envs(pilot)[2] == "▸3"
        await press(pilot, "up")
        assert _envs(pilot)[1] == "▸2"


async def test_enter_takes_the_arguments_into_the_edit_dialog_of_the_chosen_worker() -> None:
    engine = _engine()
    async with play.app_of(engine).run_test(size=LARGE) as pilot:
        await press(pilot, "right", "a")
        await play.sees(pilot, "tried", "▸")
        await press(pilot, "down", "down", "enter")
        await play.sees(pilot, "Edit gpu1", "-B 4096 --seed {seed}", "GS_ENABLE_NDARRAY=0", "gpu1 will restart")
        await press(pilot, "ctrl+s")
        await pilot.pause()
        args, env = ("-B", "4096", "--seed", "{seed}"), {"GS_ENABLE_NDARRAY": "0"}
        assert ("edit", ("gpu1",), args, env) in asked(engine)
        await play.sees(pilot, "5 sets of arguments")


async def test_what_cannot_be_edited_is_said_in_the_table() -> None:
    engine = _engine()
    async with looking(engine) as pilot:
        engine.refuse = "the session is being stopped; start another one"
        await press(pilot, "enter")
        await play.sees(pilot, "the session is being stopped")


async def test_keys_of_the_main_screen_that_act_on_a_worker_do_nothing_here() -> None:
    engine = _engine()
    async with looking(engine) as pilot:
        await press(pilot, "r", "x", "e", "p", "R")
        assert {request[0] for request in engine.asked} <= {"follow", "tried"}
        await press(pilot, "escape")
        await play.sees(pilot, "gpu0 log")


async def test_before_anything_has_started_it_says_so() -> None:
    async with looking(_engine(())) as pilot:
        await play.sees(pilot, "Nothing has been tried yet.")
        await press(pilot, "down", "enter", "s", "right", "end")


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x48"])
def test_pictures(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert drawn(snap_compare, play.app_of(_engine()), size, "a down", "▸")


def test_picture_in_ascii(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.app_of(_engine(left_out=12), ascii_only=True), SMALL, "a end", "out of memory")
