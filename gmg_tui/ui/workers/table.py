"""The workers as a table of one row each, and the line of a node of a session on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gmg_tui.model import WorkerState, total_fps, units
from gmg_tui.results.column import Column
from gmg_tui.results.live_columns import WORKERS, Live
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import SIGNS, Piece, Row, load_style
from gmg_tui.ui.header import states
from gmg_tui.ui.slots import ORDERS, SlotView, in_trouble, severity
from gmg_tui.ui.table import Place, places
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.worker_text import Note
from gmg_tui.ui.workers.rate_line import RateLine, line_rows

_CURSOR: Final = 2
"""Columns of the cursor and the mark."""
_GAP: Final = 1
"""Cells between columns."""
_HISTORY_MIN, _HISTORY_MAX = 10, 30
"""Least and most cells of a line of the rate."""
_ENVS_FROM: Final = 120
"""Columns a table needs to show the number of environments."""
_NOTE_MIN: Final = 12
"""Cells below which a note is useless."""
_WITHOUT_RATE: Final = frozenset({WorkerState.STOPPING, WorkerState.RESTARTING})
"""States that matter more than the last rate."""


_FOR: Final = Column[SlotView]("for", lambda entry: _time(entry), left=False)
_HISTORY: Final = Column[SlotView]("history", lambda entry: "", left=True)
_GPU: Final = ("gpu_util_pct", "memory", "power_w", "temperature_c")
_CPU: Final = ("cpu_pct", "memory_rss_mib")
_WIDTHS: Final = {
    "state": 13,
    "for": 8,
    "fps": 12,
    "n_envs": 10,
    "gpu_util_pct": 6,
    "memory": 12,
    "power_w": 5,
    "temperature_c": 4,
    "cpu_pct": 7,
    "memory_rss_mib": 9,
}
"""Cells of a column, with one that stays empty beside the text."""


def columns(view: View, width: int) -> list[Place]:
    """The columns of a table `width` cells wide. Metrics that do not fit are left out, the last ones first."""
    ranks = [worker_text.rank_name(each.group) for each in view.snapshot.workers if each.group is not None]
    widths = {
        **_WIDTHS,
        "slot": max([4, *map(len, view.slots)]) + 1,
        "rank": max([4, *map(len, ranks)]) + 1,
        "job": max(9, min(24, width // 7)),
    }
    left = ["slot", *(["rank"] if view.snapshot.groups else []), *(["job"] if view.queue is not None else [])]
    left += ["state", "for", "fps", *(["n_envs"] if width >= _ENVS_FROM else [])]
    right = list(_GPU if any(slot.gpu is not None for slot in view.session.slots) else _CPU)
    free = width - _CURSOR - sum(map(widths.__getitem__, left))
    while right and sum(map(widths.__getitem__, right)) > free:
        right.pop()
    widths["history"] = free - sum(map(widths.__getitem__, right))
    if "job" in left and widths["history"] < _HISTORY_MIN:  # too narrow for a line
        widths["job"] += widths["history"]
        widths["history"] = 0
    names = (*left, "history", *right)
    shown = [{"for": _FOR, "history": _HISTORY}.get(name) or WORKERS[name] for name in names]
    return places(shown, [widths[name] - _GAP for name in names], _CURSOR, _GAP)


def _cell(entry: SlotView, column: Column[SlotView] | Column[Live]) -> Piece:
    """The text of a column, and its style."""
    worker, text = entry.worker, column.text(entry)
    match column.name:
        case "slot":
            return text, "strong" if entry.chosen else "text"
        case "rank" | "job" | "n_envs" if text == units.NOT_KNOWN:
            return "", "dim"
        case "n_envs" | "for":
            return text, "dim"
        case "state":
            stuck = worker.stuck and worker.lost_since is None
            return f"{worker_text.sign_of(entry)} {'STUCK' if stuck else text}", worker_text.style_of(entry)
        case "fps" if worker.fps is not None:
            return text, worker_text.rate_style(worker)
        case "fps" if worker.fps_in_rank_0 and worker.state is WorkerState.RUNNING:
            return "in rank 0", "dim"
        case name if name in _GPU and entry.sample is not None:
            style = load_style(entry.sample, name)
            return (
                (units.NOT_SUPPORTED, "dim") if text == units.NOT_KNOWN else (text, "text" if style == "ok" else style)
            )
    return text, "dim" if text == units.NOT_KNOWN else "text"


def _time(entry: SlotView) -> str:
    worker, lost_s = entry.worker, worker_text.lost_s(entry)
    if lost_s is not None:
        return units.span(lost_s)
    if worker.state is WorkerState.RESTARTING and worker.restart_at is not None:
        return f"in {units.span(max(0.0, -entry.since_s(worker.restart_at)))}"
    ready = worker_text.getting_ready(worker)
    return units.span(worker_text.phase_s(entry) if ready else worker_text.state_s(entry))


def heading(placed: Sequence[Place], width: int) -> Row:
    """The row above the table; a click on a heading sorts."""
    line = Row(width)
    for place in placed:
        text, name = place.column.heading, place.column.name
        click = ("screen.sort_by", name) if name in ORDERS else None
        place.put(line, text if place.width >= len(text) else "", "dim", click)
    return line


def line_cells(placed: Sequence[Place]) -> int:
    """Returns the cells of a line of the rate; 0 if there is no room for one."""
    room = next(place.width for place in placed if place.column.name == "history")
    return min(room, _HISTORY_MAX, max(_HISTORY_MIN, room // 3)) if room >= _HISTORY_MIN // 2 else 0


def row(entry: SlotView, placed: Sequence[Place], width: int, rates: RateLine) -> Row:
    """Returns the row of a worker. Without a rate or with an error, notes replace the rate and its line."""
    notes, line = worker_text.remarks(entry, advice=False), Row(width)
    if worker_text.getting_ready(entry.worker) and not in_trouble(entry):
        notes.insert(0, Note(worker_text.phase_of(entry.worker), "title"))
    line.add(SIGNS.pointer if entry.chosen else " ", "selected").add(SIGNS.mark if entry.marked else " ", "warn")
    covered = _cover_rate(entry, notes)
    for place in placed:
        name, room = place.column.name, place.width
        if covered and name in {"fps", "n_envs"}:
            continue  # the notes begin here
        if covered and name == "history":
            _add_notes(line.add(" "), notes, place.start + room - line.used)
        elif name == "history":
            _add_history(line.to(place.start), rates, notes, room)
        else:
            place.put(line, *_cell(entry, place.column))
    return line


def _cover_rate(entry: SlotView, notes: Sequence[Note]) -> bool:
    """True if notes replace the rate: it is not current, or there is an error."""
    worker = entry.worker
    current = worker.fps is not None and not worker_text.getting_ready(worker) and worker.state not in _WITHOUT_RATE
    return bool(notes) and (not current or notes[0].style == "error")


def _add_history(line: Row, rates: RateLine, notes: Sequence[Note], width: int) -> None:
    """Adds the line of the rate, and notes if there is room for both."""
    if not rates.cells:
        return
    line.append(line_rows(rates, 1)[0]).add(" ")
    if width - rates.cells > _NOTE_MIN:
        _add_notes(line, notes, width - rates.cells - 1)


def _add_notes(line: Row, notes: Sequence[Note], width: int) -> None:
    """As much of the notes as `width` cells hold, with dots between them."""
    end = line.used + width
    for number, note in enumerate(notes):
        if number and end - line.used < _NOTE_MIN:
            return
        line.add(f" {SIGNS.dot} " if number else "", "dim")
        line.add(note.text, note.style, limit=end - line.used)


def detail(entry: SlotView, width: int, position: str) -> Row:
    """The row below the table: all about the selected worker, whose own row may be cut; `position` at its right end."""
    worker, notes = entry.worker, list[Note]()
    if worker.group is not None:
        notes.append(Note(worker_text.rank_name(worker.group), "title"))
    notes += [Note(worker_text.job_of(worker), "title"), *worker_text.remarks(entry)]
    if worker.newest.n_envs is not None:
        notes.append(Note(units.count(worker.newest.n_envs, "env"), "text"))
    notes.append(Note(" ".join(worker.newest.args), "dim"))
    line = Row(width).end(position, "strong").add(f"  {entry.slot.name}  ", "strong")
    _add_notes(line, [note for note in notes if note.text], line.room)
    return line


# Nodes


def node_line(view: View, band: Band, width: int, position: str = "") -> Row:
    """A node: its cards, what runs there, its rate and power, and what is wrong; `position` at its right end."""
    entries = [view.of(name) for name in view.nodes[band.node]]
    present = [each for each in entries if view.worker_on(each.slot.name) is not None]
    workers = [each.worker for each in present]
    samples = [each.sample for each in present if each.sample is not None]
    powers = {sample.uuid: sample.power_w for sample in samples if sample.power_w is not None}
    here = view.selected in band.slots
    row = Row(width).end(f"{position} " if position else "", "strong")
    row.end(f"{sum(powers.values()):9,.0f} W " if powers else " " * 12)
    fps = total_fps(tuple(each for each in workers if each.lost_since is None))
    row.end(f"  {SIGNS.sigma} {units.fps(fps):>11} FPS" if fps is not None else " " * 19, "fps")
    row.add(SIGNS.pointer if here else " ", "selected")
    row.add(SIGNS.mark if view.marked.intersection(band.slots) else " ", "warn")
    name = band.node.ljust(max(map(len, view.nodes)))
    row.add(f"{'+' if band.slots else '-'} {name} ", "strong" if here else "title")
    gpus = len({each.slot.gpu.uuid for each in entries if each.slot.gpu is not None})
    row.add(units.count(gpus, "GPU") if gpus == len(entries) else units.count(len(entries), "slot"), "dim")
    for text, style in states(workers):
        row.add(text, style)
    notes = [note] if (note := node_note(view, band.node)) is not None else []
    worst = min(present, key=severity, default=None)
    if worst is not None and in_trouble(worst) and worst.worker.lost_since is None:
        name = worst.slot.name.rpartition("/")[2]
        notes += [Note(f"{name}: {trouble.text}", trouble.style) for trouble in worker_text.notes(worst)[:1]]
    _add_notes(row.add("  " if notes else ""), notes, row.room)
    return row


def node_note(view: View, name: str) -> Note | None:
    """Returns the problem of a node; None without one."""
    node = next((each for each in view.snapshot.nodes if each.name == name), None)
    if node is None:
        return None
    why = f": {node.trouble}" if node.trouble else ""
    if node.lost_since is not None:
        return Note(f"{worker_text.lost_text(node.lost_since)}{why}", "error")
    if node.silent_s is not None or not node.connected:
        silent = f"silent for {units.span(node.silent_s)}" if node.silent_s is not None else "not connected"
        return Note(f"{silent}{why}", "warn")
    return Note(node.trouble, "warn") if node.trouble else None
