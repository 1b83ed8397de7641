"""The settings that a worker has had, as the edit dialog goes back through them."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import Attempt, Details, Settings, WorkerState


class Earlier(NamedTuple):
    """Settings, and what became of them."""

    settings: Settings
    label: str
    """`attempt 3: 24,013,029 FPS`; empty for the present ones."""


def earlier(details: Details, start: Settings | None = None) -> list[Earlier]:
    """The present settings of a worker, then those of its attempts that differ, the newest first, each once.

    Those to `start` with, which may be another worker's, stand behind the present ones if they are none of these.
    """
    present = Settings(details.args, details.extra_env)
    found = [Earlier(present, "")]
    for attempt, settings in zip(reversed(details.attempts), reversed(details.settings), strict=False):
        if all(settings != one.settings for one in found):
            found.append(Earlier(settings, _label(attempt)))
    if start is not None and all(start != one.settings for one in found):
        found.insert(1, Earlier(start, ""))
    return found


def _label(attempt: Attempt) -> str:
    """What became of an attempt: its rate where it had one and has not failed."""
    metrics = attempt.metrics
    rate = (metrics.settled if metrics.settled is not None else metrics.fps) if metrics is not None else None
    told = f"{units.fps(rate)} FPS" if rate is not None else attempt.state.value
    if attempt.state is WorkerState.FAILED:
        told = f"failed, {attempt.reason}" if attempt.reason else "failed"
    return f"attempt {attempt.number}: {told}"
