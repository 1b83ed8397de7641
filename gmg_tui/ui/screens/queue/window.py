"""The known part of a long queue, and the position in view. Knows no Textual.

A queue may have thousands of jobs, and its order changes while one looks: the engine is queried for the visible part
and a margin on both sides, so that most keys need no query.
"""

from __future__ import annotations

from msgspec import structs

from gmg_tui.model import JobRecord, QueueView

LEAST_MARGIN = 20
"""Jobs to query on each side of the visible ones, at least."""


class QueueWindow:
    """Jobs by their position in the queue, one of them selected.

    Attributes:
        view: The newest answer; None before the first.
        total: How many jobs there are.
        at: Position of the selected job, from 0.
        top: Position of the job in the first visible row.
        rows: How many jobs are visible at once.
        following: Whether the first running job is selected, whichever it is, until the user selects one.
    """

    def __init__(self, total: int, running: int) -> None:
        self.view: QueueView | None = None
        self.total = total
        self.at = max(0, min(running, total - 1))
        self.top = 0
        self.following = True
        self.rows = 1
        self._number: int | None = None
        self._asked_version: int | None = None
        self._settle()

    # Contents

    def record(self, position: int) -> JobRecord | None:
        """The job at `position`; None where it is not known yet, or there is none."""
        if self.view is None or not self.view.first <= position < self.view.first + len(self.view.jobs):
            return None
        return self.view.jobs[position - self.view.first]

    @property
    def chosen(self) -> JobRecord | None:
        """The selected job; None while it is not known which that is."""
        record = self.record(self.at)
        return record if record is not None and self._number in {None, record.number} else None

    def fit(self, rows: int) -> None:
        """Keep the selection in view where so many jobs are visible at once."""
        self.rows = max(1, rows)
        self._settle()

    # Queries

    def wanted(self, version: int, running: int) -> tuple[int, int] | None:
        """The first position and the number of jobs to ask for now; None when the visible part is known already.

        `version` is the queue's in the newest snapshot, `running` the position of the first running job there.
        """
        top = self._top_for(running) if self.following else self.top
        last = min(self.total, top + self.rows)
        view = self.view
        covered = view is not None and view.first <= top and last <= view.first + len(view.jobs)
        if covered and view is not None and version in {view.version, self._asked_version}:
            return None
        self._asked_version = version
        margin = max(LEAST_MARGIN, self.rows)
        first = max(0, top - margin)
        return first, top + self.rows + margin - first

    def forget(self) -> None:
        """Ask for the visible part again: it has just been changed."""
        self._asked_version = None
        if self.view is not None:
            self.view = structs.replace(self.view, version=-1)

    def take(self, view: QueueView) -> None:
        """Take the engine's answer; the selection stays on its job and row where the job is known."""
        self.view = view
        self.total = view.total
        if self.following:
            beyond = self.total - 1 if view.first + len(view.jobs) >= view.total else self.at
            running = (place for place, job in enumerate(view.jobs, view.first) if not job.state.ended)
            self.at = next(running, beyond)
        elif self._number is not None:
            same = (place for place, job in enumerate(view.jobs, view.first) if job.number == self._number)
            position = next(same, self.at)
            self.top += position - self.at
            self.at = position
        self._select(self.at)

    def _select(self, position: int) -> None:
        self.at = max(0, min(position, self.total - 1))
        self._number = record.number if (record := self.record(self.at)) is not None else None
        self._settle()

    # The user's moves

    def choose(self, position: int, *, follow: bool = False) -> None:
        """Select the job at `position`, or at the nearest existing one; `follow` the running ones from there on."""
        self.following = follow
        self._select(position)

    def leave(self) -> None:
        """Select the next job, or else the previous one, because the selected one is about to move away."""
        self.choose(self.at + 1 if self.at + 1 < self.total else self.at - 1)

    def expect(self, number: int, position: int) -> None:
        """Select `position`, to which the job of that number is about to move."""
        self.choose(position)
        self._number = number

    def _settle(self) -> None:
        """Keep the selection in view; a followed one has some ended jobs above it."""
        if self.following:
            self.top = self._top_for(self.at)
        self.top = max(self.at - self.rows + 1, min(self.top, self.at))
        self.top = max(0, min(self.top, self.total - self.rows))

    def _top_for(self, position: int) -> int:
        """The first visible position while the job at `position` is followed."""
        return max(0, min(position - self.rows // 4, self.total - self.rows))
