"""The variables of a job, without a Slurm."""

import pytest

from gmg_tui.machine import slurm as allocation
from gmg_tui.model import Allocation

_JOB = {"SLURM_JOB_ID": "42"}


@pytest.mark.parametrize(
    ("environ", "count", "expected"),
    [
        ({}, 8, None),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 2, "0,1"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GPUS": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "1", "SLURM_STEP_GPUS": "2,3"}, 8, "1"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "GPU-ab,GPU-cd", "SLURM_STEP_GPUS": "2,3"}, 8, "GPU-ab,GPU-cd"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0", "SLURM_STEP_GPUS": "9" * 5000}, 8, "0"),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 8, "0,1"),
    ],
)
def test_gpus_of_a_job(environ: dict[str, str], count: int, expected: str | None) -> None:
    assert allocation.visible_gpus(environ, count) == expected


def test_the_last_ten_minutes_of_a_job_are_marked() -> None:
    job = Allocation("42", ends=1000.0)
    assert allocation.remaining_time(job, 1000.0 - 7200) == ("Slurm 42: 2h 00m left", False)
    assert allocation.remaining_time(job, 500.0) == ("Slurm 42: 8:20 left", True)
    assert allocation.remaining_time(Allocation("42"), 0.0) is None
    assert allocation.remaining_time(None, 0.0) is None
