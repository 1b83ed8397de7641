"""Tracks the end of the Slurm job that the engine runs in."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Mapping

from gmg_tui.model import Allocation
from gmg_tui.slurm import allocation

_log = logging.getLogger(__name__)

_AGAIN_S = 300.0
"""Until it is asked again: an administrator, or `scontrol update`, may change a job's limit."""
_PATIENCE_S = 30.0


class AllocationWatch:
    """Asks Slurm when the job ends, now and then; outside of a job it asks nothing.

    Attributes:
        newest: The job; None outside of one.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        job = allocation.job_of(environ)
        self.newest = Allocation(job, allocation.end_of(environ.get(allocation.END))) if job is not None else None

    async def run(self) -> None:
        """Ask until cancelled."""
        while self.newest is not None:
            answer = await self._ask(self.newest.job)
            if answer is not None:
                self.newest = Allocation(self.newest.job, allocation.end_of(answer))
            await asyncio.sleep(_AGAIN_S)

    async def _ask(self, job: str) -> str | None:
        """The job's end as `squeue` reports it; None where it does not answer."""
        try:
            process = await asyncio.create_subprocess_exec(
                *allocation.ASK,
                job,
                env={**self._environ, **allocation.ASK_ENV},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            _log.info("the end of the Slurm job is unknown: %s: %s", allocation.ASK[0], error.strerror)
            return None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer, _ = await process.communicate()
        except TimeoutError:
            _log.info("the end of the Slurm job is unknown: %s does not answer", allocation.ASK[0])
            return None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return answer.decode(errors="replace") if process.returncode == 0 else None
