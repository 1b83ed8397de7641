"""The rate behind the printed numbers: steps by wall time, for known mixtures of steps and stalls."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.genesis.output.rate import RateWindow, Smoothing, smoothing
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.genesis.output.stretches import WINDOW_S
from tests.genesis_text import loops, samples

LOOPS = {
    "steady, 1 ms": ([0.001] * 15_000, []),
    "steady, 10 ms": ([0.01] * 2000, []),
    "steady, a second": ([1.0] * 60, []),
    "24 of 10 ms, then 0.3 s": ([0.01] * 960, ([0.0] * 23 + [0.3]) * 40),
    "24 of 3 ms, then 0.05 s": ([0.003] * 3600, ([0.0] * 23 + [0.05]) * 150),
    "24 of 37 ms, then 1.5 s": ([0.037] * 480, ([0.0] * 23 + [1.5]) * 20),
    "100 of 2 ms, then 2 s": ([0.002] * 1000, ([0.0] * 99 + [2.0]) * 10),
    "1000 of 10 ms, then 5 s": ([0.01] * 3000, ([0.0] * 999 + [5.0]) * 3),
    "200 of 10 ms, then 200 of 25 ms": (([0.01] * 200 + [0.025] * 200) * 4, []),
    "10 of a second, then 5 s": ([1.0] * 80, ([0.0] * 9 + [5.0]) * 8),
}
"""Steps of each loop, and the stall after each step."""
NEAR = {Smoothing.RATES: 0.03, Smoothing.SECONDS: 0.03, Smoothing.NONE: 0.15}
"""How near the truth a rate is. From 0.3.7 to 0.4.5 neither the steps nor their time can be won back."""


def truth(steps: list[float], stalls: list[float], n_envs: int) -> float:
    return len(steps) * n_envs / (sum(steps) + sum(stalls))


@pytest.mark.parametrize("kind", list(loops.KINDS), ids=lambda kind: kind.value)
@pytest.mark.parametrize("n_envs", [1, 4096])
@pytest.mark.parametrize("loop", list(LOOPS))
def test_the_rate_of_a_loop_is_its_steps_by_its_time(loop: str, n_envs: int, kind: Smoothing) -> None:
    steps, stalls = LOOPS[loop]
    for seed in range(2):
        printed = loops.KINDS[kind](loops.uneven(seed, steps), stalls, n_envs)
        *_, (_, settled) = loops.read(printed, kind, n_envs)
        assert settled is not None
        assert settled.rate == pytest.approx(truth(steps, stalls, n_envs), rel=NEAR[kind]), seed


@pytest.mark.parametrize(("every_s", "near"), [(0.02, 0.05), (0.1, 0.05), (0.25, 0.05), (1.0, 0.08)])
def test_a_periodic_loop_has_its_rate_at_every_moment(every_s: float, near: float) -> None:
    steps, stalls = LOOPS["24 of 10 ms, then 0.3 s"]
    assert truth(steps, stalls, 1) == pytest.approx(44.4, abs=0.1)
    shown = list(loops.read(loops.rates(loops.uneven(1, steps), stalls), every_s=every_s))
    settled = [rate for moment, rate in shown if moment > WINDOW_S]
    assert all(rate is not None and rate.rate == pytest.approx(44.4, rel=near) for rate in settled)
    assert statistics.fmean(rate.rate for rate in settled if rate) == pytest.approx(44.4, rel=0.02)
    # While Genesis' average, of the last lines alike, wavers around 84.
    assert statistics.fmean(number for _, number in list(loops.rates(steps, stalls))[100:]) > 75


@pytest.mark.parametrize("loop", ["steady, 10 ms", "24 of 10 ms, then 0.3 s", "24 of 37 ms, then 1.5 s"])
@pytest.mark.parametrize("bunch", [7, 40])
def test_lines_that_arrive_late_in_bunches_have_the_same_rate(loop: str, bunch: int) -> None:
    steps, stalls = LOOPS[loop]
    for seed in range(3):
        printed = loops.rates(loops.uneven(seed, steps), stalls, 16)
        *_, (_, settled) = loops.read(printed, Smoothing.RATES, 16, bunch=bunch)
        assert settled is not None
        assert settled.rate == pytest.approx(truth(steps, stalls, 16), rel=0.03), seed


def test_one_long_stall_counts_with_its_time_and_is_over_when_the_window_is() -> None:
    steps, stalls = [0.01] * 3000, [0.0] * 1500 + [4.0]
    shown = list(loops.read(loops.rates(loops.uneven(1, steps), stalls)))
    begin = 2.0 + 15.0  # compiling, then the first half
    for moment, settled in shown:
        assert settled is None or moment < 12 or settled.spread is not None
        if 12 < moment < begin or moment > begin + 4 + WINDOW_S + 1:
            assert settled is not None
            assert settled.rate == pytest.approx(100, rel=0.03)
        elif begin + 4.5 < moment < begin + 4 + WINDOW_S - 4.5:
            assert settled is not None
            assert settled.rate == pytest.approx(60, rel=0.05)  # 6 s of steps, 4 s of none


def test_slow_moments_by_chance_make_no_periods_and_the_rate_is_that_of_the_last_seconds() -> None:
    """Another process takes the machine's time now and then."""
    fast_s, slow_s = (8.0, 1.0, 15.0, 3.0, 6.0), (2.0, 4.0, 1.0, 2.0, 0.0)
    paces = [
        (pace, length)
        for pair in zip(fast_s, slow_s, strict=True)
        for pace, length in zip((0.01, 0.025), pair, strict=True)
    ]
    steps = [pace for pace, length in paces for _ in range(round(length / pace))]
    *_, (_, settled) = loops.read(loops.rates(loops.uneven(1, steps)))
    assert settled is not None
    # The last ten seconds: six fast ones, two slow ones, two fast ones.
    assert settled.rate == pytest.approx(88, rel=0.03)


def test_the_spread_tells_even_loops_from_uneven_ones() -> None:
    *_, (_, even) = loops.read(loops.rates(loops.uneven(1, [0.01] * 4000)))
    *_, (_, wild) = loops.read(loops.rates(loops.uneven(1, [0.01] * 4000, spread=0.5)))
    steps, stalls = LOOPS["24 of 37 ms, then 1.5 s"]
    *_, (_, periodic) = loops.read(loops.rates(loops.uneven(1, steps), stalls))
    assert even is not None
    assert wild is not None
    assert periodic is not None
    assert even.spread is not None
    assert wild.spread is not None
    assert periodic.spread is not None
    assert even.spread < 0.01 * even.rate < wild.spread
    # Its periods are alike, though its seconds are not.
    assert periodic.spread < 0.05 * periodic.rate


@given(
    true=st.floats(1e4, 1e9),
    first=st.floats(0.05, 1.0),
    noise=st.lists(st.floats(0.97, 1.03), min_size=25, max_size=60),
)
def test_a_known_rate_is_won_back_from_the_average(true: float, first: float, noise: list[float]) -> None:
    window, average = RateWindow(Smoothing.RATES), true * first
    window.add([round(average, 2)], 1.0)
    for factor in noise:
        average = 0.95 * average + 0.05 * true * factor
        window.add([round(average, 2)], 1.0)
    settled = window.settled()
    assert settled is not None
    assert settled.rate == pytest.approx(true, rel=0.04)


def test_a_flood_costs_no_more_than_its_last_lines() -> None:
    window = RateWindow(Smoothing.RATES)
    for second in range(20):
        window.add([1000.0] * 50_000, float(second))
    settled = window.settled()
    assert settled is not None
    assert settled.rate == pytest.approx(1000, rel=1e-3)


def test_the_real_run_gives_its_rate_with_the_second_line() -> None:
    reader = Reader(gpu_slot=False)
    rates: list[float | None] = []
    for line, now in samples.timed("box-warm.log"):
        reader.feed(line, now)
        if reader.fps is not None and reader.fps.samples > len(rates):
            rates.append(reader.fps.settled)
    assert reader.fps is not None
    assert (reader.fps.samples, reader.fps.last, reader.fps.max) == (96, 14046.65, 14090.14)
    assert rates[0] is None  # one number: nothing to win back
    known = [rate for rate in rates[1:] if rate is not None]
    assert len(known) == 95
    assert known[0] == pytest.approx(16350, abs=1)  # while Genesis prints 852
    assert known[-1] == pytest.approx(13800, rel=0.1)
    assert all(rate > 9000 for rate in known)


def test_numbers_that_are_no_such_average_have_no_known_rate() -> None:
    window = RateWindow(Smoothing.RATES)
    window.add([100.0, 900.0, 80.0, 1000.0, 90.0, 950.0, 85.0], 1.0)  # two scenes that step in turn
    assert window.settled() is None


def test_another_number_of_environments_begins_a_new_average() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.fps_line(1e4, 16) * 10, 1.0)
    assert reader.fps is not None
    assert reader.fps.settled == pytest.approx(1e4, rel=1e-3)
    reader.feed(samples.fps_line(2e6, 4096), 1.0)
    assert reader.n_envs == 4096
    assert (reader.fps.settled, reader.fps.best_known, reader.fps.samples) == (None, 2e6, 11)


def test_what_rsl_rl_prints_is_no_average() -> None:
    reader = Reader(gpu_slot=True)
    for number, rate in enumerate((1000, 4000, 2000, 3000)):
        reader.feed(f"{'Steps per second:':>40} {rate}\n".encode(), 2.0 * number)
    assert reader.fps is not None
    # The first is of a time that nobody knows.
    assert reader.fps.settled == pytest.approx(3000, rel=0.01)


@pytest.mark.parametrize("old", [False, True])
def test_the_rate_of_rsl_rls_iterations_is_their_steps_by_their_time(old: bool) -> None:
    reader = Reader(gpu_slot=True)
    now = 0.0
    for number in range(60):
        rate = 480 if number % 2 else 320
        now += 192 / rate
        first, second = f"{'Steps per second:':>40} {rate}\n", f"{'Total steps:':>40} {192 * (number + 1)}\n"
        if old:
            first = f"{'Computation:':>40} {rate} steps/s (collection: 0.031s, learning 0.019s)\n"
            second = f"{'Total timesteps:':>40} {192 * (number + 1)}\n"
        # They are read together once a second, as the lines of every talkative worker.
        reader.feed((first + second if old else second + first).encode(), math.ceil(now - 1e-6))
    assert reader.fps is not None
    assert reader.fps.settled == pytest.approx(192 * 60 / now, rel=0.03)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("0.2.1", Smoothing.SECONDS),
        ("0.3.6", Smoothing.SECONDS),
        ("0.3.7", Smoothing.NONE),
        ("0.4.5", Smoothing.NONE),
        ("0.4.6", Smoothing.RATES),
        ("1.4.5", Smoothing.RATES),
        ("1.5.0rc1", Smoothing.RATES),
        (None, Smoothing.RATES),
    ],
)
def test_which_versions_average_what(version: str | None, kind: Smoothing) -> None:
    assert smoothing(version) is kind


def test_the_version_in_the_greeting_decides_what_the_numbers_are() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.logged("🚀 Genesis initialized. 🔖 version: 0.3.3, 🌱 seed: None"), 1.0)
    for moment, number in loops.seconds([0.01] * 500):
        reader.feed(samples.fps_line(number), moment)
    assert reader.fps is not None
    assert reader.fps.mean < 90  # the first step still weighs
    assert reader.fps.settled == pytest.approx(100, rel=0.01)


def _reader(moments: list[float]) -> Reader:
    reader = Reader(gpu_slot=True)
    for moment in moments:
        reader.feed(samples.fps_line(1000.0, 16), moment)
    return reader


def test_a_rate_without_lines_is_no_longer_current_after_some_of_its_usual_gaps() -> None:
    quick = _reader([number / 10 for number in range(600)])
    assert quick.fps_silent_s(61.0) is None
    assert quick.fps_silent_s(110.0) == pytest.approx(50, abs=0.2)
    slow = _reader([20.0 * number for number in range(10)])
    assert slow.fps_silent_s(230.0) is None
    assert slow.fps_silent_s(260.0) == pytest.approx(80)


def test_a_loop_that_learns_for_long_is_current_while_it_does_so_again() -> None:
    learning = _reader([24.0 * period + number / 10 for period in range(5) for number in range(40)])
    assert learning.fps_silent_s(99.9 + 25) is None
    assert learning.fps_silent_s(99.9 + 80) == pytest.approx(80, abs=0.2)


def test_one_number_is_current_for_a_minute_and_none_is_not_silent() -> None:
    assert Reader(gpu_slot=True).fps_silent_s(1000.0) is None
    once = _reader([10.0])
    assert once.fps_silent_s(69.0) is None
    assert once.fps_silent_s(75.0) == 65.0
