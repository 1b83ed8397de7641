"""Several nodes: their lines, folding, the cursor on folded ones, and what sorting, filtering and `!` make of them."""

import pytest

from gmg_tui.session.protocol import Action
from gmg_tui.ui.workers.grid import MIN_TILE_ROWS
from tests.ui import nodes, play, sessions
from tests.ui.play import FakedApp, press
from tests.workers import changed

WIDE = (160, 48)
ALL = tuple(map(nodes.name, range(8)))


def _drawn(app: FakedApp) -> tuple[str, ...]:
    """What is drawn from the top: slots, and the lines of nodes."""
    rows: list[str] = []
    for band in app.view.bands(app.main.grid.plan.columns):
        rows += [f"{'+' if band.slots else '-'}{band.node}"] if band.node else band.slots
    return tuple(rows)


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_the_node_under_the_cursor_is_folded_and_unfolded(size: tuple[int, int]) -> None:
    app = nodes.busy()
    async with app.run_test(size=size) as pilot:
        assert _drawn(app) == ("-n1", *ALL[:4], "-n2", *ALL[4:])
        await press(pilot, "right" if app.main.grid.plan.tiles else "down", "do:screen.fold")
        assert _drawn(app) == ("+n1", "-n2", *ALL[4:])
        assert "▸ + n1" in play.shown(app)
        assert app.view.selected == "n1/gpu1"
        await press(pilot, "do:screen.fold")
        assert _drawn(app) == ("-n1", *ALL[:4], "-n2", *ALL[4:])
        assert app.view.selected == "n1/gpu1", "it is where it was"


async def test_the_cursor_moves_over_folded_lines_and_enter_unfolds() -> None:
    app, size, there, back = nodes.busy(3), (80, 24), "down", "up"
    async with app.run_test(size=size) as pilot:
        await press(pilot, *[there] * 4, "do:screen.fold", *[back] * 1)
        assert app.view.selected == "n1/gpu3"
        await press(pilot, there)
        assert app.view.folded_node == "n2"
        await press(pilot, there)
        assert app.view.selected == "n3/gpu0"
        await press(pilot, back, "enter")
        assert app.screen is app.main, "the details are not what enter means here"
        assert not app.view.folded_node
        assert "n2/gpu3" in _drawn(app)


async def test_keys_do_not_act_on_hidden_workers_unless_space_has_marked_them() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold")
        for key in ("r", "x", "X", "e", "do:screen.stacks"):
            app.clear_notifications()
            await press(pilot, key)
            await play.sees(pilot, "n1 is folded: unfold it, or mark its workers.")
        assert {request[0] for request in app.engine.asked} == {"watch"}
        await press(pilot, "space")
        assert app.view.marked == set(ALL[:4])
        assert "▸◆+ n1" in play.shown(app)
        await press(pilot, "x", "y")
        await play.until(pilot, lambda: (Action.STOP, *ALL[:4]) in app.engine.asked)
        await press(pilot, "space")
        assert not app.view.marked


async def test_a_click_on_a_nodes_line_folds_and_unfolds_it() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        grid = app.main.grid
        await pilot.click(grid, offset=(4, 0))
        await pilot.pause()
        assert _drawn(app)[0] == "+n1"
        await pilot.click(grid, offset=(4, 0))
        await pilot.pause()
        assert _drawn(app)[0] == "-n1"
        await pilot.click(grid, offset=(4, 1 + MIN_TILE_ROWS + 1 + 2))
        await pilot.pause()
        assert app.view.selected == "n2/gpu0"


async def test_a_node_line_shows_cards_running_fps_power_and_the_worst_state() -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t", "do:screen.fold")
        line = next(row for row in play.screen(app) if "+ n1" in row)
        for text in ("2 running", "1 failed", "Σ  48,923,429 FPS", "gpu3: CUDA out of memory", "1,453 W"):
            assert text in line
        await press(pilot, "t")
        line = next(row for row in play.screen(app) if "- n2" in row)
        for text in ("4 GPUs", "1 running", "1 stuck", "Σ  24,648,511 FPS", "748 W"):
            assert text in line


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_a_lost_node_is_shown_in_headline_line_row_and_tile(size: tuple[int, int]) -> None:
    app = nodes.app_of(nodes.lost(nodes.varied(), "n2", sessions.NOW - 75))
    async with app.run_test(size=size) as pilot:
        rows = play.screen(app)
        assert "4 lost  n2 lost" in rows[0]
        assert "lost since " in next(row for row in rows if "- n2" in row)
        row = next(row for row in rows if "n2/gpu3" in row)
        assert "⚠ lost" in row
        assert "1:15" in row
        assert "24,648,511" not in rows[0], "its rate is none"
        if size == WIDE:
            assert "No route to host" in play.shown(app)
        await press(pilot, "exclamation_mark", "exclamation_mark", "exclamation_mark")
        assert app.view.selected == "n2/gpu0", "lost is trouble"


async def test_power_that_is_not_known_is_no_zero() -> None:
    snapshot = nodes.varied()
    samples = tuple(changed(sample, power_w=None) for sample in snapshot.samples)
    app = nodes.app_of(changed(snapshot, samples=samples))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t", "do:screen.fold")
        line = next(row for row in play.screen(app) if "+ n1" in row)
        assert "2 running" in line
        assert " W " not in line


async def test_going_to_the_next_trouble_unfolds_its_node() -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        app.view.folded = {"n1", "n2"}
        seen = []
        for _ in range(4):
            await press(pilot, "exclamation_mark")
            seen.append((app.view.selected, app.view.folded_node))
        assert seen == [("n1/gpu1", ""), ("n1/gpu3", ""), ("n2/gpu0", ""), ("n2/gpu3", "")]
        await press(pilot, "do:screen.fold", "exclamation_mark")
        assert (app.view.selected, app.view.folded_node) == ("n2/gpu0", ""), "from the first behind the line"


async def test_sorting_by_a_metric_lists_the_workers_of_all_nodes_together() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold", "do:screen.sort_by('fps')")
        assert _drawn(app) == app.view.slots
        assert not app.view.folded_node
        await press(pilot, "do:screen.sort_by('slot')")
        assert _drawn(app) == ("+n1", "-n2", *ALL[4:])


async def test_many_slots_start_folded_and_fit() -> None:
    app = nodes.busy(64, 8)
    async with app.run_test(size=WIDE) as pilot:
        assert all(name.startswith("+") for name in _drawn(app))
        await play.sees(pilot, "+ n1")
        play.burst(pilot, "end", *["down"] * 63)
        await play.sees(pilot, "▸ + n64")
        assert app.view.folded_node == "n64"
        assert "▸ + n64" in play.shown(app)


async def test_a_node_line_is_visible_with_its_first_worker() -> None:
    app = nodes.busy(4, 8)
    async with app.run_test(size=(80, 24)) as pilot:
        play.burst(pilot, *["down"] * 31, *["up"] * 23)
        await pilot.pause()
        assert app.view.selected == "n2/gpu0"
        assert "- n2" in play.shown(app)
        play.burst(pilot, *["up"] * 8)
        await pilot.pause()
        assert app.view.selected == "n1/gpu0"
        assert "- n1" in play.shown(app)
