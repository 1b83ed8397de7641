"""`--slurm OPTIONS`: asks Slurm for a job for one session."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import structs

from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.model import LauncherKind, NodesSpec, RunSpec
from gmg_tui.slurm import allocation

_NUMBER = re.compile(r"job allocation (\d+)")
_CANCEL_S = 20.0


class SlurmJob:
    """A job that was asked for; without a number none was.

    Attributes:
        handed_over: Whether the session's engine ends it from now on.
    """

    def __init__(self, number: str = "") -> None:
        self.number = number
        self.handed_over = False

    def of(self, spec: RunSpec) -> RunSpec:
        """The run, in this job."""
        if not self.number or spec.nodes is None:
            return spec
        return structs.replace(spec, nodes=structs.replace(spec.nodes, job=self.number))


def check(options: str | None, nodes: NodesSpec | None) -> None:
    """Raise `GmgError` where `--slurm` makes no sense."""
    if options is None:
        return
    if nodes is None or nodes.launcher is not LauncherKind.SLURM or nodes.where:
        raise GmgError("--slurm asks for a job for --nodes slurm; give that too")
    job = allocation.job_of(os.environ)
    if job is not None:
        raise GmgError(f"--slurm asks for a job, and this is one already ({job}); leave it out")


@contextmanager
def asked_for(options: str | None) -> Iterator[SlurmJob]:
    """Ask for a job with these options of salloc, and wait for it; it is ended unless it is handed over. Raises `GmgError`."""
    if options is None:
        yield SlurmJob()
        return
    job = SlurmJob(_allocate(options))
    try:
        yield job
    finally:
        if not job.handed_over:
            _cancel(job.number)


def _allocate(options: str) -> str:
    try:
        words = shlex.split(options)
        asking = subprocess.Popen(
            ["salloc", "--no-shell", "--job-name=gmg-tui", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # ctrl+c is for this process, which ends it
        )
    except ValueError as error:
        raise GmgError(f"--slurm {options}: {error}") from error
    except OSError as error:
        raise GmgError(f"--slurm: cannot run salloc: {error.strerror}", 1) from error
    number, said = "", ""
    assert asking.stderr is not None
    try:
        with asking.stderr as lines:
            for line in lines:
                found = _NUMBER.search(line)
                number, said = found[1] if found else number, line.strip() or said
                if "ending job allocation" in line:
                    tell(f"{line.strip()}; ctrl+c withdraws it")
            asking.wait()
    except BaseException:
        asking.terminate()
        asking.wait()
        if number:
            _cancel(number)
        raise
    if asking.returncode != 0 or not number:
        raise GmgError(f"--slurm {options}: {said or 'salloc has failed'}", 1)
    return number


def _cancel(number: str) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["scancel", number], timeout=_CANCEL_S, check=False, capture_output=True)
