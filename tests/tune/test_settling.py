"""How long a trial is measured, and which part of it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gmg_tui.model.tuning import TrialKind, TuneSpec
from gmg_tui.tune.settling import Settling


def measured(rate: Callable[[float], float], every_s: float = 1.0, kind: TrialKind = TrialKind.LADDER) -> Settling:
    """A trial whose rate at a time is this, counted every so many seconds."""
    settling, done, at_s = Settling(TuneSpec(), kind), 0.0, 0.0
    settling.take(done, at_s)
    while not settling.over:
        done += rate(at_s) * every_s
        at_s += every_s
        settling.take(done, at_s)
    return settling


def test_a_steady_rate_takes_the_least_time() -> None:
    settling = measured(lambda _: 500.0)
    assert (settling.rate, settling.measured_s) == (500.0, 20.0)


def test_all_slots_at_once_are_measured_for_a_minute() -> None:
    assert measured(lambda _: 500.0, kind=TrialKind.TOGETHER).measured_s == 60.0


def test_the_warm_up_is_excluded() -> None:
    settling = measured(lambda at_s: 1000.0 * (0.9 + 0.1 * min(1.0, at_s / 40)))
    assert settling.rate == pytest.approx(1000, rel=0.002)
    assert 40 < settling.measured_s <= 60
    together = measured(lambda at_s: 1000.0 * (0.9 + 0.1 * min(1.0, at_s / 40)), kind=TrialKind.TOGETHER)
    assert together.rate == pytest.approx(1000, rel=0.002)


def test_a_slowdown_of_a_warming_gpu_is_excluded() -> None:
    assert measured(lambda at_s: 1000.0 - 5 * min(20.0, at_s)).rate == pytest.approx(900, rel=0.002)


def test_an_unsettled_rate_is_measured_over_the_second_half() -> None:
    settling = measured(lambda at_s: 1000.0 + 20 * at_s)
    assert settling.measured_s == 60.0
    assert settling.rate == pytest.approx(1000 + 20 * 44.5, rel=0.01)


def test_iterations_longer_than_a_window_are_counted_whole() -> None:
    settling = measured(lambda _: 500.0, every_s=14.0)
    assert settling.rate == 500.0
    assert settling.measured_s == 28.0


def test_another_loop_restarts_the_measurement() -> None:
    settling = Settling(TuneSpec(), TrialKind.LADDER)
    for second in range(15):
        settling.take(100.0 * second, second)
    settling.take(0.0, 0.0)
    assert settling.rate is None
    assert settling.measured_s == 0.0
    for second in range(1, 21):
        settling.take(300.0 * second, second)
    assert settling.over
    assert settling.rate == 300.0


def test_before_the_second_count_there_is_no_rate() -> None:
    settling = Settling(TuneSpec(), TrialKind.LADDER)
    assert settling.rate is None
    settling.take(5.0, 1.0)
    assert settling.rate is None
    assert not settling.over
