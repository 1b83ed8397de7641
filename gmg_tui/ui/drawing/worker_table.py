"""The workers as a table of one row each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len

from gmg_tui import units
from gmg_tui.model import Rank, Worker, WorkerState
from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import graphs, groups, words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Note, Shown
from gmg_tui.ui.history import buckets

_STATE = 13
"""Columns of sign and state: `● restarting `."""
_TIME = 8
_FPS = 12
_METRICS_GPU = (("GPU %", 6), ("VRAM GiB", 12), ("W", 5), ("°C", 4))
_METRICS_SMS = (("GPU/SM %", 9), *_METRICS_GPU[1:])
_METRICS_CPU = (("CPU %", 7), ("RAM GiB", 9))
_ORDERS = {
    "GPU %": Order.UTILISATION,
    "GPU/SM %": Order.UTILISATION,
    "CPU %": Order.UTILISATION,
    "VRAM GiB": Order.MEMORY,
    "RAM GiB": Order.MEMORY,
    "W": Order.POWER,
    "°C": Order.TEMPERATURE,
}
_HISTORY_MAX = 30
_JOB, _JOB_MAX = 9, 24
"""Columns of a job's number and name in a narrow table, and at most."""
_JOB_GROWS_FROM = 72
"""Columns of a table from which one in four goes to the job's name."""
_ENVS = 10
_ENVS_FROM = 120
"""Columns of a table from which it has one for the number of environments."""
_WIDE_RANKS_FROM = 100
"""Columns of a table from which a rank's name has spaces."""
_WITHOUT_FPS = frozenset({WorkerState.STOPPING, WorkerState.RESTARTING})
"""States in which the last FPS matter less than what is happening."""
_COUNTED = "in rank 0"
"""In the place of the FPS of a rank for which rank 0 reports."""
_NOTE_MIN = 12
"""Cells below which a note is useless."""
_URGENT = frozenset({"warn", "error"})
"""Styles of notes that take the place of the graph where there is no room for both."""


class Columns(NamedTuple):
    """Widths of a table's columns, for one total width and one set of slots."""

    width: int
    slot: int
    """Columns of the slot's name."""
    history: int
    """Columns of the FPS graph."""
    metrics: tuple[tuple[str, int], ...]
    """Headings and widths of the metrics at the right."""
    envs: int = 0
    """Columns of the number of environments; 0 where there is no room."""
    job: int = 0
    """Columns of the job's number and name; 0 in a plain run."""
    rank: int = 0
    """Columns of the rank with its group's name; 0 where there are no groups, or a single one has all slots."""

    @property
    def job_at(self) -> int:
        """The column where the job starts."""
        return 2 + self.slot + self.rank

    @property
    def state(self) -> int:
        """The column where the state starts."""
        return self.job_at + self.job

    @property
    def message(self) -> int:
        """The column where FPS, or a note instead, start."""
        return self.state + _STATE + _TIME

    @property
    def history_at(self) -> int:
        """The column where the FPS graph starts."""
        return self.message + _FPS + self.envs

    @property
    def metrics_at(self) -> int:
        """The column where the metrics at the right start."""
        return self.width - sum(width for _, width in self.metrics) - 1


def rank_width(workers: Iterable[Worker], width: int) -> int:
    """The columns that the names of the ranks among `workers` take in a table `width` cells wide."""
    ranks = (worker.group for worker in workers if worker.group is not None)
    return max((cell_len(_rank_name(rank, width)) for rank in ranks), default=0) + 1


def _rank_name(rank: Rank, width: int) -> str:
    return groups.rank_name(rank, short=width < _WIDE_RANKS_FROM)


def columns(
    slots: tuple[str, ...], width: int, *, on_gpus: bool, jobs: bool = False, rank: int = 0, sms: bool = False
) -> Columns:
    """The columns of a table `width` cells wide of those slots, and for the names of `jobs` where a queue has any.

    `rank` is the `rank_width`; 0 for a table that does not have the ranks. `sms` tells that of some GPU the share of SMs
    that were busy is known.

    The metrics that do not fit are left out, the last ones first.
    """
    metrics = (_METRICS_SMS if sms else _METRICS_GPU) if on_gpus else _METRICS_CPU
    name = max([4, *(len(slot) for slot in slots)]) + 1
    job = min(_JOB_MAX, _JOB + max(0, width - _JOB_GROWS_FROM) // 4) if jobs else 0
    layout = Columns(width, name, 0, metrics, _ENVS if width >= _ENVS_FROM else 0, job, rank)
    while layout.metrics and layout.metrics_at < layout.history_at:
        layout = layout._replace(metrics=layout.metrics[:-1])
    free = layout.metrics_at - layout.history_at - 1
    history = max(0, free if free <= 10 else min(_HISTORY_MAX, 8 + (free - 8) // 3))
    return layout._replace(history=history)


def heading(layout: Columns, appearance: Appearance, order: Order = Order.SLOT, sign: str = "") -> Row:
    """The row above the table, with `sign` before the name of the column that it is sorted by."""

    def sorted_by(column: Order) -> str:
        return sign if column is order else ""

    line = Row(appearance, layout.width)
    line.add(f" {sorted_by(Order.SLOT) or ' '}slot")
    if layout.rank:
        line.to(1 + layout.slot).add(f"{sorted_by(Order.GROUP) or ' '}rank")
    if layout.job:
        line.to(layout.job_at).add("job")
    line.to(layout.state - 1).add(f"{sorted_by(Order.STATE) or ' '}state").right("for", layout.message - 1)
    line.right(f"{sorted_by(Order.FPS)}FPS", layout.message + _FPS - 1)
    if layout.envs:
        line.right(f"{sorted_by(Order.ENVS)}envs", layout.history_at - 1)
    line.to(layout.history_at)
    if layout.history > 6:
        line.add("history")
    at = layout.metrics_at
    for name, width in layout.metrics:
        at += width
        line.right(f"{sorted_by(_ORDERS[name])}{name}", at)
    return line


def order_at(layout: Columns, x: int) -> Order | None:
    """What a click on the heading sorts by: the column at a cell; None where it has no order."""
    ends: list[tuple[int, Order | None]] = [(1 + layout.slot, Order.SLOT)]
    if layout.rank:
        ends.append((1 + layout.slot + layout.rank, Order.GROUP))
    ends += [(layout.state - 1, None), (layout.state + _STATE - 1, Order.STATE), (layout.message, None)]
    ends.append((layout.message + _FPS, Order.FPS))
    if layout.envs:
        ends.append((layout.history_at, Order.ENVS))
    at = layout.metrics_at
    ends.append((at, None))
    for name, width in layout.metrics:
        at += width
        ends.append((at, _ORDERS[name]))
    return next((order for end, order in ends if x < end), None)


def row(shown: Shown, layout: Columns, appearance: Appearance) -> Row:
    """One worker, in `layout.width` cells."""
    worker = shown.worker
    line = Row(appearance, layout.width)
    pointer = appearance.signs.pointer if shown.chosen else " "
    held = "" if shown.marked else groups.bracket(shown, appearance)
    line.add(pointer if shown.marked or held else f"{pointer} ", "selected")
    line.add(appearance.signs.mark if shown.marked else held, "warn" if shown.marked else "title")
    line.add(shown.slot.name, "strong" if shown.chosen else "text")
    line.to(2 + layout.slot)
    if layout.rank and worker.group is not None:
        line.add(_rank_name(worker.group, layout.width), "text", limit=layout.rank - 1)
    line.to(layout.job_at)
    if layout.job:
        line.add(words.job_of(worker), "text", limit=layout.job - 1).to(layout.state)
    line.add(f"{words.sign_of(worker, appearance)} ", words.style_of(worker))
    stuck = worker.stuck and worker.lost_since is None
    line.add("STUCK" if stuck else worker.state_word, words.style_of(worker), limit=_STATE - 3)
    line.right(_time(shown), layout.message - 1, "dim").to(layout.message)
    _message(line, shown, layout, appearance)
    _metrics(line, shown, layout)
    return line


def _time(shown: Shown) -> str:
    worker, lost_s = shown.worker, words.lost_s(shown)
    if lost_s is not None:
        return units.span(lost_s)
    if worker.state is WorkerState.RESTARTING and worker.restart_at is not None:
        return f"in {units.span(max(0.0, -words.since_s(worker.restart_at)))}"
    return units.span(words.phase_s(worker) if words.getting_ready(worker) else words.since_s(worker.state_since))


def _message(line: Row, shown: Shown, layout: Columns, appearance: Appearance) -> None:
    """FPS, environments, history and a note; without FPS the note takes all the room."""
    worker = shown.worker
    edge = layout.metrics_at - 1
    note = _note(shown, appearance)
    if worker.fps is not None and not words.getting_ready(worker) and worker.state not in _WITHOUT_FPS:
        running = worker.state is WorkerState.RUNNING
        line.right(words.rate_of(worker), layout.message + _FPS - 1, words.rate_style(worker))
        if layout.envs and worker.n_envs is not None:
            line.right(f"{worker.n_envs:,}", layout.history_at - 1, "dim")
        line.to(layout.history_at)
        after = edge - layout.history_at - layout.history - 1
        # GPUs under full load are at their power cap for hours; that is no reason to hide the history. Trouble is.
        slowed = note in (words.throttled(shown.sample), words.degraded(shown.sample))
        urgent = note.style in _URGENT and not slowed
        fits = after >= (cell_len(note.text) if urgent else _NOTE_MIN)
        if fits or slowed or (running and not urgent):
            change = "" if fits or slowed else words.change(worker)
            if len(change) >= layout.history:
                change = ""
            width = layout.history - len(change) - bool(change)
            values = buckets(shown.history.fps, shown.history.end, width, graphs.SPAN_S)
            graph = graphs.history(values, graphs.highest(values), width, appearance.signs)
            line.add(graph, "fps-graph").add(f" {change}", "strong")
            if not fits:
                return
    elif worker.fps_in_rank_0 and worker.state is WorkerState.RUNNING and note.style not in _URGENT:
        line.right(_COUNTED, layout.message + _FPS - 1, "dim").to(layout.history_at)
    limit = edge - (line.width - line.room)
    text = note.text
    if len(text) > limit and worker.fps_silent_since is not None and note == words.beside_rate(worker):
        text = f"{units.span(words.since_s(worker.fps_silent_since))} ago"
    if len(text) > limit and note == words.slow(worker):
        text = text.replace(" of the", "")
    line.add(text, note.style, limit=limit)


def _note(shown: Shown, appearance: Appearance) -> Note:
    """The most important thing to say."""
    worker = shown.worker
    notes, slowed = words.notes(worker, shown.sample, appearance), words.throttled(shown.sample)
    preparing = words.getting_ready(worker) and not words.held(worker)
    if preparing and not (notes and notes[0].style in _URGENT and notes[0] != words.late(shown.sample)):
        expected = words.usual(worker)
        time = f", {expected[1]}" if expected else ""
        return Note(f"{words.spinner(shown, appearance)} {words.phase_of(worker)}{time}", "title")
    below = words.slow(worker)
    mild = [*([below] if below is not None else []), *words.before_after(worker, appearance)]
    if notes and notes[0] == words.late(shown.sample):
        age = units.span(shown.sample.age_s if shown.sample is not None else None)
        return Note(f"GPU {age} old", notes[0].style)  # short enough for the narrowest table
    worn = words.degraded(shown.sample)
    if notes and notes[0] not in (*mild, slowed, worn):
        return notes[0]
    beside = words.beside_rate(worker)
    if worker.fps_silent_since is not None:
        return beside
    progress = words.progress_of(worker)
    if progress is not None and worker.progress and worker.progress.total:
        mild.append(Note(f"{progress[0] * 100:.0f} %{progress[1]}", "title"))
    mild += [note for note in (worn, slowed) if note is not None]
    return Note("  ".join(note.text for note in mild), mild[0].style) if mild else beside


def detail(shown: Shown, width: int, appearance: Appearance, *, place: str = "") -> Row:
    """The row below the table: all about the selected worker, whose own row may be cut; `place` at its right end."""
    worker = shown.worker
    line = Row(appearance, width).end(place, "strong").add("  ").add(shown.slot.name, "strong")
    notes = words.notes(worker, shown.sample, appearance)
    if worker.group is not None:
        line.add(f" {groups.rank_name(worker.group)}", "title")
    if worker.job is not None:
        notes.insert(0, Note(words.job_of(worker), "title"))
        left = words.timeout_of(worker)
        notes += [Note(left, "text")] if left else []
    beside = words.beside_rate(worker)
    notes += [beside] if beside.text else []
    if worker.n_envs is not None:
        notes.append(Note(units.count(worker.n_envs, "env"), "text"))
    if worker.args:
        notes.append(Note(" ".join(worker.args), "dim"))
    for number, note in enumerate(notes):
        line.add(f" {appearance.signs.dot} " if number else "  ", "dim").add(note.text, note.style)
    return line


def _metrics(line: Row, shown: Shown, layout: Columns) -> None:
    sample, worker = shown.sample, shown.worker
    if shown.slot.gpu is None:
        values = [units.whole(worker.cpu_pct), units.gib(worker.memory_rss_mib)]
    elif sample is None:
        values = [units.NOT_KNOWN] * 4
    else:
        used, total = units.gib(sample.memory_used_mib), units.gib(sample.memory_total_mib)
        memory = units.NOT_SUPPORTED if sample.memory_used_mib is None else f"{used}/{total}"
        power, temperature = units.whole(sample.power_w), units.whole(sample.temperature_c)
        util = units.whole(sample.gpu_util_pct)
        if layout.metrics[:1] == _METRICS_SMS[:1] and sample.sm_pct is not None:
            util += f"/{sample.sm_pct:.0f}"
        values = [util, memory, power, temperature]
    at = layout.metrics_at
    for (_, width), value in zip(layout.metrics, values, strict=False):
        at += width
        line.right(value, at, "dim" if value in {units.NOT_SUPPORTED, units.NOT_KNOWN} else "text")
