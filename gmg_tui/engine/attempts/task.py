"""What a worker runs, before placeholders are filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gmg_tui.ddp import torchrun
from gmg_tui.model import JobRecord, RestartMode, RunSpec, Slot, SweepSpec
from gmg_tui.placeholders import JOB_NAMES


@dataclass(frozen=True)
class Task:
    """A script with its arguments, and how often and for how long it may be tried."""

    script: str
    module: bool
    args: tuple[str, ...]
    env: Mapping[str, str]
    index: int
    """The worker's number, or the job's, from 0: `{i}`."""
    count: int
    """How many there are: `{n}`."""
    restart: RestartMode
    max_restarts: int
    timeout_s: float | None = None
    """How long one attempt may take."""
    first_attempt: int = 1
    job: int | None = None
    """The job's number, from 1; None in a plain run."""
    name: str = ""
    """The job's name."""
    values: Mapping[str, object] = field(default_factory=dict)
    """The values of further placeholders."""
    own_options: tuple[str, ...] = ()
    """Words of `args` that are also options of gmg-tui."""
    cards: tuple[Slot, ...] = ()
    """The slots whose GPUs its worker sees, in the order in which CUDA counts them; empty for its own alone."""

    @property
    def torchrun(self) -> bool:
        """Whether it runs torchrun, which starts ranks of its own."""
        return torchrun.starts(self.script, module=self.module)

    @property
    def own_values(self) -> Mapping[str, object]:
        """The values of the experiments' file, without the job's number and name."""
        return {name: value for name, value in self.values.items() if name not in JOB_NAMES}

    @classmethod
    def replicated(cls, spec: RunSpec, index: int, count: int, cards: tuple[Slot, ...] = ()) -> Self:
        """The one job of a plain run, for its worker with number `index` of `count`, which sees `cards`."""
        return cls(
            spec.script,
            spec.module,
            spec.args,
            spec.env,
            index,
            count,
            spec.restart,
            max_restarts=spec.max_restarts,
            own_options=spec.own_options,
            cards=cards,
        )

    @classmethod
    def queued(cls, spec: RunSpec, job: JobRecord, count: int, cards: tuple[Slot, ...] = ()) -> Self:
        """A job of a sweep of `count` jobs; each of its workers sees `cards`."""
        sweep = spec.sweep or SweepSpec()
        return cls(
            spec.script,
            spec.module,
            spec.args,
            spec.env,
            job.number - 1,
            count,
            spec.restart,
            spec.max_restarts,
            timeout_s=sweep.timeout_s,
            first_attempt=job.last.number + 1,
            job=job.number,
            name=job.name,
            values={**job.values, "job": job.number, "name": job.name},
            cards=cards,
        )
