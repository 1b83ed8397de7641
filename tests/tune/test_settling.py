"""When a rate is settled, on blocks of made-up loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from gmg_tui.tune.settling import Estimate, Settling

RATE = 1000.0
SEEDS = range(60)
Blocks = Iterator[tuple[float, float]]
Loop = Callable[[random.Random], Blocks]


def measured(blocks: Blocks, limit_s: float = 30.0, at_least_s: float = 5.0) -> tuple[Settling, Estimate]:
    settling = Settling(limit_s, at_least_s)
    while not settling.over:
        settling.add(*next(blocks))
    estimate = settling.estimate()
    assert estimate is not None
    return settling, estimate


def speeds(chance: random.Random, noise: float, share: Callable[[int], float]) -> Blocks:
    second = 0
    while True:
        yield RATE * share(second) * chance.gauss(1, noise), 1.0
        second += 1


def steady(noise: float) -> Loop:
    return lambda chance: speeds(chance, noise, lambda second: 1.0)


def ramp(seconds: int, way: str) -> Loop:
    """A ramp-up to full speed: at 30 % of it, from 30 % of it, or by fits and starts at 30 % on average."""

    def loop(chance: random.Random) -> Blocks:
        def share(second: int) -> float:
            if second >= seconds:
                return 1.0
            shares = {"level": 0.3, "rising": 0.3 + 0.7 * second / seconds, "uneven": chance.uniform(0.1, 0.5)}
            return shares[way]

        return speeds(chance, 0.01, share)

    return loop


def stalling(step_s: float, steps: int, stall_s: float, noise: float = 0.01) -> Loop:
    """So many steps, then a stall, in blocks that end with the first step after a second."""

    def loop(chance: random.Random) -> Blocks:
        done = took_s = 0.0
        count = 0
        while True:
            count += 1
            done += RATE * (step_s + stall_s / steps)
            took_s += step_s * chance.gauss(1, noise) + (0 if count % steps else stall_s * chance.gauss(1, noise))
            if took_s >= 1:
                yield done, took_s
                done = took_s = 0.0

    return loop


def bursts(period: int) -> Loop:
    """All of a period's steps in its first second, in blocks of a second each."""
    return lambda chance: speeds(chance, 0.01, lambda second: 0.0 if second % period else float(period))


LOOPS = {
    "steady": steady(0.01),
    "noise of 3 %": steady(0.03),
    "uneven ramp of 5 s": ramp(5, "uneven"),
    "uneven ramp of 20 s": ramp(20, "uneven"),
    "rising for 5 s": ramp(5, "rising"),
    "rising for 10 s": ramp(10, "rising"),
    "a stall of 2 s in 3 s": stalling(0.04, 24, 2.0),
    "a stall of 0.3 s in 2.7 s": stalling(0.1, 24, 0.3),
    "a stall of 0.6 s in 3 s": stalling(0.1, 24, 0.6),
    "a stall in each block": stalling(0.03, 24, 0.3),
    "two blocks of three without a step": bursts(3),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_the_interval_holds_the_rate(loop: Loop) -> None:
    estimates = [measured(loop(random.Random(seed)))[1] for seed in SEEDS]

    assert sum(estimate.low <= RATE <= estimate.high for estimate in estimates) >= 0.85 * len(SEEDS)
    assert all(abs(estimate.rate / RATE - 1) < 0.045 for estimate in estimates)


@pytest.mark.parametrize("noise", [0.0, 0.003, 0.01])
def test_what_is_steady_takes_five_seconds(noise: float) -> None:
    times = sorted(measured(steady(noise)(random.Random(seed)))[0].measured_s for seed in SEEDS)

    assert times[0] == times[len(times) // 2] == 5


def test_more_noise_takes_longer_but_an_end_comes() -> None:
    settled = [measured(steady(0.03)(random.Random(seed)))[0] for seed in SEEDS]
    too_noisy, _ = measured(steady(0.3)(random.Random(0)))

    assert all(settling.settled and settling.measured_s <= 30 for settling in settled)
    assert sum(settling.measured_s for settling in settled) > 8 * len(SEEDS)
    assert not too_noisy.settled
    assert too_noisy.measured_s == 30


@pytest.mark.parametrize("seconds", [5, 10, 20])
@pytest.mark.parametrize("way", ["rising", "uneven", "level"])
def test_a_ramp_up_is_left_out(seconds: int, way: str) -> None:
    # One at a level cannot be told from a slow rate while it lasts: what the first trial showed is waited for.
    at_least_s = seconds + 5 if way == "level" else 5
    settling, estimate = measured(ramp(seconds, way)(random.Random(1)), at_least_s=at_least_s)

    assert settling.settled
    assert estimate.rate == pytest.approx(RATE, rel=0.02)
    assert seconds - 3 <= settling.ramp_s <= seconds + 1


@pytest.mark.parametrize("seconds", [5, 10, 20])
def test_measuring_as_long_as_allowed_shows_how_long_the_ramp_up_is(seconds: int) -> None:
    ramps_s = [measured(ramp(seconds, "level")(random.Random(seed)), at_least_s=30)[0].ramp_s for seed in SEEDS]

    assert min(ramps_s) == seconds
    assert sorted(ramps_s)[len(ramps_s) // 2] == seconds


def test_a_slow_drift_is_followed_and_a_fast_one_never_settles() -> None:
    slow, of_slow = measured(speeds(random.Random(2), 0.01, lambda second: 1 - 0.05 * second / 60))
    fast, _ = measured(speeds(random.Random(2), 0.002, lambda second: 1 - 0.3 * second / 60))

    assert slow.settled
    assert of_slow.rate == pytest.approx(RATE, rel=0.02)
    assert not fast.settled


@pytest.mark.parametrize("loop", [stalling(0.04, 24, 2.0), bursts(2), bursts(3)])
def test_whole_periods_make_a_loop_with_stalls_settle(loop: Loop) -> None:
    for seed in SEEDS:
        settling, estimate = measured(loop(random.Random(seed)))
        assert settling.settled
        assert estimate.rate == pytest.approx(RATE, rel=0.02)


def test_a_script_that_ends_early_may_have_been_steady() -> None:
    settling = Settling(30, at_least_s=30)
    for _ in range(10):
        settling.add(RATE, 1)
    assert (settling.steady, settling.settled, settling.over) == (True, False, False)


def test_nothing_is_known_of_one_block() -> None:
    settling = Settling(30)
    assert settling.estimate() is None
    settling.add(100, 1)
    assert settling.estimate() is None
    settling.add(100, 1)
    assert settling.estimate() == Estimate(100, 100, 100)
    assert not settling.settled


@pytest.mark.parametrize("time_s", [0.0, -1.0, float("nan"), float("inf")])
def test_blocks_without_a_time_are_left_out(time_s: float) -> None:
    settling = Settling(30)
    settling.add(100, time_s)
    settling.add(float("nan"), 1)
    assert settling.measured_s == 0


def test_a_loop_that_stands_still_never_settles() -> None:
    settling, estimate = measured(iter([(0.0, 1.0)] * 30))
    assert not settling.settled
    assert (settling.measured_s, estimate.rate) == (30, 0)
