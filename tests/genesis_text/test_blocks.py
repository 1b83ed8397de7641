"""The blocks of a loop, by which a tuning judges whether its rate has settled."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output.rate import RateWindow, Smoothing
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.genesis.output.stretches import Block
from tests.genesis_text import loops, samples


def blocks_of(printed: loops.Printed, *, every_s: float = 0.1) -> list[Block]:
    """All blocks of a loop, asked for each time that lines are read."""
    reader = Reader(gpu_slot=True)
    found: list[Block] = []
    mark, due = 0, every_s
    held = b""
    for moment, number in printed:
        if moment > due and held:
            reader.feed(held, due)
            held = b""
            mark, begun, blocks = reader.blocks(mark)
            assert begun == 0
            found += blocks
        while moment > due:
            due += every_s
        held += samples.fps_line(number)
    assert mark == len(found)
    assert list(reader.blocks(0).blocks) == found[-128:]
    return found


@pytest.mark.parametrize("every_s", [0.1, 1.0])
def test_an_even_loop_has_a_block_each_second(every_s: float) -> None:
    blocks = blocks_of(loops.rates(loops.uneven(1, [0.01] * 3000)), every_s=every_s)
    assert len(blocks) >= 27
    assert all(1.0 <= time_s < 1.2 for _, time_s in blocks)
    assert all(steps / time_s == pytest.approx(100, rel=0.05) for steps, time_s in blocks[1:])


@pytest.mark.parametrize(
    ("step_s", "count", "stall_s", "least"),
    [(0.01, 24, 0.3, 25), (0.037, 24, 1.5, 8), (0.01, 1000, 5.0, 1)],
)
def test_the_blocks_of_a_loop_with_stalls_are_whole_periods(
    step_s: float, count: int, stall_s: float, least: int
) -> None:
    period_s = count * step_s + stall_s
    total = int(max(30.0, 5 * period_s) / period_s)
    steps = loops.uneven(1, [step_s] * count * total)
    blocks = blocks_of(loops.rates(steps, ([0.0] * (count - 1) + [stall_s]) * total))
    # Until two stalls have passed, nothing says that there are periods.
    periodic = [block for block in blocks[1:] if block.time_s > 0.9 * period_s]
    assert len(periodic) >= least
    assert all(steps / time_s == pytest.approx(count / period_s, rel=0.06) for steps, time_s in periodic)


@pytest.mark.parametrize("step_s", [0.002, 0.00215, 0.0022])
def test_a_loop_whose_lines_mostly_hold_a_stall_has_a_block_each_few_seconds(step_s: float) -> None:
    steps, stalls = loops.learning(1, 24, step_s, [0.3], spread=0.03, total_s=40.0)
    blocks = blocks_of(loops.rates(steps, stalls), every_s=1.0)
    settled = blocks[len(blocks) // 2 :]
    assert len(settled) > 3
    assert all(time_s < 10 for _, time_s in settled)
    rate = 24 / (24 * step_s + 0.3)
    assert all(steps / time_s == pytest.approx(rate, rel=0.1) for steps, time_s in settled)
    assert sum(steps for steps, _ in settled) / sum(time_s for _, time_s in settled) == pytest.approx(rate, rel=0.03)


def test_only_the_last_blocks_are_kept_and_the_mark_goes_on() -> None:
    window = RateWindow(Smoothing.FOREIGN)
    for second in range(500):
        window.add([1000.0], float(second))
    assert window.stretches.closed > 400
    assert len(window.stretches.blocks(0)) == 128
    assert len(window.stretches.blocks(window.stretches.closed - 3)) == 3
    assert window.stretches.blocks(window.stretches.closed) == ()


def test_another_scene_begins_anew_above_every_earlier_mark() -> None:
    reader = Reader(gpu_slot=True)
    assert reader.blocks(0) == (0, 0, ())
    for second in range(20):
        reader.feed(samples.fps_line(1000.0, 16) * 20, float(second))
    mark, begun, blocks = reader.blocks(0)
    assert begun == 0
    assert mark == len(blocks) > 10
    reader.feed(samples.logged("Building scene <abc>..."), 20.0)
    assert reader.blocks(mark) == (mark + 1, mark + 1, ())  # begun lies above the mark: forget what was given
    for second in range(21, 41):
        reader.feed(samples.fps_line(5000.0, 16) * 20, float(second))
    after, begun, later = reader.blocks(mark)
    assert begun == mark + 1
    assert after == begun + len(later)
    assert all(steps / time_s == pytest.approx(5000, rel=0.05) for steps, time_s in later)
    assert reader.blocks(after) == (after, begun, ())


def test_another_number_of_environments_begins_anew() -> None:
    reader = Reader(gpu_slot=True)
    for second in range(20):
        reader.feed(samples.fps_line(1000.0, 16) * 20, float(second))
    mark = reader.blocks(0).mark
    reader.feed(samples.fps_line(9000.0, 64), 20.0)
    assert reader.blocks(mark) == (mark + 1, mark + 1, ())


def test_a_better_source_begins_anew() -> None:
    reader = Reader(gpu_slot=True)
    for second in range(20):
        reader.feed(f"{'Steps per second:':>40} 3000\n".encode(), 2.0 * second)
    mark, _, blocks = reader.blocks(0)
    assert blocks
    reader.feed(samples.fps_line(1000.0, 16), 50.0)
    assert reader.blocks(mark) == (mark + 1, mark + 1, ())


def test_numbers_that_are_no_such_average_make_no_blocks() -> None:
    window = RateWindow(Smoothing.RATES)
    for second in range(30):
        window.add([100.0, 900.0, 80.0, 1000.0], float(second))  # two scenes that step in turn
    assert window.stretches.blocks(0) == ()
