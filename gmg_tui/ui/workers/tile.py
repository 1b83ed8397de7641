"""A worker as a framed tile, each figure in a fixed position."""

from __future__ import annotations

from rich.segment import Segment

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.drawing import graphs, groups, words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row, fold
from gmg_tui.ui.drawing.words import Note, Shown
from gmg_tui.ui.history import buckets

HEIGHT = 8
"""Least rows of a tile, with its frame; more are for the graph of the rate, and for notes."""
MAX_HEIGHT = 16
"""Rows above which a tile only gets emptier."""
MIN_WIDTH = 38
"""Columns below which a tile is of no use."""
_NOTES = 2
"""Rows for progress, trouble, a comparison, or the newest output, in the lowest tile."""
_ROWS_FOR_NOTE = 4
"""Of so many rows more, the last is for notes, and the others for the graph."""
_LABEL = 5
"""Columns of the labels left of the graphs."""
_RATE = 11
"""Columns of the rate: `192,104,233`."""
_TIME = 5
"""Columns of the time in a state: `39:12`, `74 s`."""
_WIDE_RANKS_FROM = 52
"""Columns of a tile from which a rank's name has spaces."""


def tile(shown: Shown, width: int, height: int, appearance: Appearance) -> list[list[Segment]]:
    """The rows of a tile, `height` of them (at least `HEIGHT`), each exactly `width` cells."""
    inner = width - 4
    below = _NOTES + (height - HEIGHT) // _ROWS_FOR_NOTE
    above = height - HEIGHT + _NOTES + 1 - below
    parts = [_history_rows, _note_rows]
    if (
        shown.worker.state is WorkerState.FAILED and shown.worker.args
    ):  # what it was tried with matters more than how it went
        parts = [_arguments_rows, _note_rows] if above < below else [_note_rows, _arguments_rows]
    rows = [
        _rate_row(shown, Row(appearance, inner), appearance),
        *parts[0](shown, inner, above, appearance),
        _processor_row(shown, Row(appearance, inner), appearance),
        _memory_row(shown, Row(appearance, inner), appearance),
        *parts[1](shown, inner, below, appearance),
    ]
    signs = appearance.signs
    corner, line = (signs.chosen_corner, signs.chosen_line) if shown.chosen else (signs.corner, signs.line)
    border = "selected" if shown.chosen else "border"
    side = appearance.style(border)
    left, right = Segment(f"{line[1]} ", side), Segment(f" {line[1]}", side)
    errors = words.errors_of(shown.worker)
    foot = Row(appearance, width).add(corner[2] + line[0], border).end(line[0] + corner[3], border)
    foot.add(f" {errors} " if errors else "", "error")
    return [
        _head(shown, width, appearance, corner[:2], line[0], border).segments(line[0], border),
        *[[left, *row.segments(), right] for row in rows],
        foot.segments(line[0], border),
    ]


def _head(shown: Shown, width: int, appearance: Appearance, corner: str, line: str, border: str) -> Row:
    """The frame's upper edge: slot, rank or job, and GPU; state, and for how long."""
    worker, row = shown.worker, Row(appearance, width)
    row.end(f" {line}{corner[1]}", border)
    if not worker.state.ended and not words.getting_ready(worker):
        lost_s = words.lost_s(shown)
        row.end(units.span(words.since_s(worker.state_since) if lost_s is None else lost_s).rjust(_TIME + 1), "text")
    row.end(f" {words.sign_of(worker, appearance)} {words.state_of(worker)}", words.style_of(worker))
    row.add(f"{corner[0]}{line} ", border)
    if shown.marked:
        row.add(f"{appearance.signs.mark} ", "warn")
    row.add(shown.slot.name, "strong" if shown.chosen else "title")
    if worker.group is not None:
        row.add(f" {groups.rank_name(worker.group, short=width < _WIDE_RANKS_FROM)}", limit=row.room - 1)
    elif worker.job is not None:
        row.add(f" {words.job_of(worker)}", limit=row.room - 1)
    gpu = f" {appearance.signs.dot} {words.gpu_name(shown.slot)}"
    if (worker.group is None and worker.job is None) or len(gpu) < row.room:  # a piece of it would be of no use
        row.add(gpu, "dim", limit=row.room - 1)
    return row.add(" ")


def _rate_row(shown: Shown, row: Row, appearance: Appearance) -> Row:
    """The rate, and the number of environments; before there is a rate, the phase."""
    worker = shown.worker
    if words.getting_ready(worker):
        row.add(f"{words.spinner(shown, appearance)} {words.phase_of(worker)} ", "title")
        return row.add(units.span(words.phase_s(worker)), "strong")
    if worker.fps is None and worker.fps_in_rank_0:
        return row.add(f"FPS {words.COUNTED}", "dim")
    over = worker.state is not WorkerState.RUNNING and worker.lost_since is None
    row.add(words.rate_of(worker).rjust(_RATE), words.rate_style(worker)).add(" FPS", "dim")
    row.add(" (final)" if over and worker.fps is not None else "", "dim")
    if worker.n_envs is not None:
        row.end(f" {units.count(worker.n_envs, 'env')}")
    return row


def _history_rows(shown: Shown, inner: int, height: int, appearance: Appearance) -> list[Row]:
    """The history of the rate; before it, how far a phase is."""
    worker, history = shown.worker, shown.history
    rows = [Row(appearance, inner) for _ in range(height)]
    if words.getting_ready(worker):
        expected = words.usual(worker)
        if expected is not None and not words.held(worker):
            _bar(rows[0], expected[0], "title", expected[1], appearance)
    else:
        beside = words.beside_rate(worker)
        rows[-1].end(f" {beside.text}" if beside.text else "", beside.style)
        room = rows[-1].room
        values = buckets(history.fps, history.end, room, graphs.SPAN_S)
        graph = graphs.tall_history(values, graphs.highest(values), room, height, appearance.signs)
        for row, cells in zip(rows, graph, strict=True):
            row.add(cells, "fps-graph")
    return rows


def _arguments_rows(shown: Shown, inner: int, height: int, appearance: Appearance) -> list[Row]:
    """The arguments of a worker that has failed."""
    rows = [Row(appearance, inner) for _ in range(height)]
    rows[0].add("with".ljust(_LABEL), "dim").add(" ".join(shown.worker.args))
    return rows


def _processor_row(shown: Shown, row: Row, appearance: Appearance) -> Row:
    """Utilisation with its history, power and temperature of the GPU; of a CPU slot the cores that are used."""
    sample, worker, history = shown.sample, shown.worker, shown.history
    if shown.slot.gpu is None:
        row.add("CPU".ljust(_LABEL), "dim").add(f"{_percent(worker.cpu_pct, units.NOT_KNOWN, 6)} ")
        row.end(f" pid {worker.pid}" if worker.pid is not None else "", "dim")
        top = max([100.0, *(value or 0.0 for value in history.util_pct)])
    else:
        row.add("GPU".ljust(_LABEL), "dim")
        if sample is None:
            return row.add("no figures yet", "dim")
        row.add(f"{_percent(sample.gpu_util_pct, units.NOT_SUPPORTED, 5)} ")
        limit = f" / {sample.power_limit_w:.0f}" if sample.power_limit_w is not None else ""
        slowed = words.throttled(sample) is not None
        row.end(f"{units.whole(sample.temperature_c):>4} {appearance.signs.degree}C", "warn" if slowed else "text")
        row.end(f"{units.whole(sample.power_w):>5}{limit} W ")
        top = 100.0
    values = buckets(history.util_pct, history.end, row.room, graphs.SPAN_S)
    return row.add(graphs.history(values, top, row.room, appearance.signs), "util")


def _percent(value: float | None, missing: str, width: int) -> str:
    return (missing if value is None else f"{value:.0f} %").rjust(width)


def _memory_row(shown: Shown, row: Row, appearance: Appearance) -> Row:
    sample, worker = shown.sample, shown.worker
    if shown.slot.gpu is None:
        return row.add("RAM".ljust(_LABEL), "dim").add(words.known(worker.memory_rss_mib, units.mib).rjust(8))
    row.add("VRAM".ljust(_LABEL), "dim")
    used, total = (sample.memory_used_mib, sample.memory_total_mib) if sample is not None else (None, None)
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED if sample is not None else "")
    whole = units.gib(total)
    return _bar(row, used / total, "vram", f"{units.gib(used):>{len(whole)}} / {whole} GiB", appearance)


def _bar(row: Row, fraction: float, style: str, text: str, appearance: Appearance) -> Row:
    row.end(f" {text}")
    full, rest = graphs.bar(fraction, row.room, appearance.signs)
    return row.add(full, style).add(rest, "border")


def _note_rows(shown: Shown, inner: int, height: int, appearance: Appearance) -> list[Row]:
    """The most useful of: progress, trouble, a comparison, the newest output."""
    worker, rows = shown.worker, list[Row]()
    progress, fraction = worker.progress, words.progress_of(worker)
    if progress is not None and fraction is not None:
        text = f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}{fraction[1]}"
        rows.append(_bar(Row(appearance, inner), fraction[0], "title", text, appearance))
    advice = shown.chosen or not worker.state.live  # while they run, it is the same for all
    for note in words.notes(worker, shown.sample, appearance, advice=advice):
        rows += wrapped(note, inner, appearance, height - len(rows))
    if len(rows) < height:
        rows += [Row(appearance, inner) for _ in range(height - len(rows))]
        rows[-1].end(f" {words.timeout_of(worker)}".rstrip(), "dim").add(words.last_line(worker), "dim")
    return rows[:height]


def wrapped(note: Note, width: int, appearance: Appearance, rows: int) -> list[Row]:
    """A note in at most `rows` rows, broken at spaces; what does not fit is cut."""
    parts = fold(appearance.text(note.text), width)
    lines = [*parts[: rows - 1], " ".join(parts[rows - 1 :])][:rows] if rows > 0 else []
    return [Row(appearance, width).add(part, note.style) for part in lines if part]
