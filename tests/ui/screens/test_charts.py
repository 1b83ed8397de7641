"""Charts drawn without an app, dot by dot."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ui.drawing import charts
from gmg_tui.ui.drawing.charts import Reduction, Values

_metrics = st.lists(st.none() | st.floats(0, 1e13), max_size=60)


def _rows(values: Values, width: int, height: int, *, how: Reduction = fmean) -> list[str]:
    return charts.chart(values, width=width, height=height, high=8.0, how=how)


def test_each_column_of_dots_is_one_value_from_the_lower_edge_to_the_upper() -> None:
    assert _rows([0.0, 2.0, 4.0, 6.0, 8.0, 8.0], 3, 1) == ["⣀⣴⣿"]
    assert _rows([1.0, 2.0, 5.0, 8.0], 2, 2) == [" ⣸", "⣠⣿"]


def test_an_unknown_value_is_a_gap_and_zero_is_a_dot() -> None:
    assert _rows([None, 0.0, None, None, 8.0, None], 3, 1) == ["⢀ ⡇"]
    assert _rows([math.nan, 8.0], 1, 1) == ["⢸"]


def test_values_outside_the_scale_are_drawn_at_its_edge() -> None:
    assert _rows([-5.0, 900.0], 1, 2) == ["⢸", "⣸"]


def test_fewer_values_than_columns_are_right_aligned() -> None:
    assert _rows([8.0, 8.0], 4, 1) == ["   ⣿"]
    assert _rows([8.0], 2, 1) == [" ⢸"]
    assert _rows([], 3, 1) == ["   "]


def test_more_values_than_columns_are_means_or_peaks_of_known_values() -> None:
    values = [0.0, 4.0, None, 8.0, None, None, 2.0, 2.0]
    assert charts.reduce(values, 4, fmean) == [2.0, 8.0, None, 2.0]
    assert charts.reduce(values, 4, max) == [4.0, 8.0, None, 2.0]
    assert _rows(values, 2, 1) == ["⣸⢀"]
    assert _rows(values, 2, 1, how=max) == ["⣼⢀"]


def test_a_chart_without_known_values_is_blank_and_one_without_height_has_no_rows() -> None:
    assert _rows([None] * 90, 5, 3) == ["     "] * 3
    assert _rows([1.0], 5, 0) == []
    assert _rows([1.0, 2.0], 0, 2) == ["", ""]


@given(_metrics, st.integers(1, 20), st.integers(0, 5))
def test_a_chart_fills_its_size_exactly(values: Values, width: int, height: int) -> None:
    assert [len(row) for row in _rows(values, width, height)] == [width] * height


@given(_metrics, st.integers(1, 20))
def test_peaks_are_neither_lost_nor_invented(values: Values, columns: int) -> None:
    reduced = charts.reduce(values, columns, max)
    assert len(reduced) == columns
    assert max((v for v in reduced if v is not None), default=None) == max(
        (v for v in values if v is not None), default=None
    )


@given(st.floats(1e-3, 1e13))
def test_a_ceiling_is_not_below_its_value_and_at_most_half_above(value: float) -> None:
    assert value <= charts.ceiling(value) <= value * 1.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "edge"), [(0.0, 1.0), (-3.0, 1.0), (1.0, 1.0), (24.0e6, 25e6), (25e6, 25e6), (8.1, 10.0), (99.9, 100.0)]
)
def test_a_ceiling_is_a_round_number(value: float, edge: float) -> None:
    assert charts.ceiling(value) == edge
