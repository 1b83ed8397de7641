"""Agents in a Slurm job, a step on each node: `--nodes slurm`, within salloc or sbatch.

Each agent is its own step (`srun --overlap`), because srun merges the output of a step's tasks. The step
has all GPUs, cores and memory of its node, and shares them with the others (srun(1), `--overlap`, `--mem`).
"""

import os
import shutil
import time
from collections.abc import Sequence

from gmg_tui.engine.launchers.launcher import PROGRAM, Launcher
from gmg_tui.machine import slurm as allocation
from gmg_tui.model.errors import GmgError

_STEP_VARIABLES = (
    "SLURM_STEP_",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
)
"""Variables of the step that gmg-tui may run in; srun would read them as options."""
_LIVE_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
"""Live states of a job (squeue(1), "JOB STATE CODES")."""
_CACHE_S = 5.0
"""Seconds to cache Slurm's answer about the job, which is the same for all nodes."""


class Slurm(Launcher):
    """The nodes of the job that this process runs in."""

    def __init__(self) -> None:
        self._job = allocation.job_of(os.environ)
        if self._job is None:
            raise GmgError("--nodes slurm: this is not a Slurm job; use salloc or sbatch")
        if shutil.which("srun") is None:
            raise GmgError("--nodes slurm: there is no srun here")
        self._asked_at = -_CACHE_S
        self._gone: str | None = None

    async def nodes(self) -> tuple[str, ...]:
        """Returns Slurm's node names; a node listed twice still gets one agent. Raises `GmgError`."""
        names = os.environ.get("SLURM_JOB_NODELIST", "")
        status, hostnames, trouble = await allocation.run("scontrol", "show", "hostnames", names)
        if status != 0:
            raise GmgError(f"--nodes slurm: {trouble}", 1)
        return tuple(dict.fromkeys(hostnames.split()))

    async def unreachable(self) -> str | None:
        """Returns the reason if the job has ended or been requeued."""
        if time.monotonic() - self._asked_at >= _CACHE_S:
            self._asked_at = time.monotonic()
            squeue = ("squeue", "--noheader", "--format=%T", "--jobs", str(self._job))
            status, state, trouble = await allocation.run(*squeue)
            unknown = status != 0 and "Invalid job id" not in trouble  # Slurm does not answer
            ended = f"Slurm job {self._job} {f'is {state.lower()}' if state else 'has ended'}"
            self._gone = None if unknown or state in _LIVE_STATES else ended
        return self._gone

    def command(self, node: str) -> Sequence[str]:
        """Returns the command of a step on the node."""
        step = ("--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mem=0", "--kill-on-bad-exit=0")
        count = os.environ.get("SLURM_GPUS_ON_NODE", "")
        gpus = (f"--gpus-per-node={count}",) if count.isdecimal() else ()
        inherited = [f"--unset={name}" for name in os.environ if name.startswith(_STEP_VARIABLES)]
        return ("env", *inherited, "srun", f"--jobid={self._job}", *step, *gpus, "--export=ALL", "--quiet", *PROGRAM)
