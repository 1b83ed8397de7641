"""What the store holds besides `JobRecord`: attempts, events and metrics over time; and its error."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import Attempt


class StoreError(GmgError):
    """A store is missing, damaged, of a later version, or cannot be written; one line for the user."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text, exit_code)


class JobAttempt(Struct, frozen=True, omit_defaults=True):
    """One process of a job, and where it ran."""

    job: int
    """The job's number, from 1."""
    slot: str
    gpu_index: int | None
    gpu_uuid: str | None
    attempt: Attempt
    log: str | None = None
    """Path of its log in the session's folder."""
    rank: int = 0
    """Which rank of the job's group it was; 0 where there is none."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank, which identify it."""
        return self.job, self.attempt.number, self.rank


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happened in a session."""

    time: float
    """Unix time, seconds."""
    kind: str
    """Its category, in one word."""
    text: str
    """What happened, in one line."""
    slot: str | None = None
    job: int | None = None


class MetricsRow(NamedTuple):
    """A slot's metrics at one moment; None where unknown."""

    time: float
    """Unix time, seconds."""
    slot: str
    job: int | None
    fps: float | None
    """Printed last."""
    fps_settled: float | None
    """Environment steps by wall time over the last seconds."""
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
    sm_pct: float | None = None
    """The share of the SMs that were busy."""
