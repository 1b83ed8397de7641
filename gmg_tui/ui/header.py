"""The rows above the workers: session and totals, queue, notices, filter and order."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import Final

from rich.cells import cell_len

from gmg_tui.machine import slurm
from gmg_tui.model import Queue, Tuning, Worker, WorkerState, fps_per_watt, total_fps, units
from gmg_tui.model.alert import urgent
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import Piece, Row, bar
from gmg_tui.ui.slots import ORDERS, SLOT_ORDER
from gmg_tui.ui.view import View

_MAX_NOTICE_ROWS: Final = 4
_MIN_WIDTH_FOR_ALLOCATION: Final = 100
"""Minimum width to show a Slurm job's remaining time; a short time is always shown."""
_MAX_NAMED_NODES: Final = 2
"""Maximum number of lost or silent nodes to name; more are counted."""
_MORE_STATES: Final = "  …"
"""The text in place of states that do not fit."""
_MAX_RESERVED_NAME_CELLS: Final = 32
"""Maximum cells reserved for the session's name; states and FPS per watt get the rest."""


def header_rows(view: View, width: int, height: int) -> list[Row]:
    """Returns the headline, then rows for the queue, the notices, and the filter and order, as needed."""
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
    line, end_pieces = Row(width), _end_pieces(view, width)
    reserved = min(_MAX_RESERVED_NAME_CELLS, cell_len(simulated + name)) + 1 + cell_len(total)
    room = width - reserved - sum(len(text) for text, _ in end_pieces)
    for text, style in reversed(end_pieces):
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
    """Returns the pieces on the right: lost and silent nodes, a silent engine, `ended` or `read-only`, marks, times."""
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
    remaining = slurm.remaining_time(snapshot.allocation, snapshot.time)
    if remaining is not None and (remaining.short or width >= _MIN_WIDTH_FOR_ALLOCATION):
        pieces.append((f"  {remaining.text}", "warn" if remaining.short else "dim"))
    return [*pieces, (f"  {units.clock(snapshot.elapsed_s)} ", "strong")]


def _command(view: View) -> tuple[str, ...]:
    """Returns the script and its arguments (the workers' own, if all agree); for a sweep, only its file or script."""
    spec = view.session.spec
    script = PurePath(spec.script).name
    if spec.tune is not None:
        return (f"tune {script}", *spec.args)
    if spec.sweep is not None:  # the jobs differ in their arguments
        return (f"sweep {PurePath(spec.sweep.file).name if spec.sweep.file else script}",)
    args = {worker.newest.args for worker in view.snapshot.workers}
    return (script, *(args.pop() if len(args) == 1 else spec.args))


def state_counts(workers: Sequence[Worker]) -> list[Piece]:
    """Returns the number of workers in each state, then of those with alerts, stuck or lost, the most urgent last."""
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
    """Returns up to `_MAX_NOTICE_ROWS` notices about the whole session, most urgent first."""
    snapshot = view.snapshot
    pieces = [(view.loss, "error")] if view.loss else []
    if view.stopping:
        pieces.append((_stopping_text(view), "warn"))
    elif snapshot.ended and snapshot.queue is None:  # the queue has its own row
        states = units.tally(worker.state.value for worker in snapshot.workers)
        pieces.append((f"All workers have ended: {states}. Logs: {view.session.spec.folder}", "strong"))
    if snapshot.nvml_error:
        pieces.append((f"No GPU metrics: {snapshot.nvml_error}", "warn"))
    pieces.extend((alert.text, "warn") for alert in snapshot.alerts)
    if view.session.idle_text:
        pieces.append((view.session.idle_text, "dim"))
    return pieces[:_MAX_NOTICE_ROWS]


def _stopping_text(view: View) -> str:
    if view.snapshot.is_saving:
        return "Waiting until the results are written. Quit again to give them up."
    idle_state = WorkerState.WAITING if view.snapshot.queue is not None else None  # of a slot without a job
    live = [worker for worker in view.snapshot.workers if not worker.state.ended and worker.state is not idle_state]
    signal = next((f" ({worker.slot}: {worker.stopping})" for worker in live if worker.stopping), "")
    return f"Stopping: {units.count(len(live), 'worker')} left{signal}. Quit again to kill them."


def queue_progress(queue: Queue, elapsed_s: float, width: int, tuning: Tuning | None = None) -> list[Piece]:
    """Returns the progress of a sweep or tuning: a bar, then counts and times, most important first."""
    eta_s, noun, total = (queue.eta_s, "job", queue.jobs)
    if tuning is not None:
        eta_s, noun, total = tuning.eta_s, "trial", max(queue.jobs, tuning.total)
    qualifier = "about " if total > queue.jobs else ""
    remaining = "" if queue.ended else units.time_left(eta_s, units.clock)
    pieces = [
        (f"{queue.done:,}/{qualifier}{units.count(total, noun)}", "strong"),
        (f"{queue.failed:,} failed" if queue.failed else "", "error"),
        (f"ended after {units.clock(queue.before_s + elapsed_s)}" if queue.ended else remaining, "strong"),
        (f"{queue.running:,} active" if queue.running else "", "text"),
        (f"{queue.waiting:,} not run" if queue.ended and queue.waiting else "", "warn"),
        (f"{queue.stopped:,} stopped or skipped" if queue.stopped else "", "text"),
    ]
    full, empty = bar(queue.done / total if total else 1.0, max(8, min(32, width // 5)))
    progress = [(full, "ok" if queue.ended else "title"), (empty, "border")]
    for number, (text, style) in enumerate(piece for piece in pieces if piece[0]):
        progress += [(" · " if number else "  ", "dim"), (text, style)]
    return progress


def arrangement_row(view: View, width: int) -> Row:
    """Returns a row with the number of workers shown, the filter and, on the right, the sort column."""
    line = Row(width)
    if view.order != SLOT_ORDER:
        line.end(f"sorted by {ORDERS[view.order].heading} ", "title")
    if view.filter:
        line.add(f" {len(view.slots)} of {len(view.present)} shown", "warn")
        suffix = " or marked" if view.marked else ""
        line.add(f" · {view.filter}", "strong", limit=line.room - len(suffix) - 1).add(suffix, "warn")
    return line
