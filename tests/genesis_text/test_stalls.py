"""The rate of loops whose lines do not tell how many steps they are of, read late."""

from __future__ import annotations

import statistics

import pytest

from gmg_tui.genesis.output.rate import RateWindow, Smoothing
from gmg_tui.genesis.output.stalls import Stalls
from tests.genesis_text import loops

LOOPS = {
    "24 of 2 ms, then 0.3 s": (24, 0.002, [0.3]),  # each line holds a stall
    "24 of 2.15 ms, then 0.3 s": (24, 0.00215, [0.3]),  # most do
    "24 of 2.2 ms, then 0.3 s": (24, 0.0022, [0.3]),
    "24 of 2.5 ms, then 0.3 s": (24, 0.0025, [0.3]),  # every other one does, after three or four steps
    "24 of 10 ms, then 0.3 s": (24, 0.01, [0.3]),
    "10 of 5 ms, then 0.1 s": (10, 0.005, [0.1]),
    "10 of 5.5 ms, then 0.1 s": (10, 0.0055, [0.1]),
    "24 of 2.2 ms, then 0.05 s": (24, 0.0022, [0.05]),
    "16 of 3.3 ms, then 0.5 s": (16, 0.0033, [0.5]),
    "24 of 2 ms, then 0.1 s or 0.5 s": (24, 0.002, [0.1, 0.5]),
    "24 of 2.2 ms, then 0.1 s to 0.6 s": (24, 0.0022, [0.1, 0.6, 0.3, 0.15, 0.4]),
}
"""How many steps of which duration, and the stalls after them in turn."""
TOTAL_S = 42.0
KNOWN_S = 22.0
"""Until then few stalls have been seen, or earlier seconds are still in the window."""


@pytest.mark.parametrize("every_s", [0.02, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("loop", list(LOOPS))
def test_a_loop_with_stalls_has_its_rate_however_late_its_lines_are_read(loop: str, every_s: float) -> None:
    count, step, stalls = LOOPS[loop]
    for seed, spread in enumerate((0.03, 0.1)):
        steps, gaps = loops.learning(seed, count, step, stalls, spread=spread, total_s=TOTAL_S)
        shown = loops.read(loops.rates(steps, gaps, 64), n_envs=64, every_s=every_s, phase=0.2 + 0.6 * seed)
        off: list[float] = []
        for moment, settled in shown:
            if moment > KNOWN_S:
                assert settled is not None
                off.append(settled.rate / (64 * loops.lately(steps, gaps, moment)) - 1)
        assert statistics.fmean(off) == pytest.approx(0, abs=0.03), spread
        # Where stalls vary, the rate of the last ten seconds depends on which stalls these hold.
        assert max(map(abs, off)) < (0.03 if spread < 0.1 and len(stalls) == 1 else 0.06), spread


@pytest.mark.parametrize("every_s", [0.1, 1.0])
def test_steps_that_are_slow_by_chance_are_no_stalls(every_s: float) -> None:
    """As on a machine with too much to do."""
    steps, gaps = loops.learning(1, 24, 0.00225, [0.3], spread=0.05, total_s=TOTAL_S)
    steps = [step * (4 if number % 240 > 120 and number % 5 == 0 else 1) for number, step in enumerate(steps)]
    *_, (moment, settled) = loops.read(loops.rates(steps, gaps, 64), n_envs=64, every_s=every_s)
    assert settled is not None
    assert settled.rate == pytest.approx(64 * loops.lately(steps, gaps, moment), rel=0.05)


def test_a_scene_without_environments_prints_less_exactly_and_has_its_rate_too() -> None:
    for loop in ("24 of 2.2 ms, then 0.3 s", "24 of 10 ms, then 0.3 s"):
        count, step, stalls = LOOPS[loop]
        steps, gaps = loops.learning(1, count, step, stalls, spread=0.03, total_s=TOTAL_S)
        *_, (moment, settled) = loops.read(loops.rates(steps, gaps), every_s=1.0)
        assert settled is not None
        assert settled.rate == pytest.approx(loops.lately(steps, gaps, moment), rel=0.05), loop


def test_a_loop_that_begins_to_stall_has_its_rate_then() -> None:
    steps, gaps = loops.learning(1, 24, 0.0022, [0.3], spread=0.03, total_s=TOTAL_S)
    before = 60 * 500
    *_, (moment, settled) = loops.read(
        loops.rates([0.002] * before + steps, [0.0] * before + gaps, 64), n_envs=64, every_s=1.0
    )
    assert settled is not None
    assert settled.rate == pytest.approx(
        64 * loops.lately([0.002] * before + steps, [0.0] * before + gaps, moment), rel=0.03
    )


def test_a_loop_that_stalls_no_longer_has_the_rate_of_its_steps() -> None:
    steps, gaps = loops.learning(1, 24, 0.0022, [0.3], spread=0.03, total_s=TOTAL_S)
    after = 20 * 500
    *_, (_, settled) = loops.read(
        loops.rates([*steps, *[0.002] * after], [*gaps, *[0.0] * after], 64), n_envs=64, every_s=1.0
    )
    assert settled is not None
    assert settled.rate == pytest.approx(64 * 500, rel=0.01)


def test_lines_that_were_not_looked_at_take_no_time_from_the_others() -> None:
    """Of a flood, as after a pause of the reader, only the last lines count."""
    steps, gaps = loops.learning(1, 24, 0.0022, [0.3], spread=0.03, total_s=TOTAL_S)
    window = RateWindow(Smoothing.RATES, 64)
    held: list[float] = []
    moment, due = 0.0, 3.0
    for moment, number in loops.rates(steps, gaps, 64):
        if moment > due:
            assert len(held) < 128 or due == 33.0
            window.add(held, due)
            held, due = [], due + (30.0 if due == 3.0 else 1.0)
        held.append(number)
    settled = window.settled()
    assert settled is not None
    assert settled.rate == pytest.approx(64 * loops.lately(steps, gaps, moment), rel=0.06)


def test_more_lines_than_genesis_prints_are_not_kept() -> None:
    stalls = Stalls()
    for number in range(4000):
        stalls.add([100.0, 10.0] * 64, number / 100, 100.0)
    assert sum(len(block.rates) for block in stalls._blocks) < 1000
    assert stalls.times_s([100.0], 1.0, 1.0) is None


def test_an_even_loop_has_no_stalls_and_memory_is_bounded() -> None:
    stalls = Stalls()
    for second in range(3600):
        stalls.add([100.0 + second % 3] * 20, float(second), 101.0)
        if second % 7 == 0:
            stalls.begin(second + 0.5)
    assert stalls.times_s([100.0], 1.0, 1.0) is None
    assert len(stalls._blocks) < 100
