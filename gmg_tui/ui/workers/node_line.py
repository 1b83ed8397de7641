"""A node of a session on several machines in one line: its cards, what runs there, and what is wrong."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import NodeView, Slot, Worker, total_fps
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import SIGNS
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.header import states
from gmg_tui.ui.sorting import in_trouble, severity
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.workers.table import Layout, add_notes


class Summary(NamedTuple):
    """What is known of a node's slots together."""

    cards: str
    """How many: `8 GPUs`, and with a filter how many of them are shown."""
    workers: tuple[Worker, ...]
    worst: Worker | None
    """The worker that it is most urgent to look at; None where none is on its slots."""
    running: int
    fps: float | None
    power_w: float | None
    notes: tuple[Note, ...]
    """What is wrong with the node itself, then with its worst worker."""


def summary(view: View, node: str) -> Summary:
    """All that the line of a node shows."""
    names = view.nodes[node]
    slots = [slot for name in names if (slot := view.slot(name)) is not None]
    entries = [view.of(name) for name in names if view.worker_on(name) is not None]
    workers = tuple(each.worker for each in entries)
    samples = {each.sample.uuid: each.sample for each in entries if each.sample is not None}
    powers = [sample.power_w for sample in samples.values() if sample.power_w is not None]
    worst = min(entries, key=severity, default=None)
    notes = [note] if (note := node_note(node_view(view, node))) is not None else []
    if worst is not None and in_trouble(worst) and worst.worker.lost_since is None:
        short = worst.slot.name.rpartition("/")[2]
        notes += [Note(f"{short}: {trouble.text}", trouble.style) for trouble in words.trouble(worst)[:1]]
    return Summary(
        _cards(slots, len(view.of_node(node)) if view.filter else len(slots)),
        workers,
        worst.worker if worst is not None else None,
        sum(worker.current_fps is not None or worker.state_word == "running" for worker in workers),
        total_fps(tuple(worker for worker in workers if worker.lost_since is None)),
        sum(powers) if powers else None,
        tuple(notes),
    )


def node_view(view: View, node: str) -> NodeView | None:
    """What the snapshot has of a node."""
    return next((each for each in view.snapshot.nodes if each.name == node), None)


def node_note(node: NodeView | None) -> Note | None:
    """What is wrong with a node, in one line; None where nothing is."""
    if node is None:
        return None
    why = f": {node.trouble}" if node.trouble else ""
    if node.lost_since is not None:
        return Note(f"{words.lost_text(node.lost_since)}{why}", "error")
    if node.silent_s is not None or not node.connected:
        silent = f"silent for {units.span(node.silent_s)}" if node.silent_s is not None else "not connected"
        return Note(f"{silent}{why}", "warn")
    return Note(node.trouble, "warn") if node.trouble else None


def _cards(slots: list[Slot], shown: int) -> str:
    gpus = len({slot.gpu.uuid for slot in slots if slot.gpu is not None})
    text = units.count(gpus, "GPU") if gpus == len(slots) else units.count(len(slots), "slot")
    return f"{shown} of {text}" if shown < len(slots) else text


def _head(view: View, band: Band, width: int) -> Row:
    """Cursor, mark, and the node's name with the sign that shows whether it is folded."""
    selected = view.selected in band.slots
    row = Row(width).add(SIGNS.pointer if selected else " ", "selected")
    row.add(SIGNS.mark if view.marked.intersection(band.slots) else " ", "warn")
    return row.add(f"{'+' if band.slots else '-'} {band.node}", "strong" if selected else "title")


def table_row(view: View, band: Band, table: Layout) -> Row:
    """The node as a row of the table, with its figures in the columns of the workers'."""
    total, row = summary(view, band.node), _head(view, band, table.width)
    state, edge = table.start("state"), table.right_at - 1
    beside = state - 1 - row.used > len(total.cards)
    row.add(f" {total.cards}" if beside else "", "dim").to(state)
    if total.worst is not None:
        worst = total.worst
        text = "STUCK" if worst.stuck and worst.lost_since is None else worst.state_word
        row.add(f"{words.sign_of(worst)} {text}", words.style_of(worst), limit=12)
    row.right(f"{total.running}/{len(total.workers)}", table.start("FPS") - 1)
    if total.fps is not None:
        row.right(units.fps(total.fps), table.start("FPS") + 11, "fps").to(table.history_at)
    row.to(table.start("FPS"))
    for number, note in enumerate(total.notes):
        row.add(f"{'  ' if number else ''}{note.text}", note.style, limit=edge - row.used)
    cards = f"{'  ' if total.notes else ''}{total.cards}"
    if not beside and len(cards) <= edge - row.used:
        row.add(cards, "dim")
    if any(column.heading == "W" for column in table.right):
        power = units.whole(total.power_w) if total.power_w is not None else units.NOT_KNOWN
        row.right(power, table.start("W") + 4, "text" if total.power_w is not None else "dim")
    return row


def tiles_line(view: View, band: Band, width: int, position: str) -> Row:
    """The node as a line among tiles; `position` at its right end."""
    total, dot = summary(view, band.node), f" {SIGNS.dot} "
    row = _head(view, band, width).end(f"{position} " if position else "", "strong")
    row.end(f"{dot}{total.power_w:,.0f} W " if total.power_w is not None else " ")
    row.end(f"  {SIGNS.sigma} {units.fps(total.fps)} FPS", "fps").add(f"{dot}{total.cards}", "dim")
    return _with_states(row, total, words_fit=row.room > 60)


def detail(view: View, node: str, width: int, position: str) -> Row:
    """The row below the table while the line of a folded node is selected; `position` at its right end."""
    total = summary(view, node)
    row = Row(width).end(position, "strong").add("  ").add(node, "strong").add(f"  {total.cards}")
    return _with_states(row, total, words_fit=True)


def _with_states(row: Row, total: Summary, *, words_fit: bool) -> Row:
    for text, style in states(total.workers, in_words=words_fit):
        row.add(text, style)
    return add_notes(row.add(f" {SIGNS.dot}" if total.notes else "", "dim"), list(total.notes))
