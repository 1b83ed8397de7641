"""What the mouse does: tabs, rows, headings and lines answer it as the keys do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual import events
from textual.pilot import Pilot

from gmg_tui.model import Stacks
from gmg_tui.ui import Outcome
from tests import tunings
from tests.ui import play, ranks, sweeps
from tests.ui.screens import stage, test_tried, test_tune
from tests.ui.screens.stage import asked, click, press

SMALL, WIDE = (80, 24), (132, 40)


async def _click_twice(pilot: Pilot[Outcome], text: str) -> None:
    row = next(number for number, line in enumerate(play.screen(pilot.app)) if text in line)
    await pilot.click(offset=(play.screen(pilot.app)[row].index(text), row), times=2)
    await pilot.pause()


@pytest.mark.parametrize("size", [SMALL, WIDE])
async def test_the_tabs_of_the_details_can_be_clicked(size: tuple[int, int]) -> None:
    app = stage.app()
    async with app.run_test(size=size) as pilot:
        await press(pilot, "enter")
        await play.sees(pilot, "[1 charts]")
        for tab, inside in (
            ("2 attempts", "Attempts"),
            ("3 setup", "Command line"),
            ("4 GPU", "UUID"),
            ("1 charts", "FPS"),
        ):
            await click(pilot, f" {tab} ")
            await play.sees(pilot, f"[{tab}]", inside)
        before = play.shown(app)
        await pilot.click(
            offset=(size[0] - 1, next(y for y, row in enumerate(play.screen(app)) if "[1 charts]" in row))
        )
        await pilot.pause()
        assert play.shown(app) == before  # beside the tabs there is nothing to click


async def test_attempts_can_be_clicked_wherever_the_section_is_scrolled_to() -> None:
    engine = stage.engine()
    first = stage.details().attempts[0]
    many = tuple(replace(first, number=number) for number in range(1, 31))
    engine.details_of["gpu0"] = replace(stage.details(), attempts=many, settings=())
    app = stage.app(engine)
    async with app.run_test(size=(80, 50)) as pilot:
        await press(pilot, "enter", "2")
        await play.sees(pilot, "▸30 ")
        await click(pilot, " 28 ")
        await play.sees(pilot, "▸28 ")
        await press(pilot, "pagedown")
        await play.until(pilot, lambda: any(row.startswith(" 18 ") for row in play.screen(app)))
        await click(pilot, " 18 ")
        await play.sees(pilot, "▸18 ")
        row = next(number for number, line in enumerate(play.screen(app)) if "▸18 " in line)
        await pilot.click(offset=(12, row - 2))  # what is written under a row belongs to it
        await play.sees(pilot, "▸19 ")


async def _wheel(pilot: Pilot[Outcome], kind: type[events.MouseEvent]) -> None:
    screen = pilot.app.screen
    screen.post_message(kind(screen, 4, 4, 0, 0, 0, False, False, False))
    await pilot.pause()


async def test_processes_can_be_clicked_and_the_wheel_goes_through_them() -> None:
    app = stage.app()

    def chosen() -> str:
        return next(row.split()[1] for row in play.screen(app) if row.startswith("▸"))

    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "p")
        await play.sees(pilot, "3 processes")
        for pid in ("811", "7340112", "5200"):
            await click(pilot, f" {pid} ")
            assert chosen() == pid
        await _wheel(pilot, events.MouseScrollDown)
        assert chosen() == "811"
        await _wheel(pilot, events.MouseScrollUp)
        assert chosen() == "5200"


async def test_stacks_scroll_by_the_wheel() -> None:
    engine = stage.engine()
    frames = "\n".join(f'  File "/sim/loop.py", line {line} in step{line}' for line in range(1, 100))
    engine.stacks_of = (
        Stacks("gpu0", text=f"Current thread 0x1 (most recent call first):\n{frames}\n", source="faulthandler"),
    )
    app = stage.app(engine)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "s")
        await play.sees(pilot, "step1 ")
        await _wheel(pilot, events.MouseScrollDown)
        assert "step1 " not in play.shown(app)
        await _wheel(pilot, events.MouseScrollUp)
        assert "step1 " in play.shown(app)


async def test_a_double_click_shows_the_details_of_a_tile_and_of_a_row() -> None:
    for size in (SMALL, (160, 48)):
        app = play.busy(4)
        async with app.run_test(size=size) as pilot:
            await _click_twice(pilot, "gpu2 ")
            await play.sees(pilot, "[1 charts]", " gpu2 ·")


async def test_a_click_on_a_heading_of_the_table_sorts_by_it_and_again_turns_it_round() -> None:
    app = play.busy(4)
    async with app.run_test(size=(160, 24)) as pilot:
        await press(pilot, "t")
        await play.sees(pilot, "slot state")
        for heading in ("state", "FPS", "envs", "GPU %", "VRAM GiB", "W", "°C", "slot"):
            head = next(number for number, row in enumerate(play.screen(app)) if "slot" in row and "VRAM" in row)
            await pilot.click(offset=(play.screen(app)[head].rindex(heading), head))
            await pilot.pause()
            order, reverse = app.state.arrangement.order, app.state.arrangement.reverse
            names = {"GPU %": "utilisation", "VRAM GiB": "memory", "W": "power", "°C": "temperature"}
            assert order.name.lower() == names.get(heading, heading.lower()), heading
            head = next(number for number, row in enumerate(play.screen(app)) if "slot" in row and "VRAM" in row)
            await pilot.click(offset=(play.screen(app)[head].rindex(heading), head))
            await pilot.pause()
            assert (app.state.arrangement.order, app.state.arrangement.reverse) == (order, not reverse)
        assert app.state.chosen == "gpu0"


async def test_a_click_on_a_groups_line_selects_its_first_rank() -> None:
    app = play.app_of(play.engine_of(ranks.whole()))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        line = next(number for number, row in enumerate(play.screen(app)) if " g1 " in row)
        await pilot.click(offset=(3, line))
        await pilot.pause()
        assert app.state.chosen == "gpu4"


async def test_what_was_tried_sorts_by_a_click_and_is_used_by_two() -> None:
    app = play.app_of(test_tried._engine())
    async with app.run_test(size=(132, 30)) as pilot:
        await press(pilot, "a")
        await play.sees(pilot, "5 sets of arguments")
        await click(pilot, "envs")
        await play.sees(pilot, "by envs, the largest first")
        await click(pilot, "envs ")
        await play.sees(pilot, "by envs, the smallest first")
        await _click_twice(pilot, "21,100,000")
        await play.sees(pilot, "Restart")
        await press(pilot, "escape")


async def test_a_gpu_of_a_sweep_is_selected_by_a_click_and_turned_by_the_next() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "elapsed", "▸")
        await press(pilot, "c")
        await play.sees(pilot, "GPUs of the sweep", "] gpu1")
        await click(pilot, "] gpu1")
        await play.until(pilot, lambda: any("▸" in row and "gpu1" in row for row in play.screen(app)))
        assert not [request for request in engine.asked if request[0] == "use_slot"]
        await click(pilot, "] gpu1")
        await play.until(pilot, lambda: any(request[:2] == ("use_slot", "gpu1") for request in engine.asked))


async def test_a_job_shows_its_details_by_two_clicks() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "elapsed", "▸")
        await _click_twice(pilot, " 13 method")
        await play.sees(pilot, "[1 charts]")
        assert asked(engine)[0][0] == "queue"


async def test_a_click_on_a_slot_of_the_queue_selects_its_job() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "elapsed", "▸")
        lanes = [row for row in play.screen(app) if row.startswith("  gpu")]
        assert len(lanes) > 1
        await pilot.click(offset=(4, play.screen(app).index(lanes[1])))
        await pilot.pause()
        number = next(lane.job for lane in engine.lanes if lane.slot == lanes[1].split()[0])
        assert next(row.split()[1] for row in play.screen(app) if row.startswith("▸")) == str(number)


@pytest.mark.parametrize("size", [SMALL, (160, 48)])
async def test_a_click_selects_a_value_of_a_tunings_answer(size: tuple[int, int]) -> None:
    app = test_tune.app_of(tunings.EDGE)
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, "▸ F fastest")
        rows = [row for row in play.screen(app) if " E " in row or " K " in row or "  L " in row]
        assert rows
        name = next(word for row in rows for word in ("E", "K", "L") if f"  {word} " in row)
        await click(pilot, f"  {name} ")
        await play.sees(pilot, f"▸ {name} ")
        await click(pilot, " F fastest")
        await play.sees(pilot, "▸ F fastest")
