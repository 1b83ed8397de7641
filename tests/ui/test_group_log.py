"""The logs of a group's ranks, interleaved."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output.line_clock import clock_s
from gmg_tui.model import Snapshot
from gmg_tui.protocol import Lines
from gmg_tui.ui.group_buffer import GroupBuffer
from tests.ui import play, ranks, sessions
from tests.ui.fake_engine import FakeEngine

RANKS = {"gpu0": 0, "gpu1": 1}


def line(second: int, text: str = "step", clock: str = "07:00") -> str:
    """A line of Genesis's logger."""
    return f"[Genesis] [{clock}:{second:02d}] [INFO] {text}"


def texts(buffer: GroupBuffer) -> list[str]:
    """The rows, with their ranks and without the heads."""
    buffer.settle()
    return [buffer.text_of(row).replace("[Genesis] [07:00:", "").replace("] [INFO]", "") for row in buffer.rows]


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("[Genesis] [07:00:23] [INFO] Building scene", 25_223),
        ("[Genesis] [26-11-22 07:00:23.120] [INFO] Building scene", 25_223.12),
        ("[Genesis 07:00:23] Building scene", 25_223),
        ("[rank1]:[E1122 07:00:23.500000 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught", 25_223.5),
        ("[W1122 07:00:23.5 socket.cpp:752] [c10d] The client socket", 25_223.5),
        ("2026-11-22 07:00:23,500 - train - INFO - begins", 25_223.5),
        ("[2026-11-22T07:00:23] begins", 25_223),
        ("[07:00:23] begins", 25_223),
        ("Time elapsed: 00:00:05", None),
        ("00:00:05", None),
        ("ETA: 00:01:23", None),
        ("", None),
    ],
)
def test_the_time_that_a_line_has_itself(text: str, second: float | None) -> None:
    assert clock_s(text) == (None if second is None else pytest.approx(second))


def test_lines_are_in_the_order_of_their_own_times_however_they_come() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(0, [line(1), line(4)], slot="gpu0")
    buffer.extend(0, [line(2), line(3), line(5)], slot="gpu1")
    assert texts(buffer) == ["[0] 01 step", "[1] 02 step", "[1] 03 step", "[0] 04 step", "[1] 05 step"]
    buffer.extend(3, [line(7)], slot="gpu1")
    assert texts(buffer)[-1] == "[1] 07 step"
    buffer.extend(2, [line(6)], slot="gpu0")  # after it was drawn
    assert texts(buffer)[-3:] == ["[1] 05 step", "[0] 06 step", "[1] 07 step"]
    assert buffer.known == buffer.next_line == buffer.kept == 7
    assert [row.end for row in buffer.rows] == list(range(1, 8))


def test_a_line_without_a_time_stays_behind_its_own_and_else_comes_when_it_comes() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(0, [line(1), "Traceback", "ValueError"], slot="gpu0")
    buffer.extend(0, [line(2), line(9)], slot="gpu1")
    assert texts(buffer) == ["[0] 01 step", "[0] Traceback", "[0] ValueError", "[1] 02 step", "[1] 09 step"]
    buffer.extend(3, ["later"], slot="gpu0")
    assert texts(buffer)[-1] == "[0] later"
    buffer.extend(4, [line(3)], slot="gpu0")  # a worker's own lines keep their order
    assert texts(buffer)[-2:] == ["[0] later", "[0] 03 step"]


def test_midnight_does_not_turn_the_order_round() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(0, [line(59, "before", "23:59")], slot="gpu0")
    buffer.settle()
    buffer.extend(1, [line(1, "after", "00:00")], slot="gpu0")
    buffer.settle()
    buffer.extend(0, [line(58, "first", "23:59"), line(2, "last", "00:00")], slot="gpu1")
    buffer.settle()
    assert [row.text.split()[-1] for row in buffer.rows] == ["first", "before", "after", "last"]


def test_known_lines_are_skipped_and_missing_ones_marked_for_their_rank() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(10, [line(1), line(2)], slot="gpu1")
    buffer.extend(10, [line(1), line(2), line(3)], slot="gpu1")
    buffer.extend(0, [line(2, "other")], slot="gpu0")
    assert texts(buffer) == ["[1] … 10 earlier lines", "[1] 01 step", "[1] 02 step", "[0] 02 other", "[1] 03 step"]
    buffer.extend(15, [line(6)], slot="gpu1")
    assert texts(buffer)[-2:] == ["[1] … 2 lines skipped", "[1] 06 step"]
    assert buffer.known == buffer.next_line == 17
    assert buffer.kept == 5


def test_while_it_is_held_nothing_changes_its_place() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(0, [line(1), line(5)], slot="gpu0")
    buffer.settle()
    buffer.held = True
    before = texts(buffer)
    buffer.extend(0, [line(3)], slot="gpu1")
    assert texts(buffer) == [*before, "[1] 03 step"]
    buffer.held = False
    assert texts(buffer) == ["[0] 01 step", "[1] 03 step", "[0] 05 step"]


def test_it_is_bounded_and_counts_what_it_drops() -> None:
    buffer = GroupBuffer(RANKS, kept=100)
    for number in range(0, 3000, 10):
        for slot in RANKS:
            buffer.extend(number, [f"line {number + at}" for at in range(10)], slot=slot)
        buffer.settle()
        assert len(buffer.rows) <= 130
    assert buffer.rows[0].gap
    assert sum(row.lines for row in buffer.rows) == buffer.known == 6000
    ends = [row.end for row in buffer.rows]
    assert ends == sorted(ends)
    assert ends[-1] == 6000


def test_a_filter_can_be_of_a_rank_and_a_search_finds_in_all() -> None:
    buffer = GroupBuffer(RANKS)
    buffer.extend(0, [line(1, "loss 3"), line(3, "loss 2")], slot="gpu0")
    buffer.extend(0, [line(2, "loss 1")], slot="gpu1")
    buffer.settle()
    buffer.search("loss")
    assert buffer.matches == [0, 1, 2]
    buffer.only("[1]")
    assert texts(buffer) == ["[1] 02 loss 1"]


def _engine(snapshot: Snapshot) -> FakeEngine:
    engine = play.engine_of(snapshot)
    for number in range(len(snapshot.workers)):
        engine.log[f"gpu{number}"] = [line(second, f"of {number}") for second in range(number, 40, 8)]
    return engine


async def test_the_key_shows_all_ranks_and_back_and_follows() -> None:
    engine = _engine(ranks.summed())
    app = play.app_of(engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await play.sees(pilot, "gpu0 log", "07:00:32 of 0", "g ranks")
        await pilot.press("g")
        await play.sees(pilot, "g0 log, 4 ranks", "20 lines", "[0] 07:00:32 of 0", "[3] 07:00:35 of 3")
        rows = [row[:3] for row in play.screen(app) if row.startswith("[")]
        assert rows[-4:] == ["[0]", "[1]", "[2]", "[3]"]
        asked = len(engine.asked)
        await pilot.press("right")  # another rank of the same group: its log is there already
        engine.push(Lines("gpu2", 5, (line(50, "later"),)))
        engine.push(Lines("gpu1", 5, (line(49, "before it"),)))
        await play.sees(pilot, "[2] 07:00:50 later", "[1] 07:00:49 before it")
        shown = play.shown(app)
        assert shown.index("before it") < shown.index("later")
        assert len(engine.asked) == asked
        await pilot.press("g")
        await play.sees(pilot, "gpu1 log", "07:00:33 of 1")
        assert "[1] " not in play.shown(app)


async def test_another_group_has_its_own_log() -> None:
    app = play.app_of(_engine(ranks.pairs()))
    async with app.run_test(size=(160, 48)) as pilot:
        await play.sees(pilot, "gpu0 log")
        await pilot.press("g")
        await play.sees(pilot, "g0 log, 2 ranks", "[1] 07:00:33 of 1")
        await pilot.press("right", "right")
        await play.sees(pilot, "g1 log, 2 ranks", "[0] 07:00:34 of 2", "[1] 07:00:35 of 3")


async def test_search_and_pause_work_in_it() -> None:
    engine = _engine(ranks.summed())
    app = play.app_of(engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("g")
        await play.sees(pilot, "20 lines")
        await pilot.press("slash", *"of", "space", "2", "enter")
        await play.sees(pilot, "match 5 of 5")
        await pilot.press("escape", "f")
        await play.sees(pilot, "paused")
        engine.push(Lines("gpu2", 5, (line(1, "late"),)))
        await play.sees(pilot, "21 lines", "paused")
        await pilot.press("f")
        await play.sees(pilot, "following", "[2] 07:00:34 of 2")


async def test_without_groups_the_key_says_so() -> None:
    app = play.busy(2)
    async with app.run_test(size=(100, 30)) as pilot:
        await play.sees(pilot, "gpu0 log")
        assert "g ranks" not in play.shown(app)
        await pilot.press("g")
        await play.sees(pilot, "g: only ranks of a group have a log together")


async def test_a_group_that_goes_leaves_the_log_of_the_slot() -> None:
    engine = _engine(ranks.summed())
    app = play.app_of(engine)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("g")
        await play.sees(pilot, "g0 log")
        engine.push(sessions.busy_snapshot(4))
        await play.sees(pilot, "gpu0 log")
