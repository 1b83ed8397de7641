"""The Slurm job that this process runs in: its number, its GPUs, and when it ends; and Slurm's own commands.

The variables are set by srun and sbatch (their manual pages, "OUTPUT ENVIRONMENT VARIABLES"; Slurm 22.05 and later).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from gmg_tui.model import Allocation, units

_log = logging.getLogger(__name__)

_PHYSICAL = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The indices of the step's or the job's GPUs as the machine counts them."""
_UNIX_TIME = {"SLURM_TIME_FORMAT": "%s"}
"""Has squeue print Unix time in seconds."""
_SHORT_S = 600.0
_AGAIN_S = 300.0
"""Until it is asked again: an administrator, or `scontrol update`, may change a job's limit."""
_PATIENCE_S = 30.0


def job_of(environ: Mapping[str, str]) -> str | None:
    """Returns the number of the job; None outside one."""
    return environ.get("SLURM_JOB_ID") or None


class RemainingTime(NamedTuple):
    """The remaining time of a job."""

    text: str
    short: bool
    """True if it is time to save the work."""


def remaining_time(job: Allocation | None, now: float) -> RemainingTime | None:
    """Returns the remaining time of a job at `now`, Unix seconds; None outside a job, and for one without a limit."""
    if job is None or job.ends is None:
        return None
    left_s = max(0.0, job.ends - now)
    return RemainingTime(f"Slurm {job.job}: {units.span(left_s)} left", left_s < _SHORT_S)


def visible(environ: Mapping[str, str], count: int) -> str | None:
    """Returns the GPUs that are allowed, as NVML counts the `count` that it shows; None for all.

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


async def run(*command: str) -> tuple[int, str, str]:
    """Runs a command of Slurm's. Returns its exit status, output and standard error; -1 if it does not answer."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    environ = {**os.environ, **_UNIX_TIME}
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environ, stdin=nothing, stdout=pipe, stderr=pipe)
    except OSError as error:
        return -1, "", f"cannot run {command[0]}: {error.strerror}"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            output, trouble = await process.communicate()
    except TimeoutError:
        return -1, "", f"{command[0]} has not answered for {_PATIENCE_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await process.wait(), output.decode(errors="replace").strip(), trouble.decode(errors="replace").strip()


class AllocationWatch:
    """Asks Slurm when the job that this process runs in ends, now and then; outside of a job it asks nothing.

    Attributes:
        newest: The job; None outside of one.
    """

    def __init__(self) -> None:
        job = job_of(os.environ)
        self.newest = Allocation(job) if job is not None else None

    async def run(self) -> None:
        """Asks until cancelled."""
        while self.newest is not None:
            status, ends, trouble = await run("squeue", "--noheader", "--format=%e", "--jobs", self.newest.job)
            if status == 0:
                self.newest = Allocation(self.newest.job, float(ends) if ends.isdecimal() else None)
            else:
                _log.info("the end of the Slurm job is unknown: %s", trouble)
            await asyncio.sleep(_AGAIN_S)
