"""What is read from a job's variables; no Slurm is needed."""

from __future__ import annotations

import pytest

from gmg_tui.model import Allocation
from gmg_tui.slurm import allocation


@pytest.mark.parametrize(
    ("text", "expected"), [("1795400007\n", 1795400007.0), ("N/A\n", None), (None, None), ("", None)]
)
def test_end_time_of_a_job(text: str | None, expected: float | None) -> None:
    assert allocation.end_of(text) == expected


def test_time_left_is_short_in_the_last_ten_minutes() -> None:
    job = Allocation("42", ends=1000.0)
    assert allocation.left(job, 1000.0 - 7200) == ("Slurm 42: 2h 00m left", False)
    assert allocation.left(job, 500.0) == ("Slurm 42: 8:20 left", True)
    assert allocation.left(Allocation("42"), 0.0) is None
    assert allocation.left(None, 0.0) is None
