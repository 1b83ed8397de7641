"""The curve of a tuning as rows of text, its command line, and what charts make of many values."""

import math
import shlex
from statistics import fmean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gmg_tui.model import Answer, Edge, MemoryLine, Trial, TrialKind, TrialState, Tuning
from gmg_tui.results import tuning_text
from gmg_tui.ui import charts
from gmg_tui.ui.curve import curve_rows
from tests import tunings


def _curve(tuning: Tuning, width: int = 100, height: int = 20) -> list[str]:
    return [str(row).rstrip() for row in curve_rows(tuning, tuning.answer, None, width, height)]


def _place(rows: list[str], sign: str) -> tuple[int, int]:
    """Where a sign stands below the heading."""
    return next((row.index(sign), at) for at, row in enumerate(rows) if at and sign in row)


def _two(first: tuple[int, float], second: tuple[int, float]) -> Tuning:
    trials = tuple(
        Trial(number, value, slot, TrialKind.LADDER, TrialState.MEASURED, rate)
        for number, (slot, (value, rate)) in enumerate([("gpu0", first), ("gpu1", second)], 1)
    )
    return Tuning(tunings.SPEC, "", trials, Answer("H100", ("gpu0", "gpu1")))


def test_values_are_plotted_on_a_logarithmic_axis_and_rates_on_a_linear_one() -> None:
    rows = _curve(_two((64, 3e6), (4096, 12e6)))
    trials = (*_two((64, 3e6), (4096, 12e6)).trials, tunings.measured(9, 512, "gpu2", rate=6e6))
    with_middle = _curve(replace(_two((64, 3e6), (4096, 12e6)), trials=trials, answer=Answer("", tunings.EIGHT)))
    (left, low), (right, high), (middle, between) = (_place(rows, "●"), _place(rows, "○"), _place(with_middle, "◆"))
    assert abs(middle - (left + right) / 2) <= 1
    assert high < between < low
    assert rows[0] == " FPS over n_envs  ● gpu0  ○ gpu1"


def test_an_interval_taller_than_a_cell_is_drawn() -> None:
    wide = tunings.measured(1, 64, "gpu0", rate=6e6, margin_pct=66.0)
    tuning = Tuning(tunings.SPEC, "", (wide, tunings.measured(2, 128, "gpu1", rate=1e6)), tunings.LADDER.answer)
    column = _place(_curve(tuning), "●")[0]
    rows = [at for at, row in enumerate(_curve(tuning)) if at and row[column : column + 1] == "│"]
    assert len(rows) >= 8


def test_without_a_rate_there_is_no_curve() -> None:
    assert "No rate yet" in "\n".join(_curve(tunings.FIRST))
    assert "No room" in "\n".join(_curve(tunings.ENDED, width=14))
    assert "No room" in "\n".join(_curve(tunings.ENDED, height=4))


_figures = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
_trials = st.builds(
    Trial,
    number=st.integers(1, 99),
    value=st.integers(-5, 2**62),
    slot=st.sampled_from((*tunings.EIGHT, "cpu0")),
    kind=st.sampled_from(TrialKind),
    state=st.sampled_from(TrialState),
    rate=_figures,
    margin_pct=_figures,
    memory_mib=st.none() | st.floats(0, 1e6),
    reason=st.none() | st.text(max_size=20),
)


@example(list(_two((1, 5e-324), (1, 5e-324)).trials), 19, 5, None)
@example(list(_two((1 << 59, 1.0), (1 << 59, 1.0)).trials), 19, 5, None)
@example(
    [*_two((1, 1.0), (1, 1.0)).trials, tunings.measured(3, 1, "gpu0", rate=1.0, margin_pct=-math.inf)], 19, 5, None
)
@given(st.lists(_trials, max_size=8), st.integers(1, 170), st.integers(1, 40), st.none() | st.integers(-3, 2**62))
@settings(deadline=None, max_examples=200)
def test_the_curve_always_fills_its_rows(trials: list[Trial], width: int, height: int, edge: int | None) -> None:
    answer = replace(
        tunings.ENDED.answer,
        edge=None if edge is None else Edge(edge, "why"),
        memory=None if edge is None else MemoryLine(1.0, 1.0, edge),
    )
    tuning = replace(tunings.ENDED, trials=tuple(trials), answer=answer)
    lines = curve_rows(tuning, answer, 1, width, height)
    assert len(lines) == height
    assert max(line.width for line in lines) <= width


@pytest.mark.parametrize(
    ("value", "command"),
    [
        (17_000, ("gmg-tui", "franka.py", "-B", "17000", "--seed", "{seed}")),
        (512, ("gmg-tui", "franka.py", "-B", "512", "--seed", "{seed}")),
    ],
)
def test_the_command_has_the_value_and_keeps_other_placeholders(value: int, command: tuple[str, ...]) -> None:
    assert tuning_text.command(tunings.session(tunings.ENDED).spec, "n_envs", value) == command


def test_the_command_has_the_slots_the_environment_and_the_module() -> None:
    spec = tunings.session(tunings.ENDED).spec
    run = replace(spec, script="train", args=("x",), env={"BS": "{n_envs}", "SAME": "17000"}, cpu=2, module=True)
    expected = ("gmg-tui", "--cpu", "2", "--env", "BS=9", "--env", "SAME=17000", "-m", "train", "x")
    assert tuning_text.command(run, "n_envs", 9) == expected


def test_the_command_has_the_options_that_affect_the_run() -> None:
    spec = tunings.session(tunings.ENDED).spec
    run = replace(spec, python="/venv/bin/python", python_given=True, patterns=("a b",), gpus="0,1")
    run = replace(run, probe=False, args=())
    text = shlex.join(tuning_text.command(run, "n_envs", 9))
    expected = "--python /venv/bin/python --gpus 0,1 --pattern 'a b' --no-probe"
    assert text == f"gmg-tui {expected} franka.py"


def test_a_trial_without_power_has_no_fps_per_watt() -> None:
    trial = tunings.measured(1, 64, "gpu0", rate=100.0)
    column = next(column for column in tuning_text.columns(tunings.SPEC) if column.name == "rate_per_w")
    assert [column.value(replace(trial, power_w=power_w)) for power_w in (0.0, 50.0)] == [None, 2.0]


# Charts drawn without an app, dot by dot


def test_more_values_than_columns_are_means_or_peaks_of_known_values_and_fewer_fill_the_width() -> None:
    values = [0.0, 4.0, None, 8.0, None, None, 2.0, 2.0]
    assert charts.resample(values, 4, fmean) == [2.0, 8.0, None, 2.0]
    assert charts.resample(values, 4, max) == [4.0, 8.0, None, 2.0]
    assert charts.resample([4.0, 2.0], 4, fmean) == [4.0, 4.0, 2.0, 2.0]
    assert charts.resample([], 2, fmean) == [None, None]


_finite = st.floats(0.05, 1e13) | st.floats(-1e13, -0.05) | st.just(0.0)


@given(st.lists(_finite, max_size=30), st.integers(1, 12))
def test_an_axis_holds_its_values_and_labels_its_ticks_apart(values: list[float], intervals: int) -> None:
    axis = charts.fit_axis(values, intervals)
    assert axis.low < axis.high
    assert all(value <= axis.high for value in values)
    assert sum(value < axis.low for value in values) <= 0.05 * len(values)
    assert 1 <= len(axis.ticks) <= max(3, intervals + 1)
    labels = [axis.label(tick) for tick in axis.ticks]
    assert len(set(labels)) == len(labels), labels
    assert all(len(label) <= 8 for label in labels)


@given(st.floats(-1e300, 1e300), st.floats(0.0, 1e300), st.integers(1, 12))
def test_an_axis_has_distinct_ticks_wherever_it_lies(low: float, span: float, intervals: int) -> None:
    """As for a metric whose steps are all the same large number."""
    axis = charts.make_axis(low, low + span, intervals)
    assert axis.low < axis.high
    assert 1 <= len({*axis.ticks}) == len(axis.ticks) <= max(3, intervals + 1)
    assert all(axis.label(tick) for tick in axis.ticks)


def _stack(values: list[float | None], width: int = 80, height: int = 12) -> list[str]:
    track = charts.Track("FPS", "7", values, None, "", "fps", fmean, "no rate yet")
    return [
        str(row).rstrip() for row in charts.stack([track], width=width, height=height, end=1_795_244_467.0, step_s=1.0)
    ]


def test_a_chart_has_no_empty_half_and_round_labels() -> None:
    rows = _stack([None] * 78 + [24e6 + 1e5 * (second % 3) for second in range(71)])
    assert "−1:00" in rows[-1]
    assert "−1:20" not in rows[-1]
    columns = {at for row in rows for at, cell in enumerate(row) if "\u2800" < cell < "\u2900"}
    assert columns == set(range(9, 80))
    assert [row[:7].strip() for row in rows if "┤" in row] == ["24.2M", "24.0M"]
    assert "lowest 24.0M  mean 24.1M  highest 24.2M" in rows[0]


def test_a_chart_shows_gaps_and_why_it_is_empty() -> None:
    rows = _stack([24e6] * 30 + [None] * 30 + [24e6] * 30)
    (line,) = [row for row in rows if any("\u2800" < cell < "\u2900" for cell in row)]
    gap = "".join("x" if "\u2800" < cell < "\u2900" else " " for cell in line[9:])
    assert len(gap.split()) == 2
    assert "no rate yet" in "\n".join(_stack([None] * 10))


@given(
    st.lists(st.none() | st.floats(0, 1e13, allow_nan=False), max_size=300),
    st.integers(32, 170),
    st.integers(5, 40),
    st.sampled_from([0.5, 1.0, 60.0, 3600.0]),
)
@settings(deadline=None, max_examples=60)
def test_charts_fill_their_rows(values: list[float | None], width: int, height: int, step_s: float) -> None:
    load = charts.Track("GPU", "7 %", values, 100.0, "%", "ok", fmean, "n/a")
    lines = charts.stack(
        [load, load._replace(high=None)][: 1 + (height > 8)], width=width, height=height, end=1e9, step_s=step_s
    )
    assert len(lines) == height
    assert max(line.width for line in lines) <= width


# Zooming, and signs side by side


def test_the_best_rates_are_enlarged_beside_the_whole_curve() -> None:
    rows = _curve(tunings.ENDED, height=24)
    second = next(row for row in rows if row.count("└") == 2).rindex("└")
    assert second < 50
    enlarged = [row[second:] for row in rows[2:]]
    assert sum(any(sign in row for sign in "●○◆◇■□▲△") for row in enlarged) >= 5
    assert "64" in rows[-1][:second]
    assert "18,000" in rows[-1][second:]
    assert all(row.count("└") < 2 for row in [*_curve(tunings.LADDER), *_curve(tunings.ENDED, width=60)])


def test_equal_points_and_equal_answers_are_drawn_side_by_side() -> None:
    same = replace(_two((4096, 12e6), (4096, 12e6)), answer=tunings.LADDER.answer)
    rows = _curve(same)
    assert "●○" in "\n".join(rows)
    assert set("RFL") <= set(rows[-2])


def test_the_step_of_a_tuning_has_its_number() -> None:
    steps = [tuning_text.step_number(each) for each in (tunings.FIRST, tunings.LADDER, tunings.ENDED)]
    assert steps == ["step 1 of 5", "step 1 of 5", ""]
    together = replace(tunings.FIRST, trials=(tunings.started(1, 64, "gpu0", TrialKind.TOGETHER),))
    assert tuning_text.step_number(together) == "step 5 of 5"


def test_a_tuning_without_any_rate_says_why() -> None:
    failed = Trial(1, 64, "gpu0", TrialKind.LADDER, TrialState.FAILED, reason="ModuleNotFoundError: no module named x")
    text = "\n".join(_curve(replace(tunings.FIRST, trials=(failed,), ended=True)))
    assert "No trial was measured: ModuleNotFoundError: no module named x." in text
