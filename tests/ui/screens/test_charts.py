"""Charts drawn without an app, dot by dot."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ui import charts
from gmg_tui.ui.charts import Values

_metrics = st.lists(st.none() | st.floats(0, 1e13), max_size=60)


def test_more_values_than_columns_are_means_or_peaks_of_known_values() -> None:
    values = [0.0, 4.0, None, 8.0, None, None, 2.0, 2.0]
    assert charts.reduce(values, 4, fmean) == [2.0, 8.0, None, 2.0]
    assert charts.reduce(values, 4, max) == [4.0, 8.0, None, 2.0]
    assert charts.reduce([4.0], 3, fmean) == [None, None, 4.0]


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
