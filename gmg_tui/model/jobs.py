"""Jobs and their outcomes.

A plain run has one job, run once on every slot, with a record per slot; a sweep queues many for the next free slot.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from gmg_tui.model.attempt import NO_ATTEMPT, Attempt
from gmg_tui.model.states import Moment, WorkerState

Value = bool | int | float | str
"""The value of a placeholder in an experiments file."""
MAX_NAMES = 1000
"""Maximum distinct result names in a session."""


class SweepSpec(Struct, frozen=True, omit_defaults=True):
    """The settings of a sweep in `session.json`; its jobs are in the store."""

    per_gpu: int = 1
    timeout_s: float | None = None
    """Time limit of an attempt."""
    file: str | None = None
    """Absolute path of the experiments file, if there is one."""
    best: str | None = None
    """Column to sort the final table by; `-COLUMN` for the smallest first."""
    retry_failed: bool = False


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """A job and its outcome so far. A plain run has one for each slot, with the slot's name."""

    number: int
    """From 1, in the order of the file: `{job}`."""
    name: str
    """Unique in the session, and safe as a file name: `{name}`."""
    values: dict[str, Value] = {}
    """Values of the file's placeholders."""
    state: WorkerState = WorkerState.WAITING
    position: float = 0.0
    """The job with the smallest position is next."""
    reason: str | None = None
    """Reason of a failure, stop or wait; one line."""
    only: str | None = None
    """Its required slot; None for any."""
    world_size: int | None = None
    """Number of ranks, each on its own slot; None for one process."""
    group: str | None = None
    rank: int | None = None
    """Rank of the slot's worker in a plain run; None for a sweep's job, which includes all ranks."""
    slot: str | None = None
    """Its current or last slot, the first if there are several."""
    slots: tuple[str, ...] = ()
    """Its slots by rank; empty for one process."""
    gpu_uuid: str | None = None
    last: Attempt = NO_ATTEMPT
    """The newest attempt, all ranks in one (`combine_ranks`)."""
    started: Moment | None = None
    """Unix time of the first attempt's start."""
    ended: Moment | None = None
    """Unix time when it left its last slot."""
    elapsed_s: float | None = None
    """Seconds from its first start to its end or now, including pauses between attempts."""
    energy_j: float | None = None
    """Energy of all attempts."""
    args: tuple[str, ...] | None = None
    """Edited arguments, placeholders not filled in; None for the sweep's."""
    env: dict[str, str] = {}
    """Environment of a job with edited arguments."""
    halted: bool = False
    """True once the user has stopped it, even while its processes are still ending."""
    reserved: int = 0
    """Number of the newest attempt that may have started."""
    edited_from: int | None = None
    """Number of the job it was edited from."""
    log: str | None = None
    """Path of its log in the session's folder."""
    result: dict[str, Any] | None = {}
    """Results from `gmg:result` lines; empty for clients. None leaves the stored ones: the engine holds none."""

    @property
    def width(self) -> int:
        """Number of slots it occupies."""
        return self.world_size or 1


SKIPPED = "skipped"
"""Reason of a stopped job that the user has skipped."""
LEFT_BEHIND = "interrupted while its node was lost"
"""Reason of a waiting job whose last process may still be running."""


class QueueAction(StrEnum):
    """A user's action on jobs."""

    SKIP = "skip"
    STOP = "stop"
    RETRY = "retry"
    """Run an ended job again, as the next one."""
