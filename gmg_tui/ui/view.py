"""The state of the interface: snapshot, histories, selection, filter and order; all else lives in the engine."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from gmg_tui.model import JobRecord, Queue, Snapshot, Worker, WorkerState
from gmg_tui.results.column import sort_rows
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Welcome
from gmg_tui.ui.slots import ORDERS, SLOT_ORDER, History, SlotView, in_trouble, median_rates
from gmg_tui.ui.worker_text import matches

MIN_SORT_INTERVAL_S: Final = 5.0
"""Minimum seconds between two automatic sorts."""
MAX_UNFOLDED_SLOTS: Final = 64
"""Maximum slots of a session whose nodes are unfolded at the start."""
_PREFETCHED_JOBS: Final = 32
"""Number of jobs to request before and after the running ones, as some may start or end before the answer."""


class Tab(StrEnum):
    """A tab of the pane; the value is its name on the screen."""

    LOG = "Log"
    CHARTS = "Charts"
    METRICS = "Metrics"
    PROCESSES = "Processes"
    ATTEMPTS = "Attempts"
    SETUP = "Setup"
    WHY = "Why"
    EVENTS = "Events"


Subject: TypeAlias = tuple[str, int | None, int]
"""A slot, its job (None without one) and the number of its attempt."""


class Band(NamedTuple):
    """Slots drawn side by side: a table row, a row of tiles, or a node's line."""

    slots: tuple[str, ...]
    """The slots. A node's line has all of the node's slots if folded; else none, so that it cannot be selected."""
    node: str = ""
    """The name of the node in a node's line; else empty."""


class View:
    """The state that the interface shows.

    Attributes:
        session: The fixed properties of the session.
        snapshot: The newest state of the session.
        loss: One line about how the session was lost; empty if it was not.
        already_ended: True if the session had ended before the interface opened.
        present: The names of the slots in the session's order; in a sweep or tuning, only those with a worker.
        slots: The names of the slots that the filter lets through, sorted, including those of folded nodes.
        selected: The name of the slot that keys act on; empty if there is none.
        marked: The names of the slots that keys act on instead of the selected one, if any.
        filter: The words that a worker must match to be shown.
        order: The name of the column that the slots are sorted by.
        nodes: The names of each node's slots, in the session's order; empty in a session on one machine.
        folded: The names of the nodes that are folded into one line.
        tiles: True for tiles, False for the table, None for tiles if all fit.
        histories: Recent rates, by slot.
        disconnected: True if the engine is gone.
        silent_s: Seconds since the engine's last message, if it has become silent; else 0.
        stopping: True while the workers are being stopped, after which the interface closes.
        readonly: True if this client may not change the session.
        tab: The pane's active tab.
        maximized: True if the pane fills the screen.
    """

    def __init__(self, welcome: Welcome, *, already_ended: bool = False, loss: str = "") -> None:
        self.session = welcome.session
        self.already_ended = already_ended
        self.loss = loss
        self.readonly = welcome.readonly
        self.tiles: bool | None = None
        self.tab = Tab.LOG
        self.maximized = False
        self.stopping = self.disconnected = False
        self.silent_s = 0
        self.marked: set[str] = set()
        self.filter = ""
        self.order = SLOT_ORDER
        self._sorted_at = float("-inf")
        self._slots = {slot.name: slot for slot in self.session.slots}
        self._slot_numbers = {name: number for number, name in enumerate(self._slots)}
        self.histories = {name: History() for name in self._slots}
        for series in welcome.recent:
            if series.slot in self.histories:
                self.histories[series.slot].seed(series)
        nodes: dict[str, list[str]] = {}
        for slot in self.session.slots:
            nodes.setdefault(slot.node, []).append(slot.name)
        self.nodes = {node: tuple(names) for node, names in nodes.items()} if len(nodes) > 1 else {}
        self.folded = set(self.nodes) if len(self._slots) > MAX_UNFOLDED_SLOTS else set[str]()
        self.present: tuple[str, ...] = tuple(self._slots)
        self.slots = self.present
        self.selected: str = self.slots[0] if self.slots else ""
        self.apply(welcome.snapshot)

    # The snapshot

    def apply(self, snapshot: Snapshot) -> None:
        """Makes `snapshot` current, and adds it to the histories."""
        self.snapshot = snapshot
        # If a slot has two workers, use the first.
        self._workers = {worker.slot: worker for worker in reversed(snapshot.workers)}
        self._samples = {sample.uuid: sample for sample in reversed(snapshot.samples)}
        self._medians = median_rates(self._slots, snapshot.workers)
        old_present = self.present
        if snapshot.queue is not None:
            self.present = tuple(name for name in self._slots if name in self._workers)
        is_sort_due = self.is_arranged and not 0 <= snapshot.time - self._sorted_at < MIN_SORT_INTERVAL_S
        if is_sort_due or self.present != old_present:
            self._arrange()
        self.marked.intersection_update(self.slots)
        self.extend_histories(snapshot)

    def extend_histories(self, snapshot: Snapshot) -> None:
        """Adds the rates in `snapshot` to the histories."""
        for worker in snapshot.workers:
            if worker.slot in self.histories and not worker.state.ended:
                self.histories[worker.slot].add(snapshot.time, worker)

    @property
    def empty_text(self) -> str:
        """The text in place of the workers if none is shown: the reason and the next step."""
        if self.filter:
            return "No worker matches the filter. Esc shows all."
        if self.queue is not None and self.queue.ended:
            return f"All jobs have ended. Q shows them; `gmg-tui report {self.session.spec.name}` prints the results."
        return "No job is running. Q shows the queue." if self.queue is not None else "There are no workers; q quits."

    @property
    def queue(self) -> Queue | None:
        """The progress of a sweep or tuning; None in a plain run."""
        return self.snapshot.queue

    @property
    def subject(self) -> Subject:
        """What details are about: the selected slot, its job and its attempt."""
        worker = self.worker_on(self.selected)
        return (self.selected, None, 0) if worker is None else (self.selected, worker.job, worker.attempt)

    def worker_on(self, slot: str) -> Worker | None:
        """Returns the worker on `slot`; None if it has none yet."""
        return self._workers.get(slot)

    def slot_view(self, name: str) -> SlotView:
        """Returns the state of the slot `name`; a slot without a worker gets a waiting one."""
        slot = self._slots[name]
        return SlotView(
            slot,
            self._workers.get(name) or Worker(name, self._slot_numbers[name], WorkerState.WAITING),
            self._samples.get(slot.gpu.uuid) if slot.gpu is not None else None,
            self.histories[name],
            self.snapshot.time,
            selected=name == self.selected,
            marked=name in self.marked,
            median_fps=self._medians.get(name),
        )

    # Filter and order

    @property
    def is_arranged(self) -> bool:
        """True if a filter or an order is set."""
        return bool(self.filter) or self.order != SLOT_ORDER

    def show_only(self, text: str) -> None:
        """Filters the workers by the words in `text`; marked ones stay visible."""
        self.filter = " ".join(text.split())
        self._arrange(keep_selected=False)

    def sort_by(self, order: str) -> None:
        """Sorts the slots by the column called `order`; the selection stays."""
        self.order = order
        self._arrange()

    def _slot_views(self, names: Iterable[str]) -> list[SlotView]:
        return [self.slot_view(name) for name in names]

    def _arrange(self, *, keep_selected: bool = True) -> None:
        """Filters and sorts the slots. If the selected one is hidden, selects the nearest, unless the pane is enlarged.

        Marked slots and, with `keep_selected`, the selected one stay visible, as keys act on them.
        """
        self._sorted_at = self.snapshot.time
        kept = self.marked | {self.selected} if keep_selected else self.marked
        slots = self.present
        if self.order != SLOT_ORDER:
            positions = {name: number for number, name in enumerate(self.slots)}  # equal values keep their order
            entries = sorted(self._slot_views(slots), key=lambda entry: positions.get(entry.slot.name, len(positions)))
            column = ORDERS[self.order]
            slots = tuple(entry.slot.name for entry in sort_rows(column, entries, descending=not column.align_left))
        if self.filter:
            matching = {entry.slot.name for entry in self._slot_views(slots) if matches(entry, self.filter)}
            slots = tuple(name for name in slots if name in matching or name in kept)
        self.slots = slots
        if self.selected not in slots and not self.maximized:  # the enlarged pane keeps showing it
            number = self._slot_numbers.get(self.selected, 0)
            self.selected = min(slots, key=lambda name: abs(self._slot_numbers[name] - number), default="")

    def slots_in_trouble(self) -> list[str]:
        """Returns the slots in trouble, shown or not, in the session's order."""
        return [entry.slot.name for entry in self._slot_views(self.present) if in_trouble(entry)]

    # Nodes

    def node_of(self, slot: str) -> str:
        """Returns the node of a slot; empty in a session on one machine."""
        return self._slots[slot].node if self.nodes and slot in self._slots else ""

    @property
    def folded_node(self) -> str:
        """The selected slot's node, if it is folded into a line, which then has the cursor; else empty."""
        node = self.node_of(self.selected)
        return node if self.has_node_lines and node in self.folded else ""

    @property
    def has_node_lines(self) -> bool:
        """True if nodes have lines: in a session on several machines, unless workers are sorted by a column."""
        return bool(self.nodes) and self.order == SLOT_ORDER

    def slots_of(self, node: str) -> tuple[str, ...]:
        """Returns the slots of a node that the filter lets through."""
        return tuple(name for name in self.slots if self.node_of(name) == node)

    def bands(self, columns: int) -> list[Band]:
        """Returns the bands of a grid with `columns` columns (1 for a table), from the top."""
        if not self.has_node_lines:
            return _make_bands(self.slots, columns)
        by_node: dict[str, list[str]] = {}
        for name in self.slots:
            by_node.setdefault(self.node_of(name), []).append(name)
        bands: list[Band] = []
        for node, names in by_node.items():
            folded = node in self.folded
            bands += [Band(tuple(names) if folded else (), node), *([] if folded else _make_bands(names, columns))]
        return bands

    # Selection

    def choose(self, slot: str) -> bool:
        """Selects `slot`, and shows it if the filter hides it. Returns True if the selection has changed."""
        if slot == self.selected or slot not in self.present:
            return False
        self.selected = slot
        if slot not in self.slots:
            self._arrange()
        return True

    def move(self, direction: str, columns: int) -> bool:
        """Selects the neighbour `up`, `down`, `left` or `right` in a grid with `columns` columns (1 for a table).

        Stops at the edges; at a folded node's line, selects its first slot. Returns True if the selection has changed.
        """
        bands = [band for band in self.bands(columns) if band.slots]
        row = next((number for number, band in enumerate(bands) if self.selected in band.slots), None)
        if row is None:
            return False
        rows = [band.slots[:1] if band.node else band.slots for band in bands]
        column = 0 if bands[row].node else rows[row].index(self.selected)
        step = -1 if direction in {"up", "left"} else 1
        if direction in {"left", "right"}:
            reachable = [slot for slots in rows for slot in slots]
            number = reachable.index(rows[row][column]) + step
            return 0 <= number < len(reachable) and self.choose(reachable[number])
        row += step
        return 0 <= row < len(rows) and self.choose(rows[row][min(column, len(rows[row]) - 1)])


def _make_bands(names: Sequence[str], columns: int) -> list[Band]:
    return [Band(tuple(names[first : first + columns])) for first in range(0, len(names), columns)]


async def job_on(engine: Source, view: View, slot: str) -> JobRecord | None:
    """Returns the running or just-ended job on `slot`; None if there is none. Raises `GmgError` if the query fails."""
    worker, queue = view.worker_on(slot), view.queue
    if worker is None or queue is None or worker.job is None:
        return None
    jobs = await engine.queue(max(0, queue.done - _PREFETCHED_JOBS), queue.running + 2 * _PREFETCHED_JOBS)
    return next((job for job in jobs if job.number == worker.job), None)
