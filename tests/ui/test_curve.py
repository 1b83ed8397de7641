"""The curve of a tuning as rows of text, its command line, and what charts make of many values."""

from __future__ import annotations

import shlex
from statistics import fmean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gmg_tui.model import Answer, Edge, MemoryLine, Trial, TrialKind, TrialState, Tuning
from gmg_tui.results import tuning_text as tune_words
from gmg_tui.ui import charts
from gmg_tui.ui.charts import curve
from tests import tunings


def _curve(tuning: Tuning, width: int = 100, height: int = 20) -> list[str]:
    return [line.plain for line in curve(tuning, tuning.answer, None, width, height)]


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
    (left, low), (right, high), (middle, between) = (
        _place(rows, "●"),
        _place(rows, "○"),
        _place(with_middle, "◆"),
    )
    assert abs(middle - (left + right) / 2) <= 1
    assert high < between < low
    assert rows[0].startswith(" FPS over n_envs  ● gpu0  ○ gpu1")


def test_an_interval_taller_than_a_cell_is_drawn() -> None:
    wide = tunings.measured(1, 64, "gpu0", rate=6e6, margin_pct=66.0)
    tuning = Tuning(tunings.SPEC, "", (wide, tunings.measured(2, 128, "gpu1", rate=1e6)), tunings.LADDER.answer)
    column = _place(_curve(tuning), "●")[0]
    rows = [at for at, row in enumerate(_curve(tuning)) if at and row[column : column + 1] == "│"]
    assert len(rows) >= 8


def test_without_a_rate_there_is_no_curve() -> None:
    assert "no rate yet" in "\n".join(_curve(tunings.FIRST))
    assert "no room" in "\n".join(_curve(tunings.ENDED, width=14))
    assert "no room" in "\n".join(_curve(tunings.ENDED, height=4))


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


@example(list(_two((1 << 59, 1.0), (1 << 59, 1.0)).trials), 19, 5, None)
@given(
    st.lists(_trials, max_size=8),
    st.integers(1, 170),
    st.integers(1, 40),
    st.none() | st.integers(-3, 2**62),
)
@settings(deadline=None, max_examples=200)
def test_the_curve_always_fills_its_rows(trials: list[Trial], width: int, height: int, edge: int | None) -> None:
    answer = replace(
        tunings.ENDED.answer,
        edge=None if edge is None else Edge(edge, "why"),
        memory=None if edge is None else MemoryLine(1.0, 1.0, edge),
    )
    tuning = replace(tunings.ENDED, trials=tuple(trials), answer=answer)
    lines = curve(tuning, answer, 1, width, height)
    assert len(lines) == height
    assert max(line.cell_length for line in lines) <= width


@pytest.mark.parametrize(
    ("value", "command"),
    [
        (17_000, ("gmg-tui", "franka.py", "-B", "17000", "--seed", "{seed}")),
        (512, ("gmg-tui", "franka.py", "-B", "512", "--seed", "{seed}")),
    ],
)
def test_the_command_has_the_value_and_keeps_other_placeholders(value: int, command: tuple[str, ...]) -> None:
    assert tune_words.command(tunings.session(tunings.ENDED).spec, "n_envs", value) == command


def test_the_command_has_the_slots_the_environment_and_the_module() -> None:
    spec = tunings.session(tunings.ENDED).spec
    run = replace(spec, script="train", args=("x",), env={"BS": "{n_envs}", "SAME": "17000"}, cpu=2, module=True)
    expected = ("gmg-tui", "--cpu", "2", "--env", "BS=9", "--env", "SAME=17000", "-m", "train", "x")
    assert tune_words.command(run, "n_envs", 9) == expected


def test_the_command_has_the_options_that_affect_the_run() -> None:
    spec = tunings.session(tunings.ENDED).spec
    run = replace(spec, python="/venv/bin/python", python_given=True, patterns=("a b",), gpus="0,1")
    run = replace(run, probe=False, args=())
    text = shlex.join(tune_words.command(run, "n_envs", 9))
    expected = "--python /venv/bin/python --gpus 0,1 --pattern 'a b' --no-probe"
    assert text == f"gmg-tui {expected} franka.py"


def test_a_trial_without_power_has_no_fps_per_watt() -> None:
    trial = tunings.measured(1, 64, "gpu0", rate=100.0)
    column = next(column for column in tune_words.columns(tunings.SPEC) if column.name == "rate_per_w")
    assert [column.value(replace(trial, power_w=power_w)) for power_w in (0.0, 50.0)] == [None, 2.0]


# Charts drawn without an app, dot by dot


def test_more_values_than_columns_are_means_or_peaks_of_known_values() -> None:
    values = [0.0, 4.0, None, 8.0, None, None, 2.0, 2.0]
    assert charts.reduce(values, 4, fmean) == [2.0, 8.0, None, 2.0]
    assert charts.reduce(values, 4, max) == [4.0, 8.0, None, 2.0]
    assert charts.reduce([4.0], 3, fmean) == [None, None, 4.0]


@given(st.floats(1e-3, 1e13))
def test_a_ceiling_is_not_below_its_value_and_at_most_half_above(value: float) -> None:
    assert value <= charts.ceiling(value) <= value * 1.5 * (1 + 1e-9)
