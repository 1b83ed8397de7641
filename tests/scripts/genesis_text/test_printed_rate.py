"""The rate behind printed numbers: steps by wall time, for known mixtures of steps and pauses."""

import math
from collections.abc import Iterator, Sequence

import pytest

from gmg_tui.model import Fps
from gmg_tui.scripts.genesis.output.printed_rate import PrintedRate, is_smoothed
from gmg_tui.scripts.genesis.output.reader import Reader
from tests.scripts.genesis_text import samples

_LINE_S = 0.05


def _printed(smoothed: bool, steps_s: Sequence[float], n_envs: int) -> Iterator[tuple[float, float]]:
    """Returns the time and the number of each line, as Genesis averages steps of these durations."""
    at = taken_s = 0.0
    count, average = 0, None
    for step_s in steps_s:
        at, taken_s, count = at + step_s, taken_s + step_s, count + 1
        if taken_s >= _LINE_S:
            sample = n_envs * count / taken_s
            average = sample if average is None or not smoothed else 0.95 * average + 0.05 * sample
            yield at, round(average, 2)
            taken_s, count = 0.0, 0


def _read(steps_s: Sequence[float], *, smoothed: bool = True, every_s: float = 0.1) -> Fps:
    """Returns the rates after all lines, which arrive in batches of `every_s` seconds."""
    rate = PrintedRate()
    waiting: list[float] = []
    due = every_s
    for at, number in _printed(smoothed, steps_s, 16):
        waiting.append(number)
        if at >= due:
            rate.add(waiting, at, smoothed=smoothed, n_envs=16)
            waiting, due = [], at + every_s
    fps = rate.fps()
    assert fps is not None
    return fps


def _of_last_seconds(steps_s: Sequence[float]) -> float:
    """The true rate of the last ten seconds."""
    count, passed_s = 0, 0.0
    for step_s in reversed(steps_s):
        count, passed_s = count + 1, passed_s + step_s
        if passed_s >= 10:
            break
    return 16 * count / passed_s


@pytest.mark.parametrize("smoothed", [True, False])
@pytest.mark.parametrize(
    ("steps_s", "near"),
    [
        ([0.001] * 20_000, 0.01),
        ([0.01] * 3000, 0.02),
        ([1.0] * 40, 0.01),
        ([0.01] * 1500 + [0.02] * 750, 0.02),
        (([0.01] * 23 + [0.31]) * 60, 0.25),
    ],
    ids=["steady, 1 ms", "steady, 10 ms", "steady, a second", "half as fast from the middle on", "24, then 0.3 s"],
)
def test_the_rate_is_steps_by_wall_time(smoothed: bool, steps_s: list[float], near: float) -> None:
    """If a loop pauses, the duration of each line is unknown, so that the rate is only near the truth."""
    fps = _read(steps_s, smoothed=smoothed)
    assert fps.settled == pytest.approx(_of_last_seconds(steps_s), rel=near)
    assert fps.mean == pytest.approx(16 * len(steps_s) / sum(steps_s), rel=max(near, 0.03))
    assert fps.counted == "printed"


def test_the_first_number_which_includes_compiling_only_starts_the_average() -> None:
    rate = PrintedRate()
    rate.add([59.03], 1.0, smoothed=True, n_envs=16)
    first = rate.fps()
    assert (first.last, first.mean, first.settled) == (59.03, None, None)
    rate.add([0.95 * 59.03 + 0.05 * 12_000], 1.05, smoothed=True, n_envs=16)
    second = rate.fps()
    assert second.settled == pytest.approx(12_000)


def test_no_printed_rate_makes_the_average_unknown_for_good() -> None:
    for smoothed in (False, True):
        rate = PrintedRate()
        for second, number in enumerate((1000.0, 5e-324, 0.0, 1e-300, 1e17, 1000.0)):
            rate.add([number], float(second), smoothed=smoothed)
        fps = rate.fps()
        assert fps is not None
        assert all(math.isfinite(value) for value in (fps.mean, fps.settled, fps.env_steps) if value is not None)


def test_counted_environment_steps_need_no_number_of_environments() -> None:
    rate = PrintedRate()
    for second in range(0, 40, 2):
        rate.add([123.0], float(second), smoothed=False)
        rate.count(1000.0 * second if second < 20 else 20_000 + 100.0 * (second - 20), float(second))
    fps = rate.fps()
    assert (fps.last, fps.settled) == (123.0, pytest.approx(100.0))
    assert fps.env_steps == pytest.approx(21_800.0)
    assert fps.mean == pytest.approx(21_800 / 38)


@pytest.mark.parametrize(
    ("version", "smoothed"), [(None, True), ("1.4.5", True), ("2.0.0rc1", True), ("0.4.5", False), ("0.2.1", False)]
)
def test_smoothed_versions(version: str | None, smoothed: bool) -> None:
    assert is_smoothed(version) is smoothed


def _silent_after(gap_s: float) -> Reader:
    reader = Reader()
    for index in range(10):
        reader.feed(samples.fps_line(100.0, 4), index * gap_s)
    return reader


def _silences(reader: Reader, last: float, count: int) -> list[float | None]:
    return [reader.pace.silent_s(last + seconds) for seconds in range(count)]


def test_a_rate_is_current_until_several_usual_gaps_have_passed() -> None:
    quick, slow = _silent_after(0.05), _silent_after(20.0)
    assert _silences(quick, 0.45, 7)[4:7] == [None, None, pytest.approx(6)]
    silences = _silences(slow, 180.0, 81)
    assert (silences[50], silences[80]) == (None, pytest.approx(80))
    assert Reader().pace.silent_s(1000.0) is None


def test_a_suspended_script_is_not_late_when_it_continues() -> None:
    for first in ("check", "report"):
        reader = _silent_after(2.0)
        pace = reader.pace
        assert pace.silent_s(19.0) is None
        if first == "check":
            assert pace.silent_s(100.0) is None
            assert pace.silent_s(101.0) is None
        pace.record(101.5)
        assert pace.usual_s <= 5.0, "the longest interval, without the pause"
        assert _silences(reader, 101.5, 20)[5::14] == [None, 19.0]
