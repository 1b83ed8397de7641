"""What the store holds besides `JobRecord`: attempts and metrics over time; and its error."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import Attempt, JobRecord, Snapshot


class StoreError(GmgError):
    """A store is missing, damaged, of another version, or cannot be written; one line for the user."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text, exit_code)


class JobAttempt(Struct, frozen=True, omit_defaults=True):
    """One process of a job, and where it ran."""

    job: int
    """The job's number, from 1."""
    slot: str
    gpu_uuid: str | None
    attempt: Attempt
    log: str | None = None
    """Path of its log in the session's folder."""
    rank: int = 0
    """Its rank in the job's group; 0 where there is none."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers of job, attempt and rank, which identify it."""
        return self.job, self.attempt.number, self.rank


class MetricsRow(NamedTuple):
    """A slot's metrics at one moment; None where unknown."""

    time: float
    """Unix time, seconds."""
    slot: str
    job: int | None
    fps: float | None
    """The rate now."""
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
    sm_pct: float | None = None
    """The share of the SMs that were busy."""
    state: str | None = None
    """The worker's."""


Record = Snapshot | JobRecord | JobAttempt | MetricsRow
"""What is written; the newest of a snapshot, a job and an attempt replaces the one before."""
