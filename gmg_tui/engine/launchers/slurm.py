"""Agents in a Slurm job, a step on each node: `--nodes slurm`, within salloc or sbatch.

Each agent is a step of its own (`srun --overlap`), for srun joins the output of all tasks of a step into one. The step
has all GPUs, cores and memory of its node, and shares them with the others (srun(1), `--overlap`, `--mem`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence

from gmg_tui.engine.launchers.launcher import AGENT, PROGRAM, CommandLauncher
from gmg_tui.errors import GmgError
from gmg_tui.slurm import allocation

_STEP = ("SLURM_STEP_", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK", "SLURM_NTASKS", "SLURM_NPROCS")
"""Variables of the step that gmg-tui itself may run in, which srun would take as options."""
_THERE = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
"""States of a job that has its nodes (squeue(1), "JOB STATE CODES")."""
_AGAIN_S = 5.0
"""For how long it counts what Slurm has said of the job."""


class Slurm(CommandLauncher):
    """The nodes of the job that this process runs in, of the job `where`, or of `own`, which ends with the session."""

    def __init__(self, where: str, own: str = "") -> None:
        if where and not where.isdecimal():
            raise GmgError(f"--nodes slurm:{where}: give slurm, or slurm:JOB with the number of a job")
        self._own = own
        self._job = own or where or allocation.job_of(os.environ)
        if self._job is None:
            raise GmgError(
                "--nodes slurm: this is no Slurm job; give --slurm '-N2 --gpus-per-node=8', or run it within one"
            )
        self._asking = asyncio.Lock()
        self._ask_at = 0.0
        self._gone: str | None = None
        if shutil.which("srun") is None:
            raise GmgError("--nodes slurm: there is no srun here")

    async def nodes(self) -> tuple[str, ...]:
        """The names that Slurm gives them. Raises `GmgError`."""
        names = os.environ.get("SLURM_JOB_NODELIST", "")
        if self._job != allocation.job_of(os.environ):
            names = await _said("squeue", "--noheader", "--states=RUNNING", "--format=%N", "--jobs", str(self._job))
        found = tuple((await _said("scontrol", "show", "hostnames", names)).split()) if names else ()
        if not found:
            raise GmgError(f"--nodes slurm: job {self._job} has no nodes: it has ended, or has not begun")
        return found

    @property
    def at_last(self) -> Sequence[str]:
        """What ends the job that was asked for."""
        return ("scancel", self._own) if self._own else ()

    async def gone(self) -> str | None:
        """That the job is over, or waits to be begun anew; all nodes ask together."""
        async with self._asking:
            if time.monotonic() >= self._ask_at:
                self._gone = await self._why_gone()
                self._ask_at = time.monotonic() + _AGAIN_S
        return self._gone

    async def _why_gone(self) -> str | None:
        asked = await _run("squeue", "--noheader", "--format=%T", "--jobs", str(self._job))
        if asked is None:
            return None
        status, said, trouble = asked
        if status == 0 and said in _THERE:
            return None
        if status != 0 and "Invalid job id" not in trouble:
            return None  # Slurm does not answer
        return f"Slurm job {self._job} is {said.lower()}" if said else f"Slurm job {self._job} has ended"

    async def close(self) -> None:
        """End the job that was asked for."""
        if self._own:
            await _said(*self.at_last)

    def command(self, node: str, words: Sequence[str] = AGENT) -> Sequence[str]:
        """A step on the node."""
        step = ("--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mem=0", "--kill-on-bad-exit=0")
        return ("srun", f"--jobid={self._job}", *step, *self._gpus, "--export=ALL", "--quiet", *PROGRAM, *words)

    @property
    def _gpus(self) -> Sequence[str]:
        on_node = os.environ.get("SLURM_GPUS_ON_NODE")
        return (f"--gpus-per-node={on_node}",) if on_node and on_node.isdecimal() else ()

    def environ(self, node: str) -> Mapping[str, str]:
        """Without what a step of gmg-tui's own has set."""
        return {name: value for name, value in os.environ.items() if not name.startswith(_STEP)}


async def _said(*command: str) -> str:
    """What a command of Slurm's says; empty where it fails. Raises `GmgError` where it cannot be run."""
    asked = await _run(*command)
    if asked is None:
        raise GmgError(f"--nodes slurm: cannot run {command[0]}", 1)
    status, said, _ = asked
    return said if status == 0 else ""


async def _run(*command: str) -> tuple[int, str, str] | None:
    """The exit status of a command, what it says, and on standard error; None where it cannot be run."""
    pipe = asyncio.subprocess.PIPE
    try:
        asking = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError:
        return None
    said, trouble = await asking.communicate()
    return await asking.wait(), said.decode().strip(), trouble.decode().strip()
