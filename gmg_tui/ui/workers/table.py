"""The workers as a table of one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.drawing import groups, words
from gmg_tui.ui.drawing.appearance import SIGNS
from gmg_tui.ui.drawing.row import SPAN_S, Row, highest, history_row
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.history import buckets
from gmg_tui.ui.sorting import Order, SlotView
from gmg_tui.ui.view import View

_CURSOR: Final = 2
"""Columns of the cursor and the mark."""
_HISTORY_MAX: Final = 30
_ENVS_FROM: Final = 120
"""Columns of a table from which it has one for the number of environments."""
_WIDE_RANKS_FROM: Final = 100
"""Columns of a table from which a rank's name has spaces."""
_NOTE_MIN: Final = 12
"""Cells below which a note is useless."""
_URGENT: Final = frozenset({"warn", "error"})
_WITHOUT_FPS: Final = frozenset({WorkerState.STOPPING, WorkerState.RESTARTING})
"""States in which the last FPS matter less than what is happening."""

_OF_RATE: Final = frozenset({"FPS", "envs"})
"""Columns that are empty while there is no rate."""

_Text: TypeAlias = tuple[str, str]
"""A text and its style's name."""


class Column(NamedTuple):
    """A column of the table."""

    heading: str
    width: int
    """Cells, with one that stays empty beside the text."""
    text: Callable[[SlotView], _Text]
    order: Order | None = None
    """What a click on the heading sorts by."""
    left: bool = False
    """Whether its texts are left-aligned."""


class Layout(NamedTuple):
    """The columns of a table for one width and one set of slots."""

    width: int
    left: tuple[Column, ...]
    right: tuple[Column, ...]
    """Those at the right edge; the history and the note are between the two."""

    @property
    def history_at(self) -> int:
        """The cell where the history starts."""
        return _CURSOR + sum(column.width for column in self.left)

    @property
    def right_at(self) -> int:
        """The cell where the columns at the right edge start."""
        return self.width - 1 - sum(column.width for column in self.right)

    @property
    def history(self) -> int:
        """Cells of the history; 0 where it has no room."""
        free = self.right_at - self.history_at - 1
        return max(0, free if free <= 10 else min(_HISTORY_MAX, 8 + (free - 8) // 3))

    def start(self, heading: str) -> int:
        """The cell where a column starts."""
        return next(start for column, start in self.with_starts() if column.heading == heading)

    def with_starts(self) -> Iterator[tuple[Column, int]]:
        """The columns, each with the cell where it starts."""
        for columns, start in ((self.left, _CURSOR), (self.right, self.right_at)):
            for column in columns:
                yield column, start
                start += column.width


def layout(view: View, width: int) -> Layout:
    """The columns of a table `width` cells wide. Metrics that do not fit are left out, the last ones first."""
    wide = width >= _WIDE_RANKS_FROM

    def state(entry: SlotView) -> _Text:
        worker = entry.worker
        text = "STUCK" if worker.stuck and worker.lost_since is None else worker.state_word
        return f"{words.sign_of(worker)} {text}", words.style_of(worker)

    def rank(entry: SlotView) -> _Text:
        group = entry.worker.group
        return groups.rank_name(group, short=not wide) if group is not None else "", "text"

    snapshot = view.snapshot
    name = max([4, *(len(slot) for slot in view.slots)]) + 1
    left = [
        Column("slot", name, lambda entry: (entry.slot.name, "strong" if entry.chosen else "text"), Order.SLOT, True)
    ]
    one_group = len(snapshot.groups) == 1 and len(snapshot.groups[0].slots) == len(view.slots)
    if snapshot.groups and not one_group:
        ranks = [groups.rank_name(each.group, short=not wide) for each in snapshot.workers if each.group is not None]
        left.append(Column("rank", max(map(cell_len, ranks), default=4) + 1, rank, left=True))
    if view.queue is not None:
        left.append(
            Column("job", max(9, min(24, width // 7)), lambda entry: (words.job_of(entry.worker), "text"), left=True)
        )
    left += [
        Column("state", 13, state, Order.STATE, True),
        Column("for", 8, _time),
        Column("FPS", 12, _rate, Order.FPS),
    ]
    if width >= _ENVS_FROM:
        left.append(Column("envs", 10, _envs, Order.ENVS))
    columns = Layout(width, tuple(left), _GPU if view.on_gpus else _CPU)
    while columns.right and columns.right_at < columns.history_at:
        columns = columns._replace(right=columns.right[:-1])
    return columns


def _time(entry: SlotView) -> _Text:
    worker, lost_s = entry.worker, words.lost_s(entry)
    if lost_s is not None:
        return units.span(lost_s), "dim"
    if worker.state is WorkerState.RESTARTING and worker.restart_at is not None:
        return f"in {units.span(max(0.0, -entry.since_s(worker.restart_at)))}", "dim"
    ready = words.getting_ready(worker)
    return units.span(words.phase_s(entry) if ready else entry.since_s(worker.state_since)), "dim"


def _has_rate(entry: SlotView) -> bool:
    worker = entry.worker
    return worker.fps is not None and not words.getting_ready(worker) and worker.state not in _WITHOUT_FPS


def _rate(entry: SlotView) -> _Text:
    worker = entry.worker
    if _has_rate(entry):
        return words.rate_of(worker), words.rate_style(worker)
    in_rank_0 = worker.fps_in_rank_0 and worker.state is WorkerState.RUNNING
    return "in rank 0" if in_rank_0 else units.NOT_KNOWN, "dim"


def _envs(entry: SlotView) -> _Text:
    return f"{entry.worker.n_envs:,}" if _has_rate(entry) and entry.worker.n_envs is not None else "", "dim"


def _figure(text: str) -> _Text:
    return text, "dim" if text in {units.NOT_SUPPORTED, units.NOT_KNOWN} else "text"


def _vram(entry: SlotView) -> _Text:
    sample = entry.sample
    if sample is None or sample.memory_used_mib is None:
        return _figure(units.NOT_KNOWN if sample is None else units.NOT_SUPPORTED)
    return f"{units.gib(sample.memory_used_mib)}/{units.gib(sample.memory_total_mib)}", "text"


def _of_gpu(name: str) -> Callable[[SlotView], _Text]:
    return lambda entry: _figure(units.NOT_KNOWN if entry.sample is None else units.whole(getattr(entry.sample, name)))


_GPU: Final = (
    Column("GPU %", 6, _of_gpu("gpu_util_pct"), Order.UTILISATION),
    Column("VRAM GiB", 12, _vram, Order.MEMORY),
    Column("W", 5, _of_gpu("power_w"), Order.POWER),
    Column("°C", 4, _of_gpu("temperature_c"), Order.TEMPERATURE),
)
_CPU: Final = (
    Column("CPU %", 7, lambda entry: _figure(units.whole(entry.worker.cpu_pct)), Order.UTILISATION),
    Column("RAM GiB", 9, lambda entry: _figure(units.gib(entry.worker.memory_rss_mib)), Order.MEMORY),
)


def heading(table: Layout, order: Order, sign: str) -> Row:
    """The row above the table, with `sign` beside the name of the column that it is sorted by."""
    line = Row(table.width)
    for column, start in table.with_starts():
        if start == table.right_at and table.history > 6:
            line.to(table.history_at).add("history")
        _add(line, column, start, column.heading, "dim")
        line.add(sign if column.order is order else "", "dim")  # in the cell that is empty otherwise
    return line


def _add(line: Row, column: Column, start: int, text: str, style: str) -> None:
    if column.left:
        line.to(start).add(text, style, limit=column.width - 1)
    else:
        line.right(text, start + column.width - (0 if start + column.width == line.width - 1 else 1), style)


def order_at(table: Layout, x: int) -> Order | None:
    """What a click on the heading at a cell sorts by; None where the column has no order."""
    return next((each.order for each, start in table.with_starts() if start <= x < start + each.width), None)


def row(entry: SlotView, table: Layout) -> Row:
    """One worker, in `table.width` cells. Without a rate its columns are part of the room for the note."""
    line = Row(table.width)
    line.add(SIGNS.pointer if entry.chosen else " ", "selected").add(SIGNS.mark if entry.marked else " ", "warn")
    note, rate = _note(entry), _has_rate(entry)
    if note.style == "error" and cell_len(note.text) > table.right_at - 1 - table.history_at:
        rate = False  # why it is stuck or has failed matters more
    columns = list(table.with_starts())
    for column, start in columns[: len(table.left)]:
        if rate or not note.text or column.heading not in _OF_RATE:
            _add(line, column, start, *column.text(entry))
    if rate:
        _add_history(line, entry, note, table)
    else:
        line.to(table.start("FPS"))
        line.add(note.text, note.style, limit=table.right_at - 1 - line.used)
    for column, start in columns[len(table.left) :]:
        _add(line, column, start, *column.text(entry))
    return line


def _add_history(line: Row, entry: SlotView, note: Note, table: Layout) -> None:
    """The history of the rate and a note; trouble takes the place of the history where there is no room for both."""
    line.to(table.history_at)
    edge = table.right_at - 1
    after = edge - table.history_at - table.history - 1
    # GPUs under full load are at their power cap for hours; that is no reason to hide the history. Trouble is.
    urgent = note.style in _URGENT and note not in (words.throttled(entry.sample), words.degraded(entry.sample))
    fits = after >= (cell_len(note.text) if urgent else _NOTE_MIN)
    if fits or not urgent:
        values = buckets(entry.history.fps, entry.history.end, table.history, SPAN_S)
        graph = history_row(values, highest(values), table.history)
        line.add(graph, "fps-graph").add(" ")
    if fits or urgent:
        line.add(note.text, note.style, limit=edge - line.used)


def _note(entry: SlotView) -> Note:
    """The most important thing to know."""
    worker, sample = entry.worker, entry.sample
    notes = words.notes(entry, advice=False)
    urgent = bool(notes) and notes[0].style in _URGENT and notes[0] != words.late(sample)
    if words.getting_ready(worker) and not words.suspended(worker) and not urgent:
        expected = words.usual(entry)
        time = f", {expected[1]}" if expected else ""
        return Note(f"{words.spinner(entry)} {words.phase_of(worker)}{time}", "title")
    below, degraded, slowed = words.slow(worker), words.degraded(sample), words.throttled(sample)
    mild = [note for note in (below, *words.before_after(worker)) if note is not None]
    if notes and notes[0] not in (*mild, slowed, degraded):
        return notes[0]
    if worker.fps_silent_since is not None:
        return words.beside_rate(entry)
    progress = words.progress_of(worker)
    if progress is not None and worker.progress and worker.progress.total:
        mild.append(Note(f"{progress[0] * 100:.0f} %{progress[1]}", "title"))
    mild += [note for note in (degraded, slowed) if note is not None]
    return Note("  ".join(note.text for note in mild), mild[0].style) if mild else words.beside_rate(entry)


def detail(entry: SlotView, width: int, position: str) -> Row:
    """The row below the table: all about the selected worker, whose own row may be cut; `position` at its right end."""
    worker = entry.worker
    line = Row(width).end(position, "strong").add("  ").add(entry.slot.name, "strong")
    notes = list[Note]()
    if worker.group is not None:
        notes.append(Note(groups.rank_name(worker.group), "title"))
    if worker.job is not None:
        notes.append(Note(words.job_of(worker), "title"))
    notes += [*words.notes(entry), words.beside_rate(entry)]
    notes.append(Note(words.timeout_of(entry), "text"))
    if worker.n_envs is not None:
        notes.append(Note(units.count(worker.n_envs, "env"), "text"))
    notes.append(Note(" ".join(worker.args), "dim"))
    return add_notes(line, [note for note in notes if note.text])


def add_notes(line: Row, notes: Sequence[Note]) -> Row:
    """The notes in one row, with dots between them."""
    for number, note in enumerate(notes):
        line.add(f" {SIGNS.dot} " if number else "  ", "dim").add(note.text, note.style)
    return line
