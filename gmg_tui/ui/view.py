"""What the interface knows: the newest snapshot, the recent past of each worker, and which worker is selected.

Everything else lives in the engine. This module knows no Textual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from gmg_tui.model import GpuSample, Occurrence, Queue, Series, Session, Slot, Snapshot, Worker, WorkerState
from gmg_tui.protocol import Welcome
from gmg_tui.ui.arrangement import Arrangement, Filter, Order, Placed, in_trouble
from gmg_tui.ui.folds import Band, Folds, Part, bands
from gmg_tui.ui.history import History


class Outcome(NamedTuple):
    """How the interface ended, and the session as it was then."""

    how: str
    """`ended`: all workers had; `stopped`: they were stopped from here; `detached`: they go on; `lost`: the engine is
    gone; `looked`: it had ended before the screen was opened."""
    session: Session
    snapshot: Snapshot
    reason: str = ""
    """Why the engine was lost, in one line."""


class Layout(StrEnum):
    """How the workers are drawn."""

    AUTO = "auto"
    """Tiles where all fit, else the table."""
    TILES = "tiles"
    TABLE = "table"


class View:
    """The one place where the interface keeps what it draws.

    Attributes:
        session: What does not change while the session runs.
        snapshot: The newest state of the session.
        loss: How the session was lost, in one line; empty where it was not.
        over: Whether the session had ended before the screen was opened.
        present: The names of the session's slots, in their own order; in a sweep only those that have a worker now.
        slots: Those of them that are drawn, in the order in which they are, also behind the lines of folded nodes.
        arrangement: How they are filtered and sorted.
        folds: Which nodes are folded.
        chosen: Name of the slot that keys act on; empty where there is none.
        layout: How the user wants the workers drawn.
        histories: The minutes before what is drawn, by slot.
        message: Why the last key could not do its work; empty otherwise.
        parted: Whether the engine is gone, and nothing more will come.
        silent_s: For how long the engine has sent nothing, seconds; 0 while it sends a snapshot each second.
        stopping: Whether the workers are being stopped so that the interface can end.
        marked: The slots that keys act on instead of the chosen one, where there are any.
        together: Whether the log is that of all ranks of the chosen worker's group.
        readonly: Whether nothing can be changed from here.
    """

    def __init__(self, welcome: Welcome, *, over: bool = False, loss: str = "") -> None:
        self.session: Session = welcome.session
        self.snapshot: Snapshot = welcome.snapshot
        self.over = over
        self.loss = loss
        self.readonly = welcome.readonly
        self.layout = Layout.AUTO
        self.message = ""
        self.stopping = False
        self.marked: set[str] = set()
        self.together = False
        self.silent_s = 0
        self.parted = False
        self.histories = {slot.name: History() for slot in self.session.slots}
        self._all_slots = {slot.name: place for place, slot in enumerate(self.session.slots)}
        self._slot_of = {slot.name: slot for slot in self.session.slots}
        self.arrangement = Arrangement()
        self.folds = Folds(self.session.slots)
        self._parts: tuple[Part, ...] = ()
        self._parted_for: object = None
        """What `_parts` were made for."""
        self._bands: dict[int, tuple[Band, ...]] = {}
        """Those of `_parts`, by their columns."""
        self.present: tuple[str, ...] = tuple(self._all_slots)
        self.slots = self.present
        self._workers: dict[str, Worker] = {}
        self._samples: dict[str, GpuSample] = {}
        self._index()
        self.chosen: str = self.slots[0] if self.slots else ""
        _seed(self.histories, welcome.recent)
        self.apply(welcome.snapshot)

    @property
    def queue(self) -> Queue | None:
        """How far the sweep is; None in a plain run."""
        return self.snapshot.queue

    @property
    def worker(self) -> Worker | None:
        """The chosen worker; None where its slot has none yet."""
        return self.worker_on(self.chosen)

    def worker_on(self, slot: str) -> Worker | None:
        """The worker on `slot`; None where it has none yet."""
        return self._workers.get(slot)

    @property
    def log(self) -> tuple[str, dict[str, int]]:
        """Whose log is shown: the chosen slot, or its group with the ranks by slot."""
        group = self.snapshot.group(self.chosen) if self.together else None
        if group is None:
            return self.chosen, {}
        return group.id, {slot: rank for rank, slot in enumerate(group.slots)}

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is drawn, from the top; nodes have lines of their own where the slots are in their own order."""
        wanted = (self.slots, self.folds.version, self.arrangement.order)
        if wanted != self._parted_for:
            self._parted_for, self._bands = wanted, {}
            self._parts = self.folds.parts(self.slots, headed=self.arrangement.order is Order.SLOT)
        return self._parts

    @property
    def shape(self) -> tuple[tuple[bool, int], ...]:
        """What a layout depends on: of each part whether it has a node's line, and how many slots are drawn."""
        return tuple((bool(part.node), 0 if part.folded else len(part.slots)) for part in self.parts)

    def bands(self, columns: int) -> tuple[Band, ...]:
        """What is drawn from the top, in a grid of `columns`, of which a table has 1."""
        parts = self.parts
        if columns not in self._bands:
            self._bands[columns] = bands(parts, columns)
        return self._bands[columns]

    @property
    def folded_node(self) -> str:
        """The folded node whose line is under the cursor: the chosen slot is one of its; else empty."""
        return self.folds.node_of(self.chosen) if self.folds.holds(self.chosen) else ""

    def of_node(self, node: str) -> tuple[str, ...]:
        """The drawn slots of a node, in the order in which they are."""
        for part in self.parts:
            if part.node == node:
                return part.slots
        return tuple(name for name in self.slots if self.folds.node_of(name) == node)

    @property
    def on_gpus(self) -> bool:
        """Whether any slot is on a GPU; else the columns are those of the CPU."""
        return any(slot.gpu is not None for slot in self.session.slots)

    def slot(self, name: str) -> Slot | None:
        """The slot called `name`."""
        return self._slot_of.get(name)

    def sample(self, slot: str) -> GpuSample | None:
        """The newest sample of the GPU of `slot`; None on a CPU slot."""
        found = self._slot_of.get(slot)
        return self._samples.get(found.gpu.uuid) if found is not None and found.gpu is not None else None

    def group_beside(self, slot: str) -> tuple[bool, bool]:
        """Whether the slots drawn before and after `slot` have ranks of its group."""
        group, at = self.snapshot.group(slot), self.slots.index(slot)
        if group is None:
            return False, False
        after = self.slots[at + 1] if at + 1 < len(self.slots) else ""
        return at > 0 and self.slots[at - 1] in group.slots, after in group.slots

    def apply(self, snapshot: Snapshot) -> bool:
        """Draw `snapshot` from now on, and add it to the histories.

        Returns whether another slot is selected now, because the previous one is gone.
        """
        self.snapshot = snapshot
        self._index()
        gone = snapshot.queue is not None and self._follow_slots(snapshot)
        moved = self._arrange() if gone or self.arrangement.due(snapshot.time) else False
        self.marked.intersection_update(self.slots)
        for worker in snapshot.workers:
            history = self.histories.get(worker.slot)
            if history is not None and not worker.state.ended:
                history.add(snapshot.time, worker, self.sample(worker.slot))
        return moved

    def occurred_since(self, snapshot: Snapshot) -> tuple[Occurrence, ...]:
        """What has happened since the newest snapshot, up to this one."""
        last = max((one.number for one in self.snapshot.occurred), default=0)
        return tuple(one for one in snapshot.occurred if one.number > last)

    def _index(self) -> None:
        """Look up by name from now on what the snapshot has in rows; of two, the first counts, as there."""
        self._workers = {worker.slot: worker for worker in reversed(self.snapshot.workers)}
        self._samples = {sample.uuid: sample for sample in reversed(self.snapshot.samples)}

    def _follow_slots(self, snapshot: Snapshot) -> bool:
        """Have those slots that have a worker. Returns whether they are others than before."""
        before, there = self.present, {worker.slot for worker in snapshot.workers}
        self.present = tuple(name for name in self._all_slots if name in there)
        return self.present != before

    def _placed(self, names: Iterable[str]) -> list[Placed]:
        found = []
        for name in names:
            slot = self._slot_of[name]
            worker = self._workers.get(name) or Worker(name, self._all_slots[name], WorkerState.WAITING)
            found.append(Placed(slot, worker, self.sample(name)))
        return found

    def _arrange(self, *, keep: bool = True) -> bool:
        """Filter and sort what is drawn; if the selected slot is not among it, select the nearest that is.

        What keys act on does not vanish by itself: the marked slots stay, and with `keep` the selected one too.

        Returns whether another slot is selected now.
        """
        kept = self.marked | {self.chosen} if keep else self.marked
        if self.arrangement.plain:
            self.slots = self.present
        else:
            self.slots = self.arrangement.arrange(self._placed(self.present), self.snapshot.time, kept)
        before = self.chosen
        if before not in self.slots:
            here = self._all_slots.get(before, 0)
            self.chosen = min(self.slots, key=lambda name: abs(self._all_slots[name] - here), default="")
        return self.chosen != before

    def show_only(self, text: str) -> bool:
        """Draw only the slots that a filter's `text` holds. Returns whether another one is selected now."""
        self.arrangement.filter = Filter(text)
        return self._arrange(keep=False)

    def sort_by(self, order: Order, *, reverse: bool = False) -> None:
        """Draw the slots in another order; the selection stays."""
        self.arrangement.sort_by(order, reverse=reverse)
        self._arrange()

    def troubled(self) -> list[str]:
        """The slots in trouble, shown or not, in their own order."""
        return [one.slot.name for one in self._placed(self.present) if in_trouble(one.worker, one.sample)]

    def choose(self, slot: str) -> bool:
        """Select `slot`, also one that the filter hides, which is shown then. Returns whether that changed anything."""
        if slot == self.chosen or slot not in self.present:
            return False
        self.chosen = slot
        if slot not in self.slots:
            self._arrange()
        self.arrangement.rest(self.snapshot.time)
        return True

    def move(self, direction: str, columns: int) -> bool:
        """Select the neighbour `up`, `down`, `left` or `right` in a grid of `columns`, of which a table has 1.

        It stops at the edges. On the line of a folded node the first of its slots is chosen. Returns whether another
        worker is selected now.
        """
        rows = [band for band in self.bands(columns) if band.slots]
        here = next((at for at, band in enumerate(rows) if self.chosen in band.slots), None)
        if here is None:
            return False
        column = 0 if rows[here].folded else rows[here].slots.index(self.chosen)
        if direction in {"left", "right"}:
            column += 1 if direction == "right" else -1
            if rows[here].folded or not 0 <= column < len(rows[here].slots):
                here += 1 if direction == "right" else -1
                column = 0 if direction == "right" else columns
        else:
            here += 1 if direction == "down" else -1
        if not 0 <= here < len(rows):
            return False
        slots = rows[here].slots
        return self.choose(slots[0 if rows[here].folded else min(column, len(slots) - 1)])


def _seed(histories: Mapping[str, History], recent: Iterable[Series]) -> None:
    """Have histories begin with what is known from before."""
    for series in recent:
        if series.slot in histories:
            histories[series.slot].seed(series)
