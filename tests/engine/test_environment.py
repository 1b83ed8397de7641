"""What a worker's process finds in its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gmg_tui.model import RunSpec

from .harness import running, spec_for

_STEP = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "OMPI_COMM_WORLD_RANK": "3"}


def _printing(tmp_path: Path, **more: Any) -> RunSpec:
    """A run of a script that prints the names of the outer step's variables that it has."""
    script = tmp_path / "tell.py"
    script.write_text(
        f"import os\nprint('got', *(f'{{k}}={{os.environ[k]}}' for k in {list(_STEP)} if k in os.environ))"
    )
    return spec_for(script=str(script), **more)


async def test_a_worker_does_not_inherit_the_task_variables_of_the_outer_step(tmp_path: Path) -> None:
    async with running(_printing(tmp_path, env={"SLURM_PROCID": "0"}), _STEP) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert b"got SLURM_JOB_ID=77 SLURM_PROCID=0\n" in run.output("cpu0")
        assert (await run.client.details("cpu0")).unset == ("OMPI_COMM_WORLD_RANK", "SLURM_NTASKS")
