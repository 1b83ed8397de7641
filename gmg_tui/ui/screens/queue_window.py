"""The part of a long queue that is known, and the place in it that is looked at. Knows no Textual.

A queue may have thousands of jobs, and what a place in it holds changes while one looks: the engine is asked for what is
visible and for some more on both sides, so that most keys need no question.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from gmg_tui.model import JobRecord, QueueView

LEAST_MARGIN = 20
"""Jobs at least that are asked for on each side of those that are visible."""


class Wanted(NamedTuple):
    """What to ask the engine for."""

    first: int
    number: int
    """How many jobs."""


class QueueWindow:
    """Jobs by their place in the queue, with one of them chosen.

    Attributes:
        view: The newest answer; None before the first.
        total: How many jobs there are.
        at: Place of the chosen job, from 0.
        top: Place of the job in the first visible row.
        following: Whether the first job that runs is chosen, whichever that is, until a person chooses one.

    Args:
        total: How many jobs there are.
        at: Place of the first job that runs, as far as it is known.
    """

    def __init__(self, total: int, at: int) -> None:
        self.view: QueueView | None = None
        self.total = total
        self.at = max(0, min(at, total - 1))
        self.top = 0
        self.following = True
        self._number: int | None = None
        self._rows = 1
        self._asked_version: int | None = None
        self._settle()

    # What is there

    def record(self, place: int) -> JobRecord | None:
        """The job at `place`; None where it is not known yet, or there is none."""
        if self.view is None or not self.view.first <= place < self.view.first + len(self.view.jobs):
            return None
        return self.view.jobs[place - self.view.first]

    @property
    def chosen(self) -> JobRecord | None:
        """The chosen job; None while it is not known which that is."""
        record = self.record(self.at)
        return record if record is not None and self._number in {None, record.number} else None

    @property
    def rows(self) -> int:
        """How many jobs are visible at once."""
        return self._rows

    @rows.setter
    def rows(self, rows: int) -> None:
        self._rows = max(1, rows)
        self._settle()

    # What is asked

    def wanted(self, version: int, running: int) -> Wanted | None:
        """What to ask for now; None when what is visible is known already.

        Args:
            version: The `Queue.version` of the newest snapshot.
            running: Place of the first job that runs, as that snapshot has it.
        """
        top = self._top_for(running) if self.following else self.top
        last = min(self.total, top + self._rows)
        view = self.view
        covered = view is not None and view.first <= top and last <= view.first + len(view.jobs)
        if covered and view is not None and version in {view.version, self._asked_version}:
            return None
        self._asked_version = version
        margin = max(LEAST_MARGIN, self._rows)
        first = max(0, top - margin)
        return Wanted(first, top + self._rows + margin - first)

    def forget(self) -> None:
        """Ask again for what is visible: it has just been changed."""
        self._asked_version = None
        if self.view is not None:
            self.view = structs.replace(self.view, version=-1)

    def take(self, view: QueueView) -> None:
        """Take the engine's answer; the choice stays on its job where that is known, and so does its row."""
        self.view = view
        self.total = view.total
        if self.following:
            running = next((place for place, job in self._placed() if not job.state.ended), None)
            if running is not None:
                self._go(running, keep_row=False)
            elif view.first + len(view.jobs) >= view.total:
                self._go(self.total - 1, keep_row=False)
        elif self._number is not None:
            place = next((place for place, job in self._placed() if job.number == self._number), None)
            if place is not None:
                self._go(place, keep_row=True)
        self.at = max(0, min(self.at, self.total - 1))
        self._number = record.number if (record := self.record(self.at)) is not None else None
        self._settle()

    def _placed(self) -> list[tuple[int, JobRecord]]:
        assert self.view is not None
        return list(enumerate(self.view.jobs, self.view.first))

    # What a person does

    def move(self, step: int) -> None:
        """Choose the job `step` places further down."""
        self.choose(self.at + step)

    def choose(self, place: int) -> None:
        """Choose the job at `place`, or at the nearest there is."""
        self.following = False
        self._go(max(0, min(place, self.total - 1)), keep_row=False)
        record = self.record(self.at)
        self._number = None if record is None else record.number
        self._settle()

    def leave(self) -> None:
        """Choose the next job, because the chosen one is about to go elsewhere; the one before where there is none."""
        self.choose(self.at + 1 if self.at + 1 < self.total else self.at - 1)

    def expect(self, number: int, place: int) -> None:
        """Choose `place`, to which the job of that number is about to move."""
        self.choose(place)
        self._number = number

    def follow(self, place: int) -> None:
        """Choose the first job that runs, which is at `place`, and each that is the first after it."""
        self.choose(place)
        self.following = True
        self._settle()

    def _go(self, place: int, *, keep_row: bool) -> None:
        if keep_row:
            self.top += place - self.at
        self.at = place

    def _settle(self) -> None:
        """Keep the choice in sight; one that is followed stands below some of the jobs that have ended."""
        if self.following:
            self.top = self._top_for(self.at)
        self.top = max(self.at - self._rows + 1, min(self.top, self.at))
        self.top = max(0, min(self.top, self.total - self._rows))

    def _top_for(self, place: int) -> int:
        """The first visible place while the job at `place` is followed."""
        return max(0, min(place - self._rows // 4, self.total - self._rows))
