"""The table of workers, one row each, and the lines of nodes in a session on several machines."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from textual.strip import Strip

from gmg_tui.model import Worker, WorkerState, total_fps, units
from gmg_tui.results.column import Column
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import Piece, Row, load_style
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.header import state_counts
from gmg_tui.ui.slots import ORDERS, SLOT_ORDER, WORKER_COLUMNS, SlotView, in_trouble, job_of, urgency_rank
from gmg_tui.ui.table import Table
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.workers.rate_line import RateLine, deviation_style, line_text, rate_lines

ROWS_AROUND_TABLE: Final = 2
"""Rows around the table: the heading above, and the selected worker's line below."""
_MIN_WIDTH_FOR_ENVS: Final = 120
"""Minimum width in cells to show the number of environments."""
_MIN_WIDTH_FOR_HISTORY: Final = 72
"""Minimum width in cells to show the history."""
_MIN_HISTORY_CELLS, _MAX_HISTORY_CELLS = 8, 30
"""Minimum and maximum cells of a history."""
_STALE_RATE_STATES: Final = frozenset({WorkerState.STOPPING, WorkerState.RESTARTING})
"""States in which the last rate is out of date, so that notes may cover it."""
_GPU_COLUMNS: Final = ("gpu_util_pct", "memory", "power_w", "temperature_c")
_CPU_COLUMNS: Final = ("cpu_pct", "memory_rss_mib")
_COLUMNS: Final[dict[str, Column[Any]]] = WORKER_COLUMNS | {
    "time": Column[Any]("time", lambda entry: _time_text(entry)),
    "history": Column[Any]("history", lambda entry: "", align_left=True),
    "notes": Column[Any]("notes", lambda entry: "", align_left=True, max_width=0),
}


def _time_text(entry: SlotView) -> str:
    worker, lost_s = entry.worker, worker_text.lost_s(entry)
    if lost_s is not None:
        return units.span(lost_s)
    if worker.state is WorkerState.RESTARTING and worker.restart_at is not None:
        return f"in {units.span(max(0.0, -entry.since_s(worker.restart_at)))}"
    in_phase = worker_text.is_getting_ready(worker)
    return units.span(worker_text.phase_s(entry) if in_phase else worker_text.state_s(entry))


def _notes(entry: SlotView) -> list[Piece]:
    notes = worker_text.remarks(entry, advice=False)
    if worker_text.is_getting_ready(entry.worker) and not in_trouble(entry):
        notes.insert(0, (worker_text.phase_of(entry.worker), "title"))
    return notes


def _notes_cover_rate(worker: Worker, notes: Sequence[Piece]) -> bool:
    """Returns True if notes cover the rate, because there is none, it is out of date, or a note is an error."""
    is_stale = worker.fps is None or worker_text.is_getting_ready(worker) or worker.state in _STALE_RATE_STATES
    return bool(notes) and (is_stale or notes[0][1] == "error")


class _VisibleWorker(NamedTuple):
    entry: SlotView
    notes: Sequence[Piece]
    notes_cover_rate: bool
    line: RateLine


class WorkerTable(Table[Band]):
    """The table of workers, with lines for nodes. The cursor is on the view's selected slot."""

    GAP: ClassVar[int] = 1
    FILL_COLUMN: ClassVar[str] = "notes"
    SHRINK_COLUMN: ClassVar[str] = "job"

    def __init__(self, view: View) -> None:
        super().__init__(
            (),
            key=lambda band: band.node or band.slots[0],
            follow=lambda bands: next((band for band in bands if view.selected in band.slots), None),
        )
        self.can_focus = False
        self._view = view
        self._visible: dict[str, _VisibleWorker] = {}

    @property
    def shown_columns(self) -> list[Column[Any]]:
        """The columns that suit the session and the width."""
        view, width = self._view, self.room.width
        names = ["slot", *(["rank"] if view.snapshot.groups else []), *(["job"] if view.queue is not None else [])]
        names += ["state", "time", "fps", *(["n_envs"] if width >= _MIN_WIDTH_FOR_ENVS else [])]
        names += ["history"] if width >= _MIN_WIDTH_FOR_HISTORY else []
        has_gpus = any(slot.gpu is not None for slot in view.session.slots)
        names += ["notes", *(_GPU_COLUMNS if has_gpus else _CPU_COLUMNS)]
        for name in names:
            self._widths.setdefault(name, len(_COLUMNS[name].heading))
        return [_COLUMNS[name] for name in names]

    def make_strips(self, width: int, height: int) -> list[Strip]:
        """Returns the headings, with the arrow of the view's order, and the visible rows."""
        order = self._view.order
        self._sort_by, self._descending = order if order != SLOT_ORDER else "", not ORDERS[order].align_left
        self.prepare(width, [self._rows[key] for key in self._keys[round(self.scroll_y) :][:height]])
        return super().make_strips(width, height)

    def prepare(self, width: int, bands: Sequence[Band]) -> None:
        """Caches the workers of these bands, with their histories on one scale, for `cell`."""
        self._widths["history"] = cells = max(_MIN_HISTORY_CELLS, min(_MAX_HISTORY_CELLS, width // 4 - 12))
        entries = {band.slots[0]: self._view.slot_view(band.slots[0]) for band in bands if not band.node}
        lines = rate_lines(entries.values(), cells)
        self._visible = {
            slot: _VisibleWorker(entry, notes := _notes(entry), _notes_cover_rate(entry.worker, notes), lines[slot])
            for slot, entry in entries.items()
        }

    def cell(self, band: Band, column: Column[Any]) -> Piece:
        """Returns the text and the style of a cell."""
        if band.node:
            return "", "dim"
        entry, notes, notes_cover_rate, line = self._visible[band.slots[0]]
        worker, text = entry.worker, column.text(entry)
        match column.name:
            case "slot":
                mark = "◆" if entry.marked else ""
                return text + mark, "strong" if entry.selected else "text"
            case "state":
                stuck = worker.stuck and worker.lost_since is None
                return f"{worker_text.symbol_of(entry)} {'STUCK' if stuck else text}", worker_text.style_of(entry)
            case "notes":
                return " · ".join(text for text, _ in notes), notes[0][1] if notes else "text"
            case "fps" | "n_envs" | "history" if notes_cover_rate:
                return "", "dim"
            case "history":
                slow = line.newest is not None and deviation_style(line.newest) == "warn"
                return line_text(line), "warn" if slow else "fps-graph"
            case "fps" if worker.fps is not None:
                return text, worker_text.rate_style(worker)
            case "fps" if worker.fps_in_rank_0 and worker.state is WorkerState.RUNNING:
                return "in rank 0", "dim"
            case name if name in _GPU_COLUMNS and entry.sample is not None:
                known, style = text != units.NOT_KNOWN, load_style(entry.sample, name)
                return (text, "text" if style == "ok" else style) if known else (units.NOT_SUPPORTED, "dim")
        known = text != units.NOT_KNOWN
        return text if known or not column.align_left else "", "text" if known and column.name != "time" else "dim"

    def line(self, band: Band, cells: Sequence[Piece], width: int) -> Row:
        """Returns the row of a worker or a node."""
        return node_line(self._view, band, width) if band.node else super().line(band, cells, width)

    def reveal_cursor(self) -> None:
        """Scrolls to the selected worker, including its node's line if directly above."""
        above = self._rows[self._keys[self.cursor_row - 1]] if self.cursor_row else None
        self.reveal(self.cursor_row - (above is not None and not above.slots), self.cursor_row + 1, 1)

    def click_row(self, number: int) -> None:
        """Selects a worker, enlarges the pane if the worker is selected already, or folds or unfolds a node."""
        band = self._rows[self._keys[number]]
        action = f"fold({band.node!r})" if band.node else f"choose({band.slots[0]!r})"
        self.call_later(self.run_action, f"screen.{action}")

    def action_sort_by(self, name: str) -> None:
        """Sorts the workers by the column called `name`, if there is such an order."""
        if name in ORDERS:
            self.call_later(self.run_action, f"screen.sort_by({name!r})")

    def facts(self, band: Band) -> Iterator[Fact]:
        """Yields a worker in full, as its row may be cut, or a hint for a folded node."""
        if band.node:
            yield Fact("", f"{band.node} is folded: enter shows its workers", "dim")
            return
        entry = self._view.slot_view(band.slots[0])
        worker, notes = entry.worker, worker_text.remarks(entry)
        rank = worker.group.name if worker.group is not None else ""
        envs = units.count(worker.newest.n_envs, "env") if worker.newest.n_envs is not None else ""
        texts = (rank, job_of(worker), *(text for text, _ in notes), envs, " ".join(worker.newest.args))
        style = notes[0][1] if notes else "text"
        yield Fact("", f"{entry.slot.name}  {' · '.join(filter(None, texts))}", style)


# Nodes


def node_line(view: View, band: Band, width: int) -> Row:
    """Returns a node's line: its GPUs, workers, rate, power and problems."""
    entries = [view.slot_view(name) for name in view.nodes[band.node]]
    present = [entry for entry in entries if view.worker_on(entry.slot.name) is not None]
    workers = [entry.worker for entry in present]
    samples = [entry.sample for entry in present if entry.sample is not None]
    powers = {sample.uuid: sample.power_w for sample in samples if sample.power_w is not None}
    is_selected = view.selected in band.slots
    row = Row(width).end(f"{sum(powers.values()):9,.0f} W " if powers else " " * 12)
    fps = total_fps(tuple(worker for worker in workers if worker.lost_since is None))
    row.end(f"  Σ {units.fps(fps):>11} FPS" if fps is not None else " " * 19, "fps")
    row.add("▸" if is_selected else " ", "selected")
    row.add("◆" if view.marked.intersection(band.slots) else " ", "warn")
    name = band.node.ljust(max(map(len, view.nodes)))
    row.add(f"{'+' if band.slots else '-'} {name} ", "strong" if is_selected else "title")
    gpus = len({entry.slot.gpu.uuid for entry in entries if entry.slot.gpu is not None})
    row.add(units.count(gpus, "GPU") if gpus == len(entries) else units.count(len(entries), "slot"), "dim")
    for text, style in state_counts(workers):
        row.add(text, style)
    notes = [note] if (note := node_note(view, band.node)) is not None else []
    worst = min(present, key=urgency_rank, default=None)
    if worst is not None and in_trouble(worst) and worst.worker.lost_since is None:
        name = worst.slot.name.rpartition("/")[2]
        notes += [(f"{name}: {text}", style) for text, style in worker_text.notes(worst)[:1]]
    for text, style in notes:
        row.add(" · ", "dim").add(text, style)
    return row


def node_note(view: View, name: str) -> Piece | None:
    """Returns a node's problem, such as `lost since 12:03:04`; None if it has none."""
    node = next((node for node in view.snapshot.nodes if node.name == name), None)
    if node is None:
        return None
    cause = f": {node.trouble}" if node.trouble else ""
    if node.lost_since is not None:
        return f"{worker_text.lost_text(node.lost_since)}{cause}", "error"
    if node.silent_s is not None or not node.connected:
        silent = f"silent for {units.span(node.silent_s)}" if node.silent_s is not None else "not connected"
        return f"{silent}{cause}", "warn"
    return (node.trouble, "warn") if node.trouble else None
