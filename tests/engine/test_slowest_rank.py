"""Which rank of a group is behind the others, and how far."""

from __future__ import annotations

import pytest

from gmg_tui.engine.groups.group import slowest


@pytest.mark.parametrize(
    ("rates", "rank", "behind_pct"),
    [
        ([100.0, 100.0, 80.0, 100.0], 2, 20.0),
        ([50.0, 100.0], 0, 100 / 3),  # the median of two lies between them
        ([100.0, 98.0, 100.0], None, None),  # not notable
        ([100.0, None, 50.0], None, None),  # one has no rate yet
        ([100.0], None, None),
        ([0.0, 0.0], None, None),
    ],
)
def test_the_slowest_rank_is_named_with_its_gap_to_the_median(
    rates: list[float | None], rank: int | None, behind_pct: float | None
) -> None:
    assert slowest(rates) == (rank, behind_pct if behind_pct is None else pytest.approx(behind_pct))
