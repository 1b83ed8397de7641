"""The Slurm job that this process runs in: its number, its GPUs, and when it ends.

The variables are those of srun and sbatch (their manual pages, "OUTPUT ENVIRONMENT VARIABLES"; Slurm 22.05 and later).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import Allocation

JOB_ID = "SLURM_JOB_ID"
END = "SLURM_JOB_END_TIME"
"""Unix time in seconds, from Slurm 23.02 on."""
_PHYSICAL = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The indices of the step's or the job's GPUs as the machine counts them."""
ASK = ("squeue", "--noheader", "--format=%e", "--jobs")
"""The command that prints when a job ends; its number follows."""
ASK_ENV = {"SLURM_TIME_FORMAT": "%s"}
"""What makes the answer Unix time in seconds."""

_SHORT_S = 600.0


def job_of(environ: Mapping[str, str]) -> str | None:
    """The number of the job; None outside one."""
    return environ.get(JOB_ID) or None


def end_of(text: str | None) -> float | None:
    """When a job ends, Unix time in seconds, from `squeue` or the variable; None for one without a limit."""
    return float(text) if text is not None and text.strip().isdecimal() else None


class Left(NamedTuple):
    """How long a job may go on."""

    text: str
    short: bool
    """Whether it is time to save what is not lost easily."""


def left(job: Allocation | None, now: float) -> Left | None:
    """How long a job has left at `now`, Unix seconds; None outside of one, and for one without a limit."""
    if job is None or job.ends is None:
        return None
    left_s = max(0.0, job.ends - now)
    return Left(f"Slurm {job.job}: {units.span(left_s)} left", left_s < _SHORT_S)


def visible(environ: Mapping[str, str], count: int) -> str | None:
    """The GPUs that are allowed, as NVML counts the `count` that it shows; None for all.

    Where Slurm confines its jobs to their GPUs, `CUDA_VISIBLE_DEVICES` counts from 0 within the job, and so does NVML,
    which does not show the others. Where NVML shows the others all the same, the machine's own indices hold, which
    Slurm sets in `SLURM_STEP_GPUS`.
    """
    outer = environ.get("CUDA_VISIBLE_DEVICES")
    physical = next((environ[name] for name in _PHYSICAL if environ.get(name)), None)
    if outer is None or physical is None or not job_of(environ):
        return outer
    within, of_machine = outer.split(","), physical.split(",")
    numbers = [*within, *of_machine]
    if len(within) != len(of_machine) or not all(entry.strip().isdecimal() for entry in numbers):
        return outer
    counts_from_0 = [int(entry) for entry in within] == list(range(len(within)))
    listed = all(int(entry) < count for entry in of_machine)
    return physical if counts_from_0 and listed and count > len(within) else outer
