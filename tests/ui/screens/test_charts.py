"""Charts drawn without an app, dot by dot."""

from __future__ import annotations

from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ui import charts


def test_more_values_than_columns_are_means_or_peaks_of_known_values() -> None:
    values = [0.0, 4.0, None, 8.0, None, None, 2.0, 2.0]
    assert charts.reduce(values, 4, fmean) == [2.0, 8.0, None, 2.0]
    assert charts.reduce(values, 4, max) == [4.0, 8.0, None, 2.0]
    assert charts.reduce([4.0], 3, fmean) == [None, None, 4.0]


@given(st.floats(1e-3, 1e13))
def test_a_ceiling_is_not_below_its_value_and_at_most_half_above(value: float) -> None:
    assert value <= charts.ceiling(value) <= value * 1.5 * (1 + 1e-9)
