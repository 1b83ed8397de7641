"""What happens in a session that a person who looks elsewhere wants to be told."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

TERMINAL_WAYS = ("bell", "osc9", "osc777")
"""The values of `--notify` that are the terminal's to tell; every other is a command."""


class OccurrenceKind(StrEnum):
    """What happened; the value is what a command gets in `GMG_EVENT`."""

    FAILED = "failed"
    """A worker has failed, and is not restarted."""
    STUCK = "stuck"
    JOB_FAILED = "job-failed"
    """A job of a sweep has failed, and is not retried."""
    ENDED = "ended"
    """All workers have ended, and no job waits."""


class Occurrence(Struct, frozen=True, omit_defaults=True):
    """Something that has happened."""

    number: int
    """From 1, in the order in which they happened."""
    time: float
    """Unix time, seconds."""
    kind: OccurrenceKind
    text: str
    """What happened, and where, in one line."""
    slot: str = ""
    job: int | None = None
    """Number of the job, in a sweep."""
    job_name: str = ""
    reason: str = ""
    """Why, in one line; empty where there is none."""
