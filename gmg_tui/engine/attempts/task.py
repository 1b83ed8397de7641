"""The task of a worker, before placeholders are filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gmg_tui.jobs.argument_placeholders import JOB_NAMES
from gmg_tui.model import Checkpoint, JobRecord, Rank, RunSpec, Slot, SweepSpec
from gmg_tui.scripts.checkpoints import before_nan
from gmg_tui.scripts.torchrun import Meeting


@dataclass(frozen=True)
class Task:
    """The arguments and environment of a session's script, its log, and the time limit of one attempt."""

    args: tuple[str, ...]
    env: Mapping[str, str]
    index: int
    """The worker's number, or the job's, from 0: `{i}`."""
    count: int
    """Number of workers or jobs: `{n}`."""
    log: str = ""
    """Path of the log in the session's folder."""
    cards: tuple[Slot, ...] = ()
    """The slots whose GPUs its worker sees, in CUDA's order; empty for its own alone."""
    rank: Rank | None = None
    """Its rank in its group; None outside a group."""
    meeting: Meeting | None = None
    """The rendezvous of a rank with its group, if another engine manages that."""
    timeout_s: float | None = None
    """Limit of one attempt."""
    resume_args: tuple[str, ...] = ()
    """Added to the arguments of an attempt that can continue from a checkpoint, placeholders not filled in."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Its next attempt can continue from one of these; the oldest first."""
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
        """Returns a job of a sweep of `count` jobs; each of its workers sees `cards`."""
        return cls(
            spec.args if job.args is None else job.args,
            spec.env if job.args is None else job.env,
            job.number - 1,
            count,
            cards=cards,
            timeout_s=(spec.sweep or SweepSpec()).timeout_s,
            resume_args=spec.resume_args,
            checkpoints=before_nan(job.last),
            first_attempt=job.last.number + 1,
            job=job.number,
            name=job.name,
            values={**job.values, "job": job.number, "name": job.name},
        )
