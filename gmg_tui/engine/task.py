"""What a worker runs, in the form in which its attempts are prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gmg_tui.model import Group, JobRecord, RestartWhen, RunSpec


@dataclass(frozen=True)
class Task:
    """A script with its arguments, and how often and how long it may be tried.

    Placeholders in `args`, `env` and `out_dir` are not filled in.
    """

    script: str
    module: bool
    args: tuple[str, ...]
    env: Mapping[str, str]
    index: int
    """The worker's number, or the job's, from 0: `{i}`."""
    count: int
    """How many there are: `{n}`."""
    restart: RestartWhen
    max_restarts: int
    retries: int = 0
    """How often a failure that `restart` leaves alone is tried again."""
    timeout_s: float | None = None
    """How long one attempt may take."""
    first_attempt: int = 1
    job: int | None = None
    """The job's number, from 1; None in a plain run."""
    name: str = ""
    """The job's name."""
    values: Mapping[str, object] = field(default_factory=dict)
    """What further placeholders stand for."""
    out_dir: str | None = None
    """The job's own folder; None in a plain run."""

    @classmethod
    def everywhere(cls, spec: RunSpec, index: int, count: int) -> Self:
        """The one job of a plain run, for its worker with number `index` of `count`."""
        return cls(
            spec.script, spec.module, spec.args, spec.env, index, count, spec.restart, max_restarts=spec.max_restarts
        )

    @classmethod
    def queued(cls, spec: RunSpec, group: Group, job: JobRecord, count: int, *, out_dir: str, attempts: int) -> Self:
        """A job of a sweep.

        Args:
            spec: The sweep's.
            group: The job's.
            job: The job.
            count: How many jobs the sweep has.
            out_dir: Its own folder, where the group does not say.
            attempts: How many attempts it has had already.
        """
        return cls(
            group.script,
            group.module,
            group.args,
            {**group.env, **spec.env},
            job.number - 1,
            count,
            spec.restart,
            spec.max_restarts,
            retries=group.retries,
            timeout_s=group.timeout_s,
            first_attempt=attempts + 1,
            job=job.number,
            name=job.name,
            values={**job.values, "job": job.number, "name": job.name},
            out_dir=group.out_dir or out_dir,
        )
