"""The newest of what has happened in a session."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection

from gmg_tui import units
from gmg_tui.model import Occurrence, OccurrenceKind, Snapshot, WorkerState
from gmg_tui.text import clean

_KEPT = 16
"""So many are in a snapshot: a client that is behind by more has missed some."""


class Occurrences:
    """What has happened, but for the kinds in `leave_out`; `told` is called with each."""

    def __init__(
        self, told: Callable[[Occurrence], None] = lambda _: None, *, leave_out: Collection[OccurrenceKind] = ()
    ) -> None:
        self._leave_out = leave_out
        self.newest: tuple[Occurrence, ...] = ()
        """The oldest first."""
        self._told = told
        self._number = 0

    def add(
        self,
        kind: OccurrenceKind,
        text: str,
        *,
        slot: str = "",
        job: int | None = None,
        job_name: str = "",
        reason: str | None = None,
    ) -> None:
        """Something has happened."""
        if kind in self._leave_out:
            return
        self._number += 1
        why = _one_line(reason or "")
        one = Occurrence(self._number, time.time(), kind, _one_line(text), slot, job, job_name, why)
        self.newest = (*self.newest[1 - _KEPT :], one)
        self._told(one)


def how_it_ended(snapshot: Snapshot) -> str:
    """How a session has ended, in a few words."""
    if snapshot.tuning is not None:
        return snapshot.tuning.step
    states = Counter(worker.state for worker in snapshot.workers)
    if (queue := snapshot.queue) is not None:
        states = Counter(
            {WorkerState(state): getattr(queue, state) for state in ("finished", "failed", "stopped", "waiting")}
        )
    found = [f"{count} {state.value}" for state in WorkerState if (count := states[state])]
    jobs = f"{units.count(queue.jobs, 'job')}, " if queue is not None else ""
    return jobs + ", ".join(found)


def _one_line(text: str) -> str:
    return clean(text.encode(errors="replace"))
