"""What the interface knows: the newest snapshot, the recent past of each worker, and which worker is selected.

Everything else lives in the engine. This module knows no Textual.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from gmg_tui.model import GpuSample, Queue, Session, Slot, Snapshot, Tunable, Worker
from gmg_tui.protocol import Welcome
from gmg_tui.ui.history import History


class Outcome(NamedTuple):
    """How the interface ended, and the session as it was then."""

    how: str
    """`ended`: all workers had; `stopped`: they were stopped from here; `detached`: they go on; `lost`: the engine is
    gone."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """Why the engine was lost, in one line."""
    after: int | Tunable | None = None
    """What is to take its place: a plain run with this value of a tuning's answer, or the tuning of a number."""


class View(StrEnum):
    """How the workers are drawn."""

    AUTO = "auto"
    """Tiles where all fit, else the table."""
    TILES = "tiles"
    TABLE = "table"


class Scope(StrEnum):
    """Which workers an edit is of."""

    ONE = "one"
    """The one whose settings are shown."""
    MARKED = "marked"
    ALL = "all"


class UiState:
    """The one place where the interface keeps what it draws.

    Attributes:
        session: What does not change while the session runs.
        snapshot: The newest state of the session.
        slots: The names of the slots that are drawn, in order: all of the session's, but in a sweep only those that
            have a worker now.
        chosen: Name of the slot that keys act on; empty where there is none.
        view: How the user wants the workers drawn.
        histories: The recent past, by slot.
        message: Why the last key could not do its work; empty otherwise.
        parted: Whether the engine is gone, and nothing more will come.
        silent_s: For how long the engine has sent nothing, seconds; 0 while it sends a snapshot each second.
        stopping: Whether the workers are being stopped so that the interface can end.
        after: What is to follow once all has ended (`Outcome.after`).
        marked: The slots that keys act on instead of the chosen one, where there are any.
        edit_scope: Which workers the last edit was of.
        together: Whether the log is that of all ranks of the chosen worker's group.
        edited: The number that was edited last, as `numbers.edited_name` names it; empty before that.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.session: Session = welcome.session
        self.snapshot: Snapshot = welcome.snapshot
        self.view = View.AUTO
        self.message = ""
        self.stopping = False
        self.after: int | Tunable | None = None
        self.marked: set[str] = set()
        self.edit_scope = Scope.ONE
        self.edited = ""
        self.together = False
        self.silent_s = 0
        self.parted = False
        self.histories = {slot.name: History() for slot in self.session.slots}
        self._all_slots = tuple(slot.name for slot in self.session.slots)
        self.slots = self._all_slots
        self.chosen: str = self.slots[0] if self.slots else ""
        for series in welcome.recent:
            if series.slot in self.histories:
                self.histories[series.slot].seed(series)
        self.apply(welcome.snapshot)

    @property
    def queue(self) -> Queue | None:
        """How far the sweep is; None in a plain run."""
        return self.snapshot.queue

    @property
    def worker(self) -> Worker | None:
        """The chosen worker; None where its slot has none yet."""
        return self.snapshot.worker(self.chosen)

    @property
    def log(self) -> tuple[str, dict[str, int]]:
        """Whose log is shown: the chosen slot, or its group with the ranks by slot."""
        group = self.snapshot.group(self.chosen) if self.together else None
        if group is None:
            return self.chosen, {}
        return group.id, {slot: rank for rank, slot in enumerate(group.slots)}

    @property
    def on_gpus(self) -> bool:
        """Whether any slot is on a GPU; else the columns are those of the CPU."""
        return any(slot.gpu is not None for slot in self.session.slots)

    def slot(self, name: str) -> Slot | None:
        """The slot called `name`."""
        return self.session.slot(name)

    def sample(self, slot: str) -> GpuSample | None:
        """The newest sample of the GPU of `slot`; None on a CPU slot."""
        found = self.session.slot(slot)
        return self.snapshot.sample(found.gpu) if found else None

    def group_beside(self, slot: str) -> tuple[bool, bool]:
        """Whether the slots drawn before and after `slot` have ranks of its group."""
        group, at = self.snapshot.group(slot), self.slots.index(slot)
        if group is None:
            return False, False
        after = self.slots[at + 1] if at + 1 < len(self.slots) else ""
        return at > 0 and self.slots[at - 1] in group.slots, after in group.slots

    def apply(self, snapshot: Snapshot) -> bool:
        """Make `snapshot` the newest and add it to the histories.

        Returns whether another slot is selected now, because the previous one is gone.
        """
        self.snapshot = snapshot
        moved = snapshot.queue is not None and self._follow_slots(snapshot)
        self.marked.intersection_update(self.slots)
        for worker in snapshot.workers:
            history = self.histories.get(worker.slot)
            if history is not None and not worker.state.ended:
                history.add(snapshot.time, worker, self.sample(worker.slot))
        return moved

    def _follow_slots(self, snapshot: Snapshot) -> bool:
        """Draw the slots that have a worker; if the selected one has none any more, select the nearest that has."""
        there = {worker.slot for worker in snapshot.workers}
        self.slots = tuple(name for name in self._all_slots if name in there)
        if self.chosen in there:
            return False
        place, before = self._all_slots.index, self.chosen
        here = place(before) if before else 0
        self.chosen = min(self.slots, key=lambda name: abs(place(name) - here), default="")
        return self.chosen != before

    def choose(self, slot: str) -> bool:
        """Select `slot`. Returns whether that changed anything."""
        if slot == self.chosen or slot not in self.slots:
            return False
        self.chosen = slot
        return True

    def move(self, direction: str, columns: int) -> bool:
        """Select the neighbour `up`, `down`, `left` or `right` in a grid of `columns`, of which a table has 1.

        It stops at the edges. Returns whether another worker is selected now.
        """
        slots = self.slots
        if self.chosen not in slots:
            return False
        here = slots.index(self.chosen)
        there = here + {"up": -columns, "down": columns, "left": -1, "right": 1}[direction]
        if direction == "down" and there >= len(slots) and here // columns < (len(slots) - 1) // columns:
            there = len(slots) - 1  # the last row is shorter
        return 0 <= there < len(slots) and self.choose(slots[there])
