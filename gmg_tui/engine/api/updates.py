"""The session's snapshots as clients receive them: each is made once, and holds only the workers that have changed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from gmg_tui.model import Snapshot, Worker
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Update


class Updates:
    """Numbers the snapshots that `make_snapshot` returns, and encodes the changes between any two of them."""

    def __init__(self, make_snapshot: Callable[[], Snapshot]) -> None:
        self._make_snapshot = make_snapshot
        self._snapshot: Snapshot | None = None
        """The newest since the last `expire`; None before a client has asked."""
        self._frames: dict[int, bytes] = {}
        """Its frames, by the number of the snapshot that the client has."""
        self._number = 0
        """Number of the snapshot, from 1."""
        self._workers: dict[str, Worker] = {}
        """Workers of the newest snapshot, by slot."""
        self._changed: dict[str, int] = {}
        """Number of the snapshot with each worker's last change."""
        self._complete = 0
        """The number of the first snapshot with the same slots: older ones are followed by all workers."""

    def expire(self) -> None:
        """Has the next call make a new snapshot."""
        self._snapshot = None
        self._frames.clear()

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot, made once for all clients."""
        if self._snapshot is None:
            self._snapshot = self._make_snapshot()
            self._number += 1
            workers = {worker.slot: worker for worker in self._snapshot.workers}
            if workers.keys() != self._workers.keys():
                self._complete = self._number
            changed = [slot for slot, worker in workers.items() if worker != self._workers.get(slot)]
            self._changed.update(dict.fromkeys(changed, self._number))
            self._workers = workers
        return self._snapshot

    def frame(self, has: int) -> tuple[bytes, int]:
        """Returns the frame with the changes since snapshot number `has`, and the number of the current one."""
        snapshot = self.snapshot
        partial = has >= self._complete
        if not partial:
            has = 0
        if has not in self._frames:
            workers = tuple(worker for worker in snapshot.workers if self._changed[worker.slot] > has)
            update = Update(structs.replace(snapshot, workers=workers), partial)
            self._frames[has] = protocol.frame(update)
        return self._frames[has], self._number
