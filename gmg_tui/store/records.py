"""What the store holds besides `JobRecord`: attempts and metrics over time; and its error."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import Attempt

_PAUSE_S = 60.0
"""A longer pause in which nothing ran, as between an engine's death and `--resume`, is not counted."""


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
    def gpu_index(self) -> int | None:
        """NVML index of its GPU; None on a CPU slot."""
        return self.attempt.gpu_index

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
    """Printed last."""
    fps_settled: float | None
    """The current rate."""
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
    sm_pct: float | None = None
    """The share of the SMs that were busy."""
    state: str | None = None
    """The worker's."""


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds from the first start to the last end, without long pauses; 0 without spans (start, end; Unix seconds)."""
    ordered = sorted(spans)
    if not ordered:
        return 0.0
    reached, pauses = ordered[0][1], 0.0
    for _, (started, ended) in pairwise(ordered):
        if started - reached > _PAUSE_S:
            pauses += started - reached
        reached = max(reached, ended)
    return reached - ordered[0][0] - pauses
