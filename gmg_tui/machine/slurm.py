"""The Slurm job of this process: its ID, GPUs and end; and Slurm's commands.

srun and sbatch set the variables ("OUTPUT ENVIRONMENT VARIABLES" in their manual pages; Slurm 22.05 and later).
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from gmg_tui.model import Allocation, units

_log = logging.getLogger(__name__)

_PHYSICAL_GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""Variables with the machine's indices of the step's or the job's GPUs."""
_UNIX_TIME = {"SLURM_TIME_FORMAT": "%s"}
"""Makes squeue print Unix seconds."""
_SHORT_TIME_S = 600.0
_POLL_S = 300.0
"""Poll interval; `scontrol update` may change a job's time limit."""
_ANSWER_TIMEOUT_S = 30.0


def job_of(environ: Mapping[str, str]) -> str | None:
    """Returns the job's ID; None outside a job."""
    return environ.get("SLURM_JOB_ID") or None


class RemainingTime(NamedTuple):
    """The remaining time of a job."""

    text: str
    short: bool
    """True if it is time to save the work."""


def remaining_time(job: Allocation | None, now: float) -> RemainingTime | None:
    """Returns a job's remaining time at `now`, Unix seconds; None outside a job, or without a limit."""
    if job is None or job.ends is None:
        return None
    left_s = max(0.0, job.ends - now)
    return RemainingTime(f"Slurm {job.job}: {units.span(left_s)} left", left_s < _SHORT_TIME_S)


def visible_gpus(environ: Mapping[str, str], count: int) -> str | None:
    """Returns `CUDA_VISIBLE_DEVICES` with indices of NVML, which shows `count` GPUs; None if all are allowed.

    If Slurm confines jobs to their GPUs, `CUDA_VISIBLE_DEVICES` and NVML both count from 0 within the job. If NVML still
    shows others, the machine's indices apply (`_PHYSICAL_GPUS`).
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    physical = next((environ[name] for name in _PHYSICAL_GPUS if environ.get(name)), None)
    if visible is None or physical is None or not job_of(environ):
        return visible
    job_wide, machine_wide = visible.split(","), physical.split(",")
    numbers = [*job_wide, *machine_wide]
    indices = [index for entry in numbers if (index := units.natural(entry.strip())) is not None]
    if len(job_wide) != len(machine_wide) or len(indices) < len(numbers):
        return visible
    counts_from_0 = indices[: len(job_wide)] == list(range(len(job_wide)))
    exist = all(index < count for index in indices[len(job_wide) :])
    return physical if counts_from_0 and exist and count > len(job_wide) else visible


async def run(*command: str) -> tuple[int, str, str]:
    """Runs a Slurm command. Returns its exit status, output and standard error; -1 if it cannot run or does not answer."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    environ = {**os.environ, **_UNIX_TIME}
    try:
        # env(1) looks the command up: a folder of PATH may be on a hung disk.
        process = await asyncio.create_subprocess_exec(
            *("/usr/bin/env", *command), env=environ, stdin=null, stdout=pipe, stderr=pipe
        )
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        return -1, "", f"cannot run {command[0]}: {getattr(error, 'strerror', error)}"
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            output, trouble = await process.communicate()
    except TimeoutError:
        return -1, "", f"{command[0]} has not answered for {_ANSWER_TIMEOUT_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await process.wait(), output.decode(errors="replace").strip(), trouble.decode(errors="replace").strip()


class AllocationWatch:
    """Polls Slurm for the end of this process's job.

    Attributes:
        newest: The job as last reported; None outside a job.
    """

    def __init__(self) -> None:
        job = job_of(os.environ)
        self.newest = Allocation(job) if job is not None else None

    async def run(self) -> None:
        """Polls until cancelled; returns at once outside a job."""
        while self.newest is not None:
            status, ends, trouble = await run("squeue", "--noheader", "--format=%e", "--jobs", self.newest.job)
            if status == 0:
                self.newest = Allocation(self.newest.job, units.natural(ends))
            else:
                _log.info("the end of the Slurm job is unknown: %s", trouble)
            await asyncio.sleep(_POLL_S)
