"""The Slurm step or MPI task that this shell is in, and what a run's workers get to know of it."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.commands.doctor.finding import Finding, ok
from gmg_tui.genesis.environ import task_variables
from gmg_tui.units import count

_NAMED = 3


def variables(environ: Mapping[str, str]) -> Finding:
    """The variables that workers do not get, because they would take themselves for tasks of the outer step."""
    job = environ.get("SLURM_JOB_ID")
    where = f"in job {job}" if job else "no job"
    removed = task_variables(environ)
    if not removed:
        return ok("Slurm", where)
    named = ", ".join((*removed[:_NAMED], "…") if len(removed) > _NAMED else removed)
    what = count(len(removed), "variable")
    return ok("Slurm", f"{where}; workers do not get {what} of the outer task ({named}); --keep-slurm-env hands on all")
