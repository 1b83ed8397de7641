"""A worker's whole life in bounded memory, the finer the nearer."""

from __future__ import annotations

import pytest

from gmg_tui.engine.output.history import History, Point

DAY_S = 86_400
START = 1000.0


def _lived(seconds: int) -> History:
    """A history whose rate is the second of each step."""
    history = History()
    for second in range(seconds):
        history.add(START + second, Point(float(second), None, None, 5.0 if second % 2 else None))
    return history


@pytest.fixture(scope="module")
def day() -> History:
    return _lived(DAY_S)


@pytest.mark.parametrize(("back_s", "step_s"), [(60, 1.0), (700, 1.0), (2800, 4.0), (20_000, 32.0), (DAY_S, 128.0)])
def test_a_part_of_a_day_comes_in_the_finest_steps_that_hold_it(day: History, back_s: int, step_s: float) -> None:
    start = START + DAY_S - 1 - back_s
    series = day.since("gpu0", start)
    assert series.step_s == step_s
    assert len(series.fps) <= 721
    assert series.end == START + DAY_S - 1
    assert series.end - len(series.fps) * series.step_s <= start + series.step_s
    assert series.fps[-1] == pytest.approx(DAY_S, abs=step_s)
    assert series.fps[0] == pytest.approx(max(0, DAY_S - back_s), abs=2 * step_s)
    assert set(series.gpu_util_pct) == {None}
    assert set(series.power_w[:-1]) in ({5.0}, {5.0, None})


def test_more_than_its_life_is_its_whole_life(day: History) -> None:
    assert day.since("gpu0", 0.0) == day.whole("gpu0")


@pytest.mark.parametrize("seconds", [1, 3, 719, 720, 721, 5000])
def test_a_young_life_is_whole(seconds: int) -> None:
    history = _lived(seconds)
    series = history.since("gpu0", START)
    assert len(series.fps) * series.step_s == pytest.approx(seconds, abs=series.step_s)
    if seconds <= 719:
        assert series.fps == tuple(map(float, range(seconds)))


def test_nothing_is_an_empty_series() -> None:
    assert History().since("gpu0", 0.0).fps == ()


def test_the_share_of_busy_sms_comes_where_it_was_ever_known() -> None:
    history = History()
    for second in range(3):
        history.add(START + second, Point(1.0, 97.0, None, None, None if second == 1 else 40.0 + second))
    assert history.recent("gpu0").sm_pct == (40.0, None, 42.0)
    assert history.whole("gpu0").sm_pct == (40.0, None, 42.0)
    assert _lived(3).recent("gpu0").sm_pct == ()
