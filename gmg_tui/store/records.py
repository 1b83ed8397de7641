"""What the store holds beside `JobRecord`: attempts of jobs, events, figures over time; and the error of a store."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.model import Attempt


class StoreError(GmgError):
    """A store that is missing, damaged, of a later gmg-tui, or cannot be written. One line for a person."""

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

    @property
    def key(self) -> tuple[int, int]:
        """The job's number and the attempt's: what tells it from all others."""
        return self.job, self.attempt.number


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happened in a session."""

    time: float
    """Unix time, seconds."""
    kind: str
    """One word for what sort of thing it was."""
    text: str
    """What happened, in one line."""
    slot: str | None = None
    job: int | None = None


class FiguresRow(NamedTuple):
    """What a slot did at one moment; None where not known."""

    time: float
    """Unix time, seconds."""
    slot: str
    job: int | None
    fps: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    power_w: float | None
    temperature_c: float | None
