"""A worker as a framed tile, each figure in a fixed position."""

from __future__ import annotations

from textual.content import Content

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui import words
from gmg_tui.ui.drawing import SIGNS, SPAN_S, Row, bar, highest, history_rows, safe
from gmg_tui.ui.slots import SlotView, buckets
from gmg_tui.ui.words import Note

HEIGHT = 8
"""Rows of a tile, with its frame."""
MIN_WIDTH = 38
"""Columns below which a tile is of no use."""
_MIDDLE = 3
"""Rows between the rate and the processor: the graph, and the notes below it."""
_LABEL = 5
"""Columns of the labels left of the graphs."""
_RATE = 11
"""Columns of the rate: `192,104,233`."""
_TIME = 5
"""Columns of the time in a state: `39:12`, `74 s`."""


def tile(entry: SlotView, width: int, position: str = "") -> list[Row]:
    """The rows of a tile, each `width` cells; `position` is in its frame."""
    inner = width - 4
    failed = entry.worker.state is WorkerState.FAILED  # why, and with what, matters more than how it went
    notes = _note_rows(entry, inner, _MIDDLE if failed else _MIDDLE - 1)
    rows = [
        _rate_row(entry, Row(inner)),
        *_history_rows(entry, inner, _MIDDLE - len(notes)),
        *notes,
        _processor_row(entry, Row(inner)),
        _memory_row(entry, Row(inner)),
    ]
    corner, line = (SIGNS.chosen_corner, SIGNS.chosen_line) if entry.chosen else (SIGNS.corner, SIGNS.line)
    border = "selected" if entry.chosen else "border"
    foot = Row(width, line[0], border).add(corner[2] + line[0], border).end(line[0] + corner[3], border)
    foot.end(f"{position} " if position else "", "strong")
    return [
        _head(entry, width, corner[:2], line[0], border),
        *(Row(width).add(f"{line[1]} ", border).append(row).add(f" {line[1]}", border) for row in rows),
        foot,
    ]


def _head(entry: SlotView, width: int, corner: str, line: str, border: str) -> Row:
    """The frame's upper edge: slot, rank or job, and GPU; state, and for how long."""
    worker, row = entry.worker, Row(width, line, border)
    row.end(f" {line}{corner[1]}", border)
    if not worker.state.ended and not words.getting_ready(worker):
        lost_s = words.lost_s(entry)
        row.end(units.span(entry.since_s(worker.state_since) if lost_s is None else lost_s).rjust(_TIME + 1), "text")
    row.end(f" {words.sign_of(entry)} {words.state_of(worker)}", words.style_of(entry))
    row.add(f"{corner[0]}{line} ", border)
    if entry.marked:
        row.add(f"{SIGNS.mark} ", "warn")
    row.add(entry.slot.name, "strong" if entry.chosen else "title")
    if worker.group is not None:
        row.add(f" {words.rank_name(worker.group)}", limit=row.room - 1)
    elif worker.job is not None:
        row.add(f" {words.job_of(worker)}", limit=row.room - 1)
    gpu = words.gpu_name(entry.slot)
    while gpu and len(gpu) + 4 > row.room:  # a name without its last word is still one
        gpu = gpu.rpartition(" ")[0]
    return row.add(f" {SIGNS.dot} {gpu} " if gpu else " ", "dim")


def _rate_row(entry: SlotView, row: Row) -> Row:
    """The rate, and the number of environments; before there is a rate, the phase."""
    worker = entry.worker
    if words.getting_ready(worker):
        row.add(f"{words.phase_of(worker)} ", "title")
        return row.add(units.span(words.phase_s(entry)), "strong")
    if worker.fps is None and worker.fps_in_rank_0:
        return row.add(f"FPS {words.COUNTED}", "dim")
    over = worker.state is not WorkerState.RUNNING and worker.lost_since is None
    row.add(units.fps(worker.rate).rjust(_RATE), words.rate_style(worker)).add(" FPS", "dim")
    row.add(" (final)" if over and worker.fps is not None else "", "dim")
    if worker.newest.n_envs is not None:
        row.end(f" {units.count(worker.newest.n_envs, 'env')}")
    return row


def _history_rows(entry: SlotView, inner: int, height: int) -> list[Row]:
    """The history of the rate, once there is one."""
    if words.getting_ready(entry.worker):
        return [Row(inner) for _ in range(height)]
    values = buckets(entry.history.fps, entry.history.end, inner, SPAN_S)
    return [Row(inner).add(cells, "fps-graph") for cells in history_rows(values, highest(values), inner, height)]


def _processor_row(entry: SlotView, row: Row) -> Row:
    """Utilisation with its history, power and temperature of the GPU; of a CPU slot the cores that are used."""
    sample, worker, history = entry.sample, entry.worker, entry.history
    if entry.slot.gpu is None:
        row.add("CPU".ljust(_LABEL), "dim").add(f"{_percent(worker.cpu_pct, units.NOT_KNOWN, 6)} ")
        row.end(f" pid {worker.pid}" if worker.pid is not None else "", "dim")
        top = max([100.0, *(value or 0.0 for value in history.util_pct)])
    else:
        row.add("GPU".ljust(_LABEL), "dim")
        if sample is None:
            return row.add("no figures yet", "dim")
        row.add(f"{_percent(sample.gpu_util_pct, units.NOT_SUPPORTED, 5)} ")
        limit = f" / {sample.power_limit_w:.0f}" if sample.power_limit_w is not None else ""
        row.end(f"{units.whole(sample.temperature_c):>4} {SIGNS.degree}C", "warn" if sample.throttle else "text")
        row.end(f"{units.whole(sample.power_w):>5}{limit} W ")
        top = 100.0
    values = buckets(history.util_pct, history.end, row.room, SPAN_S)
    return row.add(history_rows(values, top, row.room)[0], "util")


def _percent(value: float | None, missing: str, width: int) -> str:
    return (missing if value is None else f"{value:.0f} %").rjust(width)


def _memory_row(entry: SlotView, row: Row) -> Row:
    sample, worker = entry.sample, entry.worker
    if entry.slot.gpu is None:
        return row.add("RAM".ljust(_LABEL), "dim").add(words.known(worker.memory_rss_mib, units.mib).rjust(8))
    row.add("VRAM".ljust(_LABEL), "dim")
    used, total = (sample.memory_used_mib, sample.memory_total_mib) if sample is not None else (None, None)
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED if sample is not None else "")
    whole = units.gib(total)
    row.end(f" {units.gib(used):>{len(whole)}} / {whole} GiB")
    full, rest = bar(used / total, row.room)
    return row.add(full, "vram").add(rest, "border")


def _note_rows(entry: SlotView, inner: int, most: int) -> list[Row]:
    """At most so many rows: remarks, and the arguments of a worker that has failed, or the newest output."""
    worker, rows, last = entry.worker, list[Row](), list[Row]()
    failed, line = worker.state is WorkerState.FAILED, words.last_line(worker)
    if failed and worker.newest.args:
        last = [Row(inner).add("with".ljust(_LABEL), "dim").add(" ".join(worker.newest.args))]
    elif line:
        last = [Row(inner).add(line, "dim")]
    advice = entry.chosen or not worker.state.live  # while they run, it is the same for all
    room = most - len(last) if failed else most
    for note in words.remarks(entry, advice=advice):
        rows += wrapped(note, inner, room - len(rows))
    return [*rows, *last][:most]


def wrapped(note: Note, width: int, rows: int) -> list[Row]:
    """A note in at most `rows` rows, broken at spaces; what does not fit is cut."""
    parts = [line.plain for line in Content(safe(note.text)).wrap(max(2, width))]  # 2: the room of a wide character
    lines = [*parts[: rows - 1], " ".join(parts[rows - 1 :])][:rows] if rows > 0 else []
    return [Row(width).add(part, note.style) for part in lines if part]
