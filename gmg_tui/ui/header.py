"""The rows above the workers: session and totals, queue, notices, filter and order."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len

from gmg_tui.machine import slurm as allocation
from gmg_tui.model import Queue, Tuning, Worker, WorkerState, fps_per_watt, total_fps, units
from gmg_tui.model.alert import urgent
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import Piece, Row, bar
from gmg_tui.ui.slots import ORDERS, SLOT_ORDER
from gmg_tui.ui.view import View

_MAX_NOTICE_ROWS: Final = 4
_MIN_WIDTH_FOR_ALLOCATION: Final = 100
"""Minimum columns to show a Slurm job's remaining time even if it is not short."""
_MAX_NAMED_NODES: Final = 2
"""Maximum lost or silent nodes to name; more are counted."""
_MORE_STATES: Final = "  …"
"""Shown in place of states that do not fit."""
_NAME_CELLS: Final = 32
"""Maximum cells reserved for the session's name before states and FPS per watt."""


def header_rows(view: View, width: int, height: int) -> list[Row]:
    """Returns the headline, then rows for the queue, notices, and the filter or order."""
    rows = [headline(view, width)]
    if view.queue is not None:
        rows.append(Row(width).add(" "))
        for text, style in queue_progress(view.queue, view.snapshot.elapsed_s, width, view.snapshot.tuning):
            rows[-1].add(text, style)
    rows += (Row(width).add(f" ▸ {text}", style) for text, style in notices(view))
    if view.is_arranged:
        rows.append(arrangement_row(view, width))
    return rows


def headline(view: View, width: int) -> Row:
    """Returns the session's name and script on the left; total FPS, FPS per watt, states and time on the right."""
    snapshot, spec = view.snapshot, view.session.spec
    efficiency = fps_per_watt(view.session, snapshot)
    total = f"Σ {units.fps(total_fps(snapshot.counted))} FPS"
    watts = f"  {units.short(efficiency)} FPS/W" if efficiency is not None else ""
    simulated, name = " simulated" if spec.simulate is not None else "", f" {spec.name}"
    line, end = Row(width), _end_pieces(view, width)
    fixed = min(_NAME_CELLS, cell_len(simulated + name)) + 1 + cell_len(total)
    room = width - fixed - sum(len(text) for text, _ in end)
    for text, style in reversed(end):
        line.end(text, style)
    counts = state_counts(snapshot.counted)[::-1]  # the most urgent first
    ends = list(accumulate(len(text) for text, _ in counts))
    if ends and ends[-1] > room:
        counts = [count for count, end in zip(counts, ends, strict=True) if end + len(_MORE_STATES) <= room]
        counts.append((_MORE_STATES, "dim"))
    for text, style in counts:
        line.end(text, style)
        room -= len(text)
    line.end(watts if len(watts) <= room else "")
    line.end(total, "fps")
    line.add(simulated, "warn", limit=line.room - 1)
    line.add(name, "title", limit=line.room - 1)
    name, *args = _command(view)
    if cell_len(name) + 4 <= line.room:
        line.add(f"  {' '.join((name, *args))}", "dim", limit=line.room - 2)
    return line


def _end_pieces(view: View, width: int) -> list[Piece]:
    """Returns the texts at the right end: node and engine problems, restrictions, marks, and times."""
    snapshot = view.snapshot
    lost = [node.name for node in snapshot.nodes if node.lost_since is not None]
    silent = [node.name for node in snapshot.nodes if node.lost_since is None and node.silent_s is not None]
    pieces = [
        (f"  {', '.join(names) if len(names) <= _MAX_NAMED_NODES else units.count(len(names), 'node')} {state}", style)
        for names, state, style in ((lost, "lost", "error"), (silent, "silent", "warn"))
        if names
    ]
    if view.silent_s:
        return [*pieces, (f"  engine silent for {units.span(view.silent_s)} ", "error")]
    if view.already_ended or view.readonly:
        pieces.append(("  ended" if view.already_ended else "  read-only", "warn"))
    if view.marked:
        pieces.append((f"  ◆ {len(view.marked)} marked", "warn"))
    left = allocation.remaining_time(snapshot.allocation, snapshot.time)
    if left is not None and (left.short or width >= _MIN_WIDTH_FOR_ALLOCATION):
        pieces.append((f"  {left.text}", "warn" if left.short else "dim"))
    return [*pieces, (f"  {units.clock(snapshot.elapsed_s)} ", "strong")]


def _command(view: View) -> tuple[str, ...]:
    """Returns the script's name and arguments: the workers' if all are equal, else the session's."""
    spec = view.session.spec
    script = PurePath(spec.script).name
    if spec.tune is not None:
        return (f"tune {script}", *spec.args)
    if spec.sweep is not None:  # its jobs differ in their arguments
        return (f"sweep {PurePath(spec.sweep.file).name if spec.sweep.file else script}",)
    args = {worker.newest.args for worker in view.snapshot.workers}
    return (script, *(args.pop() if len(args) == 1 else spec.args))


def state_counts(workers: Sequence[Worker]) -> list[Piece]:
    """Returns the number of workers in each state, most urgent last."""
    lost = sum(worker.lost_since is not None for worker in workers)
    connected = [worker for worker in workers if worker.lost_since is None]
    counts = Counter((worker.state, worker.state_word) for worker in connected if not worker.stuck)
    counted = [
        (counts[state, word], word, worker_text.STATE_STYLES[state])
        for state, word in sorted(counts, key=lambda count: (list(WorkerState).index(count[0]), count[1]))
    ]
    alerting = sum(bool(urgent(worker.alerts)) and not worker.stuck for worker in connected)
    counted.append((alerting, "alert" if alerting == 1 else "alerts", "warn"))
    counted.append((sum(worker.stuck for worker in connected), "stuck", "error"))
    counted.append((lost, "lost", "error"))
    return [(f"  {number} {word}", style) for number, word, style in counted if number]


def notices(view: View) -> list[Piece]:
    """Returns notices about the whole session, most urgent first."""
    snapshot = view.snapshot
    notes = [(view.loss, "error")] if view.loss else []
    if view.stopping:
        notes.append((_stopping_text(view), "warn"))
    elif snapshot.ended and snapshot.queue is None:  # the queue has its own row
        ended = units.tally(worker.state.value for worker in snapshot.workers)
        notes.append((f"All workers have ended: {ended}. Logs: {view.session.spec.folder}", "strong"))
    if snapshot.nvml_error:
        notes.append((f"No GPU metrics: {snapshot.nvml_error}", "warn"))
    notes.extend((alert.text, "warn") for alert in snapshot.alerts)
    if view.session.idle_text:
        notes.append((view.session.idle_text, "dim"))
    return notes[:_MAX_NOTICE_ROWS]


def _stopping_text(view: View) -> str:
    idle = WorkerState.WAITING if view.snapshot.queue is not None else None  # a slot without a job has nothing to stop
    live = [worker for worker in view.snapshot.workers if not worker.state.ended and worker.state is not idle]
    signal = next((f" ({worker.slot}: {worker.stopping})" for worker in live if worker.stopping), "")
    return f"Stopping: {units.count(len(live), 'worker')} left{signal}. Quit again to kill them."


def queue_progress(queue: Queue, elapsed_s: float, width: int, tuning: Tuning | None = None) -> list[Piece]:
    """Returns the progress of a sweep or tuning: a bar, then counts and times, most important first."""
    eta_s, noun, total = (queue.eta_s, "job", queue.jobs)
    if tuning is not None:
        eta_s, noun, total = tuning.eta_s, "trial", max(queue.jobs, tuning.total)
    about = "about " if total > queue.jobs else ""
    left = "" if queue.ended else units.time_left(eta_s, units.clock)
    pieces = [
        (f"{queue.done:,}/{about}{units.count(total, noun)}", "strong"),
        (f"{queue.failed:,} failed" if queue.failed else "", "error"),
        (f"ended after {units.clock(queue.before_s + elapsed_s)}" if queue.ended else left, "strong"),
        (f"{queue.running:,} active" if queue.running else "", "text"),
        (f"{queue.waiting:,} not run" if queue.ended and queue.waiting else "", "warn"),
        (f"{queue.stopped:,} stopped or skipped" if queue.stopped else "", "text"),
    ]
    full, rest = bar(queue.done / total if total else 1.0, max(8, min(32, width // 5)))
    shown = [(full, "ok" if queue.ended else "title"), (rest, "border")]
    for number, (text, style) in enumerate(piece for piece in pieces if piece[0]):
        shown += [(" · " if number else "  ", "dim"), (text, style)]
    return shown


def arrangement_row(view: View, width: int) -> Row:
    """Returns the filter with the number of workers shown and, on the right, the sort column."""
    line = Row(width)
    if view.order != SLOT_ORDER:
        line.end(f"sorted by {ORDERS[view.order].heading} ", "title")
    if view.filter:
        line.add(f" {len(view.slots)} of {len(view.present)} shown", "warn")
        also = " or marked" if view.marked else ""
        line.add(f" · {view.filter}", "strong", limit=line.room - len(also) - 1).add(also, "warn")
    return line
