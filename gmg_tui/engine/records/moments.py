"""Decides when a session is kept as it is at a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.model import Snapshot
from gmg_tui.store.moments import Moment
from gmg_tui.store.writer import StoreWriter

_PERIOD_S: Final = 10.0
"""How long the session goes on before it is kept again, while nothing but figures changes."""
_PAUSE_S: Final = 1.0
"""How long at least after it was kept, however much changes: the length of a beat."""
_SLOTS_A_SECOND: Final = 64
"""That pause has a second for so many slots: a snapshot of many costs more."""


class Moments:
    """Keeps the session's snapshots of a worker's change of state, and now and then while anything runs."""

    def __init__(self, store: StoreWriter, slots: int) -> None:
        self._store = store
        self._pause_s = max(_PAUSE_S, slots / _SLOTS_A_SECOND)
        self._seen: dict[str, object] = {}
        """What is worth being kept of the worker of each slot, as it was last."""
        self._changed = True
        self._kept = 0.0
        """When the session was kept last, Unix seconds."""

    def changed(self, worker: SlotWorker) -> None:
        """Something of a worker has changed."""
        state = worker.state, worker.phase, worker.stuck is None, worker.attempt_started, worker.task.job
        if self._seen.get(worker.slot.name) != state:
            self._seen[worker.slot.name] = state
            self.renew()

    def renew(self) -> None:
        """What is kept is out of date."""
        self._changed = True

    def beat(self, now: float, snapshot: Callable[[], Snapshot], *, live: bool) -> None:
        """Each second: keep the session where that is due; `now` is Unix seconds, `live` whether any worker is."""
        since = abs(now - self._kept)  # a clock that was set back must not end it
        if since >= (self._pause_s if self._changed else _PERIOD_S) and (self._changed or live):
            self.keep(snapshot())

    def keep(self, snapshot: Snapshot) -> None:
        """Keep the session as it is."""
        self._kept, self._changed = snapshot.time, False
        self._store.moment(Moment.of(snapshot))

    def conclude(self, snapshot: Snapshot) -> None:
        """Keep how it has ended, where that is not kept yet."""
        if self._changed:
            self.keep(snapshot)
