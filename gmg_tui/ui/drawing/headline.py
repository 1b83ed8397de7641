"""The first row: the session and its totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeAlias

from gmg_tui import placeholders, units
from gmg_tui.model import Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.slurm import allocation
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.view import View

_ORDER = (
    WorkerState.RUNNING,
    WorkerState.COMPILING,
    WorkerState.BUILDING,
    WorkerState.STARTING,
    WorkerState.WAITING,
    WorkerState.RESTARTING,
    WorkerState.STOPPING,
    WorkerState.FAILED,
    WorkerState.STOPPED,
    WorkerState.FINISHED,
)
_STYLES = {WorkerState.RUNNING: "ok", WorkerState.FINISHED: "ok", WorkerState.FAILED: "error"}
_FOR_ALLOCATION = 100
"""Columns from which there is room for the time that a Slurm job has left, before it is short."""
_MIXED = "mixed"
_NAMED = 2
"""How many nodes in trouble are named; of more the number is said."""
_LEFT_MIN = 14
"""Columns kept for the session's name before states are abbreviated to signs."""

Piece: TypeAlias = tuple[str, str]
"""A text and its style's name."""


def headline(state: View, width: int, appearance: Appearance) -> Row:
    """The session's name and what it runs at the left; total FPS, FPS per watt, workers by state and time right."""
    snapshot = state.snapshot
    fps = total_fps(snapshot.counted)
    efficiency = fps_per_watt(state.session, snapshot)
    metrics: list[Piece] = [(f"{appearance.signs.sigma} {units.fps(fps)} FPS", "fps")]
    watts: list[Piece] = [(f"  {units.short(efficiency)} FPS/W", "text")] if efficiency is not None else []
    end: list[Piece] = [*_allocation(snapshot, width), (f"  {units.clock(snapshot.elapsed_s)} ", "strong")]
    if state.marked:
        end.insert(0, (f"  {appearance.signs.mark} {len(state.marked)} marked", "warn"))
    if state.over:
        end.insert(0, ("  ended", "warn"))
    elif state.readonly:
        end.insert(0, ("  read-only", "warn"))
    if state.silent_s:
        end = [(f"  engine silent for {units.span(state.silent_s)} ", "error")]
    end = [*_lost_nodes(snapshot), *end]
    worded, mixed, signs = (states(snapshot.counted, appearance, form) for form in ("words", "mixed", "signs"))
    # Trouble is the last to be abbreviated to a sign.
    forms: tuple[tuple[int, list[Piece], list[Piece]], ...] = (
        (_LEFT_MIN, watts, worded),
        (_LEFT_MIN, watts, mixed),
        (_LEFT_MIN, [], mixed),
        (2, [], signs),
    )
    pieces = next(
        (
            found
            for least, power, states in forms
            if _length(found := [*metrics, *power, *states, *end]) <= width - least
        ),
        [*metrics, *signs, *end],
    )
    line = Row(appearance, width)
    for text, style in reversed(pieces):
        line.end(text, style)
    if state.session.spec.simulate is not None:
        line.add(" simulated", "warn", limit=line.room - 1)
    line.add(f" {state.session.spec.name}", "title", limit=line.room - 1)
    machines = f"  {_machines(state, appearance)}" if state.folds.slots else ""
    if len(machines) < line.room:
        line.add(machines, "text")
    return line.add(f"  {_command(state)}", "dim", limit=line.room - 2) if line.room > 8 else line


def _machines(state: View, appearance: Appearance) -> str:
    """How many nodes and cards the session has: `2 nodes · 16 GPUs`."""
    slots = state.session.slots
    gpus = len({slot.gpu.uuid for slot in slots if slot.gpu is not None})
    cards = units.count(gpus, "GPU") if gpus else units.count(len(slots), "slot")
    return f"{units.count(len(state.folds.slots), 'node')} {appearance.signs.dot} {cards}"


def _lost_nodes(snapshot: Snapshot) -> list[Piece]:
    """The nodes that are lost or silent, by name where they are few."""
    lost = [node.name for node in snapshot.nodes if node.lost_since is not None]
    silent = [node.name for node in snapshot.nodes if node.lost_since is None and node.silent_s is not None]
    return [
        (f"  {', '.join(names) if len(names) <= _NAMED else units.count(len(names), 'node')} {what}", style)
        for names, what, style in ((lost, "lost", "error"), (silent, "silent", "warn"))
        if names
    ]


def _allocation(snapshot: Snapshot, width: int) -> list[Piece]:
    """How long the Slurm job has left that the session runs in."""
    left = allocation.left(snapshot.allocation, snapshot.time)
    if left is None or (width < _FOR_ALLOCATION and not left.short):
        return []
    return [(f"  {left.text}", "warn" if left.short else "dim")]


def _command(state: View) -> str:
    """What runs: the script with the workers' arguments, `mixed` in the place of those that differ; or the sweep's file.

    An argument with a placeholder that is filled in for each worker stands as it was written.
    """
    spec = state.session.spec
    if spec.tune is not None:
        return f"tune {' '.join((spec.script, *spec.args))}"
    if spec.sweep is not None:  # there the arguments differ from job to job; the file names them all
        return f"sweep {PurePath(spec.sweep.file or spec.script).name}"
    workers = state.snapshot.workers
    if len({worker.args for worker in workers}) <= 1:
        return " ".join([spec.script, *(workers[0].args if workers else spec.args)])
    if len({len(worker.args) for worker in workers}) > 1:
        return f"{spec.script} {_MIXED} arguments"
    words = [spec.script]
    for at, texts in enumerate(zip(*(worker.args for worker in workers), strict=True)):
        written = spec.args[at] if at < len(spec.args) else ""
        if len(set(texts)) == 1:
            words.append(texts[0])
        elif all(
            text in (written, _filled(state, worker, written)) for text, worker in zip(texts, workers, strict=True)
        ):
            words.append(written)
        else:
            words.append(_MIXED)
    return " ".join(words)


def _filled(state: View, worker: Worker, text: str) -> str:
    """`text` with the placeholders of `worker` filled in."""
    slot = state.slot(worker.slot)
    if slot is None:
        return text
    gpu_index = slot.gpu.index if slot.gpu is not None else None
    count = len(state.session.slots)
    return placeholders.fill(text, placeholders.values_for(slot, worker.index, count, gpu_index))


def states(workers: Sequence[Worker], appearance: Appearance, form: str) -> list[Piece]:
    """How many workers are in each state: in `words`, in `signs`, or `mixed`, with words for trouble alone."""
    lost = sum(1 for worker in workers if worker.lost_since is not None)
    there = [worker for worker in workers if worker.lost_since is None]
    counts = Counter((worker.state, worker.state_word) for worker in there if not worker.stuck)
    stuck = sum(1 for worker in there if worker.stuck)
    found = [
        (number, word, appearance.signs.states[kind], _STYLES.get(kind, "text"))
        for (kind, word), number in sorted(
            counts.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][0].value != item[0][1], item[0][1])
        )
    ]
    found.append((stuck, "stuck", appearance.signs.stuck, "error"))
    found.append((lost, "lost", appearance.signs.warn, "error"))
    pieces: list[Piece] = []
    for number, word, sign, style in found:
        if number:
            short = form == "signs" or (form == "mixed" and style != "error")
            text = f"{sign}{number}" if short else f"{number} {word}"
            pieces.append((f"{' ' if short and pieces else '  '}{text}", style))
    return pieces


def _length(pieces: list[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)
