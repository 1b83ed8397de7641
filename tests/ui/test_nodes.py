"""Several nodes: their lines, folding, the cursor on folded ones, and what sorting, filtering and `!` make of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gmg_tui.model import NodeView, Snapshot, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.ui import Outcome
from gmg_tui.ui.drawing import node_line, words, worker_table
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.folds import MANY, Band, bands
from gmg_tui.ui.remembered import Memory
from gmg_tui.ui.view import View
from tests.ui import nodes, play, sessions
from tests.ui.play import FakedApp, press

WIDE = (160, 48)
ALL = tuple(map(nodes.name, range(8)))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _drawn(app: FakedApp) -> tuple[str, ...]:
    """What is drawn from the top: slots, and the lines of nodes."""
    found: list[str] = []
    for band in app.view.bands(app.main.grid.plan.columns):
        found += [f"{'+' if band.folded else '-'}{band.node}"] if band.node else band.slots
    return tuple(found)


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_z_folds_the_node_under_the_cursor_and_unfolds_it(size: tuple[int, int]) -> None:
    app = nodes.busy()
    async with app.run_test(size=size) as pilot:
        assert _drawn(app) == ("-n1", *ALL[:4], "-n2", *ALL[4:])
        await press(pilot, "right" if app.main.grid.plan.tiles else "down", "do:screen.fold_node")
        assert _drawn(app) == ("+n1", "-n2", *ALL[4:])
        assert "▸ + n1" in play.shown(app)
        assert app.view.selected == "n1/gpu1"
        await press(pilot, "do:screen.fold_node")
        assert _drawn(app) == ("-n1", *ALL[:4], "-n2", *ALL[4:])
        assert app.view.selected == "n1/gpu1", "it is where it was"


async def test_capital_z_folds_all_then_unfolds_all() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_node", "do:screen.fold_all")
        assert _drawn(app) == ("+n1", "+n2")
        await press(pilot, "do:screen.fold_all")
        assert _drawn(app) == ("-n1", *ALL[:4], "-n2", *ALL[4:])


@pytest.mark.parametrize(("size", "there", "back"), [((80, 24), "down", "up"), (WIDE, "right", "left")])
async def test_the_cursor_moves_over_folded_lines_and_enter_unfolds(
    size: tuple[int, int], there: str, back: str
) -> None:
    app = nodes.busy(3)
    async with app.run_test(size=size) as pilot:
        await press(pilot, *[there] * 4, "do:screen.fold_node", *[back] * 1)
        assert app.view.selected == "n1/gpu3"
        await press(pilot, there)
        assert app.view.folded_node == "n2"
        await press(pilot, there)
        assert app.view.selected == "n3/gpu0"
        await press(pilot, back, "enter")
        assert app.screen is app.main, "the details are not what enter means here"
        assert not app.view.folded_node
        assert "n2/gpu3" in _drawn(app)


async def test_up_and_down_cross_a_folded_line_among_tiles() -> None:
    app = nodes.busy(3)
    async with app.run_test(size=(160, 60)) as pilot:
        await press(pilot, "down", "do:screen.fold_node")
        assert app.main.grid.plan.tiles
        await press(pilot, "up")
        assert app.view.selected == "n1/gpu0"
        await press(pilot, "down", "down")
        assert app.view.selected == "n3/gpu0"
        await press(pilot, "down")
        assert app.view.selected == "n3/gpu0", "it stops at the edge"


async def test_keys_do_nothing_to_workers_that_are_not_seen() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        for key in ("r", "x", "X", "e", "p", "do:stacks"):
            await press(pilot, "do:screen.fold_all" if not app.view.folded_node else "0", key)
            await play.sees(pilot, "n1 is folded: unfold it, or mark its workers.")
        assert {one[0] for one in app.engine.asked} == {"follow"}


async def test_space_marks_all_workers_of_a_folded_node() -> None:
    app = nodes.busy()
    app.confirm = False
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_node", "space")
        assert app.view.marked == set(ALL[:4])
        assert "▸◆+ n1" in play.shown(app)
        await press(pilot, "x")
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
        await pilot.click(grid, offset=(4, 1 + grid.plan.row_height + 1 + 2))
        await pilot.pause()
        assert app.view.selected == "n2/gpu0"


async def test_a_line_has_cards_running_fps_power_and_the_worst_state() -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_all")
        rows = play.screen(app)
        line = next(row for row in rows if "+ n1" in row)
        for text in ("✗ failed", "2/4", "48,923,429", "gpu3: CUDA out of memory", "1453"):
            assert text in line
        assert "⚠ STUCK" in next(row for row in rows if "+ n2" in row)
        await press(pilot, "do:screen.fold_node")
        assert app.main.grid.plan.tiles
        line = next(row for row in play.screen(app) if "+ n2" in row)
        for text in ("4 GPUs", "1 running", "1 stuck", "Σ 24,648,511 FPS", "748 W"):
            assert text in line


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_a_lost_node_says_so_in_headline_line_row_and_tile(size: tuple[int, int]) -> None:
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


async def test_a_silent_node_is_named_and_its_line_says_for_how_long() -> None:
    shown = nodes.snapshot(sessions.busy_snapshot(), views=(NodeView("n2", connected=False, silent_s=12.0),))
    app = nodes.app_of(shown)
    async with app.run_test(size=WIDE):
        rows = play.screen(app)
        assert "2 nodes · 8 GPUs" in rows[0]
        assert "n2 silent" in rows[0]
        assert "silent for 12 s" in next(row for row in rows if "- n2" in row)


async def test_more_lost_nodes_than_have_room_are_counted() -> None:
    shown: Snapshot = nodes.snapshot(sessions.busy_snapshot(16), 4)
    for node in ("n1", "n2", "n3"):
        shown = nodes.lost(shown, node, sessions.NOW - 9)
    app = nodes.app_of(shown, 4)
    async with app.run_test(size=WIDE):
        assert "3 nodes lost" in play.screen(app)[0]


async def test_the_next_in_trouble_unfolds_its_node() -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_all")
        seen = []
        for _ in range(4):
            await press(pilot, "exclamation_mark")
            seen.append((app.view.selected, app.view.folded_node))
        assert seen == [("n1/gpu1", ""), ("n1/gpu3", ""), ("n2/gpu0", ""), ("n2/gpu3", "")]
        await press(pilot, "do:screen.fold_all", "exclamation_mark")
        assert (app.view.selected, app.view.folded_node) == ("n2/gpu0", ""), "from the first behind the line"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("node:n2", ("-n2", *ALL[4:])),
        ("node:n", ()),
        ("node:n? state:running", ("-n1", ALL[0], ALL[1], "-n2", ALL[7])),
        ("slot:n1/*", ("-n1", *ALL[:4])),
        ("state:failed", ("-n1", ALL[3])),
    ],
)
async def test_the_filter_knows_nodes(text: str, drawn: tuple[str, ...]) -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        app.main.filter_workers(text)
        await pilot.pause()
        assert _drawn(app) == drawn


async def test_a_folded_node_says_how_many_a_filter_shows_of_it_and_goes_with_the_last() -> None:
    app = nodes.app_of(nodes.varied())
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_all")
        app.main.filter_workers("state:failed")
        await pilot.pause()
        assert _drawn(app) == ("+n1",)
        assert "1 of 4 GPUs" in play.shown(app)
        await press(pilot, "enter")
        assert _drawn(app) == ("-n1", ALL[3])


async def test_sorting_is_over_all_nodes_and_a_folded_one_stands_where_its_first_worker_would() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.sort_by('FPS')")
        order = app.view.slots
        assert _drawn(app) == order, "no lines of nodes that are not folded"
        await press(pilot, "do:screen.fold_node")
        node = app.view.folded_node
        first = next(at for at, name in enumerate(order) if name.startswith(node))
        rest = [name for name in order if not name.startswith(node)]
        assert _drawn(app) == (*rest[:first], f"+{node}", *rest[first:])


async def test_folds_are_remembered_also_those_of_other_sessions(tmp_path: Path) -> None:
    def app_of(number: int, cards: int) -> FakedApp:
        shown = nodes.snapshot(sessions.busy_snapshot(number * cards), number, cards)
        app = FakedApp(nodes.engine_of(shown, number, cards), memory=Memory(tmp_path / "screen.json"))
        app.main.log_view.pace.period_s = 0.0
        return app

    async def folded(app: FakedApp, *keys: str) -> tuple[str, ...]:
        async with app.run_test(size=WIDE) as pilot:
            await press(pilot, *keys)
            found = tuple(node for node, slots in app.view.folds.slots.items() if app.view.folds.holds(slots[0]))
        assert app.memory is not None
        app.memory.close()
        return found

    assert await folded(app_of(3, 4), "do:screen.fold_node") == ("n1",)
    assert await folded(app_of(3, 4)) == ("n1",)
    assert await folded(app_of(2, 4), "do:screen.fold_node") == (), "unfolded again"
    assert await folded(app_of(3, 4), "t") == ()
    many = app_of(9, 8)
    assert len(many.view.folds.slots) * 8 > MANY
    assert len(await folded(many, "enter")) == 8
    assert len(await folded(app_of(9, 8))) == 8


async def test_the_last_line_in_sight_keeps_its_figures_beside_the_place() -> None:
    app = nodes.busy(3, 2)
    async with app.run_test(size=(120, 34)) as pilot:
        await press(pilot, "t")
        assert app.main.grid.plan.tiles
        line = next(row for row in play.screen(app) if "- n3" in row)
        assert line.endswith("FPS · 1,214 W  1-4 of 6 ")


async def test_folded_nodes_have_no_tiles_but_their_lines() -> None:
    app = nodes.busy()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "do:screen.fold_all", "t")
        assert app.main.grid.plan.tiles
        assert [row[2:6] for row in play.screen(app)[1:3]] == ["+ n1", "+ n2"]
        assert app.main.grid.size.height == 2


async def test_many_slots_start_folded_and_fit() -> None:
    app = nodes.busy(64, 8)
    async with app.run_test(size=WIDE) as pilot:
        assert all(name.startswith("+") for name in _drawn(app))
        await play.sees(pilot, "64 nodes · 512 GPUs", "+ n1")
        await press(pilot, "end", *["down"] * 63)
        assert app.view.folded_node == "n64"
        assert "▸ + n64" in play.shown(app)


async def test_a_key_draws_as_many_of_64_nodes_and_512_workers_as_are_in_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []
    draw_row, draw_line = worker_table.row, node_line.row

    def row(shown: words.Shown, layout: worker_table.Columns, appearance: Appearance) -> Row:
        drawn.append(shown.slot.name)
        return draw_row(shown, layout, appearance)

    def line(state: View, band: Band, layout: worker_table.Columns, appearance: Appearance) -> Row:
        drawn.append(band.node)
        return draw_line(state, band, layout, appearance)

    monkeypatch.setattr(worker_table, "row", row)
    monkeypatch.setattr(node_line, "row", line)
    app = nodes.busy(64, 8)
    async with app.run_test(size=WIDE) as pilot:
        for key in ("down", "do:screen.fold_node", "do:screen.fold_all", "down", "do:screen.sort_by('FPS')", "down"):
            drawn.clear()
            await press(pilot, key)
            assert len(drawn) <= 6 * WIDE[1]


async def test_the_line_of_a_node_is_in_sight_with_its_first_worker() -> None:
    app = nodes.busy(4, 8)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, *["down"] * 31)
        await press(pilot, *["up"] * 23)
        assert app.view.selected == "n2/gpu0"
        assert "- n2" in play.shown(app)
        await press(pilot, *["up"] * 8)
        assert app.view.selected == "n1/gpu0"
        assert "- n1" in play.shown(app)


def test_bands_are_as_wide_as_the_grid_and_begin_anew_with_each_node() -> None:
    folds = View(nodes.busy().engine.welcome).folds
    folds.fold("n2")
    parts = folds.parts(ALL, headed=True)
    assert bands(parts, 3) == (Band((), "n1"), Band(ALL[:3]), Band(ALL[3:4]), Band(ALL[4:], "n2"))


Compare = Callable[..., bool]


async def _settled(pilot: Pilot[Outcome]) -> None:
    await play.sees(pilot, f"{play.LOG_LINES} lines")


@pytest.mark.parametrize("size", [(80, 24), WIDE])
def test_picture_of_two_nodes(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(nodes.app_of(nodes.varied()), terminal_size=size, run_before=_settled)


@pytest.mark.parametrize("size", [(80, 24), WIDE])
def test_picture_of_a_folded_and_a_lost_node(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def fold(pilot: Pilot[Outcome]) -> None:
        await press(pilot, "do:screen.fold_node")
        await _settled(pilot)

    app = nodes.app_of(nodes.lost(nodes.varied(), "n2", sessions.NOW - 75))
    assert snap_compare(app, terminal_size=size, run_before=fold)


def test_picture_of_64_nodes(snap_compare: Compare) -> None:
    assert snap_compare(nodes.busy(64, 8), terminal_size=WIDE, run_before=_settled)


async def test_a_lost_workers_last_rate_is_not_its_result() -> None:
    of = nodes.snapshot(sessions.busy_snapshot())
    waiting = tuple(
        sessions.changed(worker, state=WorkerState.WAITING) if worker.slot.startswith("n2/") else worker
        for worker in of.workers
    )
    app = nodes.app_of(nodes.lost(sessions.changed(of, workers=waiting), "n2", sessions.NOW - 75))
    async with app.run_test(size=WIDE) as pilot:
        await play.sees(pilot, "⚠ lost 1:15")
        assert "(final)" not in play.shown(app)
