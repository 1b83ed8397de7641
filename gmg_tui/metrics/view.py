"""One session as it was heard of last, with the counters that snapshots alone do not hold."""

from __future__ import annotations

import math
import time

from gmg_tui.model import Session, Snapshot, Worker
from gmg_tui.store.totals import Totals

SILENT_S = 15.0
"""After how long without a snapshot, of which an engine sends one each second, nothing is known of its session."""


class _Growing:
    """The sum over a slot's attempts of a figure that begins anew with each."""

    def __init__(self) -> None:
        self._before = 0.0
        self._now = 0.0
        self._of: tuple[int | None, int] = (None, 0)

    def take(self, of: tuple[int | None, int], value: float | None) -> None:
        """The figure of the attempt `of`, a job's number and its own; None where it is not known."""
        if of != self._of:
            self._before += self._now
            self._now, self._of = 0.0, of
        if value is not None:
            self._now = max(self._now, value)

    @property
    def total(self) -> float:
        return self._before + self._now


class View:
    """A session, which has been `heard` of just now or never; its attributes are replaced whole, so that another thread may read them at any time.

    Attributes:
        session: What does not change.
        snapshot: The newest.
        totals: What its store has counted; None before it was asked: a 0 then would make a counter jump.
        left: When it had done all its work, monotonic seconds; None while it runs.
        energy_j: By slot, since this view began; slots without a known energy are not in it.
        lines: By slot.
    """

    def __init__(self, session: Session, *, heard: bool = True) -> None:
        self.session = session
        self.snapshot = Snapshot(time=session.started, elapsed_s=0.0, workers=())
        self.totals: Totals | None = None
        self.left: float | None = None
        self.energy_j: dict[str, float] = {}
        self.lines: dict[str, int] = {}
        self._energy: dict[str, _Growing] = {}
        self._heard = time.monotonic() if heard else -math.inf

    @property
    def silent(self) -> bool:
        """Whether its engine has not been heard of for so long that nothing is known of it."""
        return self.left is None and time.monotonic() - self._heard > SILENT_S

    def take(self, snapshot: Snapshot) -> None:
        """A newer snapshot."""
        self._heard = time.monotonic()
        for worker in snapshot.workers:
            self._add(worker)
        self.energy_j = {slot: energy.total for slot, energy in self._energy.items()}
        # A slot that another one's job occupies says nothing of its own lines.
        seen = {worker.slot: max(worker.log_lines, self.lines.get(worker.slot, 0)) for worker in snapshot.workers}
        self.lines = self.lines | seen
        self.snapshot = snapshot

    def _add(self, worker: Worker) -> None:
        if worker.energy_j is not None and worker.slot not in self._energy:
            self._energy[worker.slot] = _Growing()
        if (energy := self._energy.get(worker.slot)) is not None:
            energy.take((worker.job, worker.attempt), worker.energy_j)
