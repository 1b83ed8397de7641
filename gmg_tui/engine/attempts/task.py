"""What a worker runs, before placeholders are filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gmg_tui.jobs.argument_placeholders import JOB_NAMES
from gmg_tui.model import Checkpoint, JobRecord, RunSpec, Slot, SweepSpec


@dataclass(frozen=True)
class Task:
    """The arguments and the environment of a session's script, and for how long one attempt may go on."""

    args: tuple[str, ...]
    env: Mapping[str, str]
    index: int
    """The worker's number, or the job's, from 0: `{i}`."""
    count: int
    """How many there are: `{n}`."""
    cards: tuple[Slot, ...] = ()
    """The slots whose GPUs its worker sees, in the order in which CUDA counts them; empty for its own alone."""
    timeout_s: float | None = None
    """How long one attempt may take."""
    resume_args: tuple[str, ...] = ()
    """Added to the arguments of an attempt that can continue from a checkpoint, placeholders not filled in."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """From which its next attempt can continue, oldest first."""
    first_attempt: int = 1
    job: int | None = None
    """The job's number, from 1; None in a plain run."""
    name: str = ""
    """The job's name."""
    values: Mapping[str, object] = field(default_factory=dict)
    """The values of further placeholders."""

    @property
    def own_values(self) -> Mapping[str, object]:
        """The values of the experiments' file, without the job's number and name."""
        return {name: value for name, value in self.values.items() if name not in JOB_NAMES}

    @classmethod
    def queued(cls, spec: RunSpec, job: JobRecord, count: int, cards: tuple[Slot, ...] = ()) -> Self:
        """A job of a sweep of `count` jobs; each of its workers sees `cards`."""
        return cls(
            spec.args if job.args is None else job.args,
            spec.env if job.args is None else job.env,
            job.number - 1,
            count,
            cards,
            timeout_s=(spec.sweep or SweepSpec()).timeout_s,
            resume_args=spec.resume_args,
            checkpoints=job.last.checkpoints,
            first_attempt=job.last.number + 1,
            job=job.number,
            name=job.name,
            values={**job.values, "job": job.number, "name": job.name},
        )
