"""Agents in a Slurm job, a step on each node: `--nodes slurm`, within salloc or sbatch.

Each agent is a step of its own (`srun --overlap`), for srun joins the output of all tasks of a step into one. The step
has all GPUs, cores and memory of its node, and shares them with the others (srun(1), `--overlap`, `--mem`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence

from gmg_tui.engine.launchers.launcher import AGENT, PROGRAM, CommandLauncher
from gmg_tui.errors import GmgError
from gmg_tui.slurm import allocation

_STEP = ("SLURM_STEP_", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK", "SLURM_NTASKS", "SLURM_NPROCS")
"""Variables of the step that gmg-tui itself may run in, which srun would take as options."""


class Slurm(CommandLauncher):
    """The nodes of the job that this process runs in."""

    def __init__(self, where: str) -> None:
        if where:
            raise GmgError(f"--nodes slurm:{where}: slurm takes the nodes of the job that gmg-tui runs in; give slurm")
        self._job = allocation.job_of(os.environ)
        if self._job is None:
            raise GmgError(
                "--nodes slurm: this is no Slurm job; run it within one: salloc -N2 --gpus-per-node=8 gmg-tui --nodes slurm …"
            )
        if shutil.which("srun") is None:
            raise GmgError("--nodes slurm: there is no srun here")

    async def nodes(self) -> tuple[str, ...]:
        """The names that Slurm gives them. Raises `GmgError`."""
        names = os.environ.get("SLURM_JOB_NODELIST", "")
        asking = await asyncio.create_subprocess_exec(
            *("scontrol", "show", "hostnames", names),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        said, _ = await asking.communicate()
        found = tuple(said.decode().split())
        if asking.returncode != 0 or not found:
            raise GmgError(f"--nodes slurm: scontrol does not name the nodes of job {self._job} ({names!r})")
        return found

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
