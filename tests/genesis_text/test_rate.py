"""The rate behind Genesis's moving average."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.genesis.rate import RateWindow, averages_seconds
from gmg_tui.genesis.reader import Reader
from tests.genesis_text import samples


def averaged(rates: list[float], *, seconds: bool) -> list[float]:
    """What Genesis prints for these rates: 5 % of each, beginning with the first; to two decimals."""
    value = None
    printed = []
    for rate in rates:
        sample = 1 / rate if seconds else rate
        value = sample if value is None else 0.95 * value + 0.05 * sample
        printed.append(round(1 / value if seconds else value, 2))
    return printed


@given(
    # An average of seconds that begins a thousand times too low stays at a few FPS for many lines, and then its two
    # decimals hide more than the rates differ: the sample between two numbers v is off by about 0.2 * true / v².
    true=st.floats(1e4, 1e9),
    first=st.floats(0.05, 1.0),
    noise=st.lists(st.floats(0.97, 1.03), min_size=25, max_size=60),
    seconds=st.booleans(),
)
def test_a_known_rate_is_won_back_from_the_average(
    true: float, first: float, noise: list[float], seconds: bool
) -> None:
    rates = [true * first, *(true * factor for factor in noise)]
    window = RateWindow(seconds=seconds)
    window.add(averaged(rates, seconds=seconds))
    # The median of rates within 3 % of the true one, less what two decimals hide of an average.
    assert window.rate() == pytest.approx(true, rel=0.04)


@pytest.mark.parametrize("seconds", [False, True])
def test_one_slow_step_does_not_move_the_rate(seconds: bool) -> None:
    rates = [1e6] * 15 + [1e4] + [1e6] * 5
    window = RateWindow(seconds=seconds)
    window.add(averaged(rates, seconds=seconds))
    assert window.rate() == pytest.approx(1e6, rel=1e-3)


def test_the_real_run_gives_its_rate_with_the_second_line() -> None:
    reader = Reader(gpu_slot=False)
    rates = []
    for line, now in samples.timed("box-warm.log"):
        reader.feed(line, now)
        if reader.fps is not None and reader.fps.samples > len(rates):
            assert reader.fps.rate is not None
            rates.append(reader.fps.rate)
    assert reader.fps is not None
    assert (reader.fps.samples, reader.fps.last, reader.fps.max) == (96, 14046.65, 14090.14)
    assert rates[0] == 36.51  # one number: nothing to win back
    assert rates[1] == pytest.approx(16350, abs=1)  # while Genesis prints 852
    assert statistics.median(rates[1:]) == pytest.approx(13800, rel=0.1)
    assert all(rate > 9000 for rate in rates[1:])


def test_a_number_that_is_no_such_average_is_given_as_printed() -> None:
    window = RateWindow(seconds=False)
    window.add([100.0, 900.0, 80.0, 1000.0, 90.0, 950.0, 85.0])  # two scenes that step in turn
    assert window.rate() == 85.0


def test_another_number_of_environments_begins_a_new_average() -> None:
    reader = Reader(gpu_slot=True)
    for value in averaged([1e4] * 10, seconds=False):
        reader.feed(samples.fps_line(value, 16), 1.0)
    reader.feed(samples.fps_line(2e6, 4096), 1.0)
    assert reader.n_envs == 4096
    assert reader.fps is not None
    assert (reader.fps.rate, reader.fps.samples) == (2e6, 11)


@pytest.mark.parametrize(
    ("version", "seconds"),
    [("0.2.1", True), ("0.4.5", True), ("0.4.6", False), ("1.4.5", False), ("1.5.0rc1", False), (None, False)],
)
def test_which_versions_average_seconds(version: str | None, seconds: bool) -> None:
    assert averages_seconds(version) is seconds


def test_the_version_in_the_greeting_decides_how_the_average_is_undone() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.logged("🚀 Genesis initialized. 🔖 version: 0.3.3, 🌱 seed: None"), 1.0)
    for value in averaged([1e5, *[1e4] * 5], seconds=True):
        reader.feed(samples.fps_line(value), 1.0)
    assert reader.fps is not None
    assert reader.fps.rate == pytest.approx(1e4, rel=1e-3)
