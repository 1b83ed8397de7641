"""Workers that are marked, and keys that act on them."""

from collections.abc import Mapping

import pytest

from gmg_tui.model import Snapshot, WorkerState
from tests.ui import play, sessions, sweeps
from tests.ui.play import asked, press
from tests.workers import changed

SMALL, WIDE = (80, 24), (160, 48)


def _snapshot(**changes: Mapping[str, object]) -> Snapshot:
    """Eight workers that run, with the `changes` of some."""
    snapshot = sessions.busy_snapshot(8)
    workers = tuple(changed(worker, **changes.get(worker.slot, {})) for worker in snapshot.workers)
    return changed(snapshot, workers=workers)


def _app(*, ascii_only: bool = False, theme: str | None = None, **changes: Mapping[str, object]) -> play.FakedApp:
    return play.app_of(play.engine_of(_snapshot(**changes)), ascii_only=ascii_only, theme=theme)


@pytest.mark.parametrize(
    ("size", "ascii_only", "marked"),
    [
        (SMALL, True, ["> gpu0 ", "  gpu1*", "  gpu2 ", "  gpu3*"]),
        (WIDE, False, ["┏━ gpu0", "╭─ ◆ gpu1", "╭─ gpu2", "╭─ ◆ gpu3"]),
    ],
    ids=["table in ASCII", "tiles"],
)
async def test_marks_are_shown_and_counted_in_the_headline(
    size: tuple[int, int], ascii_only: bool, marked: list[str]
) -> None:
    app = _app(ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        step = "down" if size == SMALL else "right"
        await press(pilot, step, "space", step, step, "space", *["left" if size == WIDE else "up"] * 3)
        await play.sees(pilot, *marked)
        await play.sees(pilot, f"{'*' if ascii_only else '◆'} 2 marked")
        await press(pilot, step, "space")
        await play.sees(pilot, *(sign.replace("gpu1", "gpu3") for sign in [marked[1]]), "1 marked")
        await press(pilot, "escape")
        assert "marked" not in play.shown(app)
        assert all(row.find(marked[1].replace("gpu1", "gpu3")) < 0 for row in play.screen(app))
        assert asked(app.engine) == []


async def test_keys_act_on_marked_workers_only() -> None:
    app = _app()
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "right", "space", "down", "space", "up", "left", "r", "x")
        assert asked(app.engine) == [("restart", "gpu1", "gpu5"), ("stop", "gpu1", "gpu5")], "they stay marked"
        await press(pilot, "escape", "x")
        assert asked(app.engine)[2:] == [("stop", "gpu0")]


async def test_kill_asks_with_the_count_unless_all_are_being_stopped() -> None:
    stopping = {"state": WorkerState.STOPPING}
    app = _app(gpu1=stopping, gpu2=stopping)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space", "right", "space", "X")
        await play.sees(pilot, "Kill 2 workers now? Genesis will not save their compiled kernels.")
        await press(pilot, "n", "left", "space", "right", "right", "space", "X")
        assert asked(app.engine) == [("kill", "gpu1", "gpu2")]


async def test_on_a_workers_page_keys_act_on_that_worker() -> None:
    app = _app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "space", "down", "space", "down", "enter")
        await play.sees(pilot, "3 of 8")
        await press(pilot, "r")
        assert asked(app.engine) == [("restart", "gpu2")]
        await press(pilot, "e")
        await play.sees(pilot, "Edit gpu2", "unchanged")
        await press(pilot, "escape", "space", "escape")
        await play.sees(pilot, "2 marked", "gpu0◆", "gpu1◆", "▸ gpu2")


async def test_marks_survive_snapshots_and_are_dropped_with_their_slot() -> None:
    app = sweeps.app()
    async with app.run_test(size=SMALL) as pilot:
        first, second, *_ = app.view.slots
        await press(pilot, "space", "down", "space")
        await play.sees(pilot, "2 marked")
        app.engine.push(changed(app.engine.snapshot, time=app.engine.snapshot.time + 1))
        await pilot.pause()
        await play.sees(pilot, "2 marked")
        left = tuple(worker for worker in app.engine.snapshot.workers if worker.slot != first)
        app.engine.push(changed(app.engine.snapshot, workers=left))
        await play.sees(pilot, "1 marked")
        assert app.view.marked == {second}
