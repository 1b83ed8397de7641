"""A node of a session on several machines in one line: its cards, what runs there, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import GpuSample, NodeView, Slot, Worker, total_fps
from gmg_tui.ui.arrangement import in_trouble, severity
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.headline import states
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.drawing.worker_table import Columns
from gmg_tui.ui.folds import Band
from gmg_tui.ui.view import View

_FOLDED, _UNFOLDED = "+", "-"
_POWER = "W"


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


def summary(state: View, node: str) -> Summary:
    """All that the line of a node says."""
    names = state.folds.slots[node]
    slots = [slot for name in names if (slot := state.slot(name)) is not None]
    found = [(worker, state.sample(name)) for name in names if (worker := state.worker_on(name)) is not None]
    workers = tuple(worker for worker, _ in found)
    samples = {sample.uuid: sample for _, sample in found if sample is not None}
    powers = [sample.power_w for sample in samples.values() if sample.power_w is not None]
    worst = min(found, key=lambda one: severity(*one), default=None)
    return Summary(
        _cards(slots, len(state.of_node(node)) if state.arrangement.filter else len(slots)),
        workers,
        worst[0] if worst is not None else None,
        sum(worker.current_fps is not None or worker.state_word == "running" for worker in workers),
        total_fps(tuple(worker for worker in workers if worker.lost_since is None)),
        sum(powers) if powers else None,
        tuple(_notes(node_view(state, node), worst)),
    )


def node_view(state: View, node: str) -> NodeView | None:
    """What the snapshot says of a node."""
    return next((view for view in state.snapshot.nodes if view.name == node), None)


def node_note(view: NodeView | None) -> Note | None:
    """What is wrong with a node, in one line; None where nothing is."""
    if view is None:
        return None
    said = f": {view.trouble}" if view.trouble else ""
    if view.lost_since is not None:
        return Note(f"{words.lost_text(view.lost_since)}{said}", "error")
    if view.silent_s is not None or not view.connected:
        silent = f"silent for {units.span(view.silent_s)}" if view.silent_s is not None else "not connected"
        return Note(f"{silent}{said}", "warn")
    return Note(view.trouble, "warn") if view.trouble else None


def _notes(view: NodeView | None, worst: tuple[Worker, GpuSample | None] | None) -> list[Note]:
    own = node_note(view)
    found = [own] if own is not None else []
    if worst is not None and in_trouble(*worst) and worst[0].lost_since is None:
        trouble = words.trouble(*worst)
        found += [Note(f"{_short(worst[0].slot)}: {trouble[0].text}", trouble[0].style)] if trouble else []
    return found


def _short(slot: str) -> str:
    return slot.rpartition("/")[2]


def _cards(slots: Sequence[Slot], shown: int) -> str:
    gpus = len({slot.gpu.uuid for slot in slots if slot.gpu is not None})
    text = units.count(gpus, "GPU") if gpus == len(slots) else units.count(len(slots), "slot")
    return f"{shown} of {text}" if shown < len(slots) else text


def _head(state: View, band: Band, appearance: Appearance, width: int) -> Row:
    """Cursor, mark, and the node's name with the sign that says whether it is folded."""
    chosen = state.chosen in band.slots
    marked = state.marked.intersection(state.folds.slots[band.node]) if band.folded else ()
    row = Row(appearance, width).add(appearance.signs.pointer if chosen else " ", "selected")
    row.add(appearance.signs.mark if marked else " ", "warn")
    return row.add(f"{_FOLDED if band.folded else _UNFOLDED} {band.node}", "strong" if chosen else "title")


def _worst(row: Row, found: Summary, appearance: Appearance, limit: int | None = None) -> None:
    worker = found.worst
    if worker is not None:
        stuck = worker.stuck and worker.lost_since is None
        text = f"{words.sign_of(worker, appearance)} {'STUCK' if stuck else worker.state_word}"
        row.add(text, words.style_of(worker), limit=limit)


def row(state: View, band: Band, layout: Columns, appearance: Appearance) -> Row:
    """The node as a row of the table, with its figures in the columns of the workers'."""
    found, line = summary(state, band.node), _head(state, band, appearance, layout.width)
    beside = layout.state - 1 - (layout.width - line.room)
    if beside > len(found.cards):
        line.add(f" {found.cards}", "dim")
    line.to(layout.state)
    _worst(line, found, appearance, layout.message - layout.state - len(_of_all(found)) - 2)
    line.right(_of_all(found), layout.message - 1, "text").to(layout.message)
    if found.fps is not None:
        line.right(units.fps(found.fps), layout.history_at - layout.envs - 1, "fps").to(layout.history_at)
    edge = layout.metrics_at - 1
    for number, note in enumerate(found.notes):
        line.add(f"{'  ' if number else ''}{note.text}", note.style, limit=edge - (line.width - line.room))
    cards = f"{'  ' if found.notes else ''}{found.cards}"
    if beside <= len(found.cards) and len(cards) <= edge - (line.width - line.room):
        line.add(cards, "dim")
    at = layout.metrics_at
    for name, width in layout.metrics:
        at += width
        if name == _POWER:
            value = units.whole(found.power_w) if found.power_w is not None else units.NOT_KNOWN
            line.right(value, at, "text" if found.power_w is not None else "dim")
    return line


def _of_all(found: Summary) -> str:
    return f"{found.running}/{len(found.workers)}"


def line(state: View, band: Band, width: int, appearance: Appearance, *, place: str = "") -> Row:
    """The node as a line among tiles; `place` at its right end."""
    found, dot = summary(state, band.node), f" {appearance.signs.dot} "
    row = _head(state, band, appearance, width).end(f"{place} " if place else "", "strong")
    power = f"{dot}{found.power_w:,.0f} W " if found.power_w is not None else " "
    row.end(power, "text").end(f"  {appearance.signs.sigma} {units.fps(found.fps)} FPS", "fps")
    row.add(f"{dot}{found.cards}", "dim")
    for text, style in states(found.workers, appearance, "words" if row.room > 60 else "mixed"):
        row.add(text, style)
    for note in found.notes:
        row.add(dot, "dim").add(note.text, note.style)
    return row


def detail(state: View, node: str, width: int, appearance: Appearance, *, place: str = "") -> Row:
    """The row below the table while the line of a folded node is selected; `place` at its right end."""
    found, dot = summary(state, node), f" {appearance.signs.dot} "
    row = Row(appearance, width).end(place, "strong").add("  ").add(node, "strong").add(f"  {found.cards}", "text")
    for text, style in states(found.workers, appearance, "words"):
        row.add(text, style)
    for note in found.notes:
        row.add(dot, "dim").add(note.text, note.style)
    return row
