"""A worker as a framed tile of a fixed size."""

from __future__ import annotations

from rich.segment import Segment

from gmg_tui import units
from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.drawing import graphs, groups, words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.digits import ROWS as DIGIT_ROWS
from gmg_tui.ui.drawing.digits import digits
from gmg_tui.ui.drawing.page import fold
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import Note, Shown
from gmg_tui.ui.history import buckets

HEIGHT = 9
"""Rows of a tile, with its frame."""
TALL_HEIGHT = HEIGHT + DIGIT_ROWS - 1
"""Rows of a tile whose FPS are drawn in large digits."""
MIN_WIDTH = 38
"""Columns below which a tile is of no use."""
_LABEL = 5
"""Columns of the labels left of the graphs."""
_WITH_TIMEOUT = 52
"""Columns within a tile from which power, temperature and a timeout fit in one row."""
_WIDE_RANKS_FROM = 52
"""Columns of a tile from which a rank's name has spaces."""
_SM = 9
"""Columns of the share of busy SMs: ` 100 % SM`."""
_VALUE = 7
"""Columns of the value right of a graph: ` 1650 %`."""


def tile(shown: Shown, width: int, appearance: Appearance, *, tall: bool = False) -> list[list[Segment]]:
    """The rows of a tile, `HEIGHT` or `TALL_HEIGHT` of them, each exactly `width` cells."""
    inner = width - 4
    large = tall and appearance.large_digits and _fits_large(shown, inner)
    rows = [
        *_top(shown, inner, appearance, rows=DIGIT_ROWS if tall else 1, large=large),
        _fps_row(shown, inner, appearance, large=large),
        _util_row(shown, inner, appearance),
        _memory_row(shown, inner, appearance),
        *_bottom(shown, inner, appearance),
    ]
    return _framed(shown, rows, width, appearance)


def _framed(shown: Shown, rows: list[Row], width: int, appearance: Appearance) -> list[list[Segment]]:
    signs = appearance.signs
    line = signs.chosen_line if shown.chosen else signs.line
    corner = groups.corners(shown, appearance)
    border = "selected" if shown.chosen else "border"
    worker = shown.worker
    head = Row(appearance, width)
    head.end(f" {line[0]}{corner[1]}", border)
    if not worker.state.ended and not words.getting_ready(worker):
        lost_s = words.lost_s(shown)
        head.end(f" {units.span(words.since_s(worker.state_since) if lost_s is None else lost_s)}", "text")
    head.end(f" {words.sign_of(worker, appearance)} {words.state_of(worker)}", words.style_of(worker))
    head.add(f"{corner[0]}{line[0]} ", border)
    if shown.marked:
        head.add(f"{signs.mark} ", "warn")
    head.add(shown.slot.name, "strong" if shown.chosen else "title")
    if worker.group is not None:
        name = f" {groups.rank_name(worker.group, short=width < _WIDE_RANKS_FROM)}"
        head.add(name, "text", limit=head.room - 1)
    if worker.job is None:
        gpu = words.gpu_name(shown.slot)
        # A piece of the GPU's name beside the rank's would be of no use.
        useful = worker.group is None or len(gpu) + 3 <= head.room
        head.add(f" {gpu} " if useful else " ", "dim", limit=head.room - 1)
    else:
        _add_job(head, shown, appearance)
    side = appearance.style(border)
    left, right = Segment(f"{line[1]} ", side), Segment(f" {line[1]}", side)
    return [
        head.segments(line[0], border),
        *[[left, *row.segments(), right] for row in rows],
        _foot(shown, corner[2:], line[0], border, width, appearance),
    ]


def _foot(shown: Shown, corner: str, line: str, border: str, width: int, appearance: Appearance) -> list[Segment]:
    """The frame's lower edge, with how many errors and warnings were printed."""
    row, said = Row(appearance, width).end(line + corner[1], border), words.remarks(shown.worker, shown.shared_warnings)
    row.add(corner[0] + line, border)
    if said.text:
        row.add(f" {said.text} ", said.style)
    return row.segments(line, border)


def _add_job(head: Row, shown: Shown, appearance: Appearance) -> None:
    """The job beside the slot's name, and the GPU between the two where there is room."""
    job = words.job_of(shown.worker)
    name = f" {appearance.signs.dot} {words.gpu_name(shown.slot)}"
    if len(name) + len(job) + 5 <= head.room:
        head.add(name, "dim").add(" —", "dim")
    head.add(f" {job} ", "text", limit=head.room - 1)


def _fits_large(shown: Shown, inner: int) -> bool:
    """Whether the FPS are known, and fit in large digits with their unit."""
    worker = shown.worker
    if worker.fps is None or words.getting_ready(worker):
        return False
    return len(digits(words.rate_of(worker))[0]) + len(_unit(worker)) <= inner


def _unit(worker: Worker) -> str:
    return " FPS" if _goes_on(worker) else " (final)"


def _goes_on(worker: Worker) -> bool:
    """Whether its rate is of an attempt that runs, as far as is known."""
    return worker.state is WorkerState.RUNNING or worker.lost_since is not None


def _top(shown: Shown, inner: int, appearance: Appearance, *, rows: int, large: bool) -> list[Row]:
    """The number that matters, in `rows` rows: FPS, or the phase before there are any."""
    if large:
        return _large_fps(shown.worker, inner, appearance)
    worker = shown.worker
    first = Row(appearance, inner)
    if words.getting_ready(worker):
        first.add(f"{words.spinner(shown, appearance)} {words.phase_of(worker)} ", "title")
        first.add(units.span(words.phase_s(worker)), "strong")
    elif worker.fps is None:
        first.add(f"FPS {words.COUNTED}" if worker.fps_in_rank_0 else f"{units.NOT_KNOWN} FPS", "dim")
    elif _goes_on(worker):
        first.add(f"{words.rate_of(worker)} FPS", words.rate_style(worker))
    else:
        first.add(words.rate_of(worker), "strong").add(" FPS (final)", "dim")
    first.end(_envs(worker), "dim")
    return [first, *[Row(appearance, inner) for _ in range(rows - 1)]]


def _envs(worker: Worker) -> str:
    return f" {units.count(worker.n_envs, 'env')}" if worker.n_envs is not None else ""


def _large_fps(worker: Worker, inner: int, appearance: Appearance) -> list[Row]:
    style = words.rate_style(worker)
    rows = [Row(appearance, inner).add(row, style) for row in digits(words.rate_of(worker))]
    rows[-1].add(_unit(worker), style if _goes_on(worker) else "dim")
    if _fits_beside(worker, inner):
        first, rest = _beside(worker)
        note = words.beside_rate(worker)
        rows[0].end(f" {first}", note.style)
        rows[1].end(f" {rest}", note.style)
    return rows


def _beside(worker: Worker) -> tuple[str, str]:
    """What is said beside large digits, in two rows."""
    text = words.beside_rate(worker).text
    first, parted, rest = text.partition(" for ")
    return (first, f"for {rest}") if parted else (text.partition(" ")[0], text.partition(" ")[2])


def _fits_beside(worker: Worker, inner: int) -> bool:
    return max(map(len, _beside(worker))) + 1 <= inner - len(digits(words.rate_of(worker))[0])


def _fps_row(shown: Shown, inner: int, appearance: Appearance, *, large: bool) -> Row:
    """The history of the FPS, or the progress of the phase before them; the arguments of a worker that has failed.

    What is printed instead of the rate is beside `large` digits if there is room, else here, as are the environments
    then.
    """
    row = Row(appearance, inner)
    worker, history = shown.worker, shown.history
    if words.held(worker):
        return row
    if words.getting_ready(worker):
        expected = words.usual(worker)
        if expected is None:
            return row.add("phase duration not known yet", "dim")
        fraction, text = expected
        return _bar(row, fraction, "title", text, appearance)
    if worker.state is WorkerState.FAILED and worker.args:  # what it was tried with matters more than how it went
        return row.add("with".ljust(_LABEL), "dim").add(" ".join(worker.args))
    row.add("FPS".ljust(_LABEL), "dim")
    beside = words.beside_rate(worker)
    ends = [(f" {beside.text}", beside.style)] if beside.text and not (large and _fits_beside(worker, inner)) else []
    if large:
        # That a rate is not current matters more than the environments, where there is room for one of the two.
        ends.insert(0 if worker.fps_silent_since is None else len(ends), (_envs(worker), "text"))
    for text, style in ends:
        row.end(text, style)
    values = buckets(history.fps, history.end, row.room, graphs.SPAN_S)
    return row.add(graphs.history(values, graphs.highest(values), row.room, appearance.signs), "fps-graph")


def _util_row(shown: Shown, inner: int, appearance: Appearance) -> Row:
    row = Row(appearance, inner)
    history, sample, worker = shown.history, shown.sample, shown.worker
    if shown.slot.gpu is None:
        row.add("CPU".ljust(_LABEL), "dim").end(_percent(worker.cpu_pct, units.NOT_KNOWN).rjust(_VALUE))
        top = max(100.0, *(value or 0.0 for value in history.util_pct)) if history.util_pct else 100.0
    else:
        util = _percent(sample.gpu_util_pct, units.NOT_SUPPORTED) if sample else units.NOT_KNOWN
        row.add("GPU".ljust(_LABEL), "dim")
        if sample is not None and sample.sm_pct is not None:
            row.end(f"{_percent(sample.sm_pct, '')} SM".rjust(_SM))
        row.end(util.rjust(_VALUE))
        top = 100.0
    values = buckets(history.util_pct, history.end, row.room, graphs.SPAN_S)
    return row.add(graphs.history(values, top, row.room, appearance.signs), "util")


def _percent(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.0f} %"


def _memory_row(shown: Shown, inner: int, appearance: Appearance) -> Row:
    row = Row(appearance, inner)
    sample, worker = shown.sample, shown.worker
    if shown.slot.gpu is None:
        row.add("RAM".ljust(_LABEL), "dim").add(words.known(worker.memory_rss_mib, units.mib))
        return row.end(f"pid {worker.pid}", "dim") if worker.pid is not None else row
    row.add("VRAM".ljust(_LABEL), "dim")
    used = sample.memory_used_mib if sample else None
    total = sample.memory_total_mib if sample else None
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED)
    return _bar(row, used / total, "vram", f"{units.gib(used)} / {units.gib(total)} GiB", appearance)


def _bar(row: Row, fraction: float, style: str, text: str, appearance: Appearance) -> Row:
    row.end(f" {text}")
    full, rest = graphs.bar(fraction, row.room, appearance.signs)
    return row.add(full, style).add(rest, "border")


def _bottom(shown: Shown, inner: int, appearance: Appearance) -> list[Row]:
    """Power and temperature, then the two most useful of: progress, trouble, a comparison, the last output."""
    notes = words.notes(shown.worker, shown.sample, appearance)
    if shown.slot.gpu is None:
        return _notes(shown, notes, inner, appearance, 3)
    first, slowed = _electric_row(shown, inner, appearance), words.throttled(shown.sample)
    if slowed is not None:
        room = first.room
        first.end(f" {slowed.text}", slowed.style)
        if first.room < room:
            notes.remove(slowed)
        else:
            first.end(" throttled", slowed.style)
    return [first, *_notes(shown, notes, inner, appearance, 2)]


def _electric_row(shown: Shown, inner: int, appearance: Appearance) -> Row:
    row, sample = Row(appearance, inner), shown.sample
    if sample is None:
        return row.add("no sample of the GPU yet", "dim")
    limit = f" / {sample.power_limit_w:.0f}" if sample.power_limit_w is not None else ""
    row.add(f"{units.whole(sample.power_w)}{limit} W".ljust(14))
    row.add(f"{units.whole(sample.temperature_c)} {appearance.signs.degree}C".ljust(8))
    if sample.sm_clock_mhz is not None:
        row.add(f"{sample.sm_clock_mhz:.0f} MHz", "dim")
    left = words.timeout_of(shown.worker)
    return row.end(f" {left}", "dim") if left and _timeout_beside(shown, inner) else row


def _timeout_beside(shown: Shown, inner: int) -> bool:
    """Whether the timeout is drawn beside power and temperature, not beside the last output."""
    return shown.sample is not None and not shown.sample.throttle and inner >= _WITH_TIMEOUT


def _notes(shown: Shown, notes: list[Note], inner: int, appearance: Appearance, rows: int) -> list[Row]:
    lines: list[Row] = []
    progress, far = shown.worker.progress, words.progress_of(shown.worker)
    if progress is not None and far is not None:
        text = f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}{far[1]}"
        lines.append(_bar(Row(appearance, inner), far[0], "title", text, appearance))
    for note in notes:
        lines.extend(wrapped(note, inner, appearance, rows - len(lines)))
    if len(lines) < rows:
        missing = rows - len(lines) - 1
        lines.extend(Row(appearance, inner) for _ in range(missing))
        last, left = Row(appearance, inner), words.timeout_of(shown.worker)
        if left and not _timeout_beside(shown, inner):
            last.end(f" {left}", "dim")
        lines.append(last.add(words.last_line(shown.worker), "dim"))
    return lines[:rows]


def wrapped(note: Note, width: int, appearance: Appearance, rows: int) -> list[Row]:
    """A note in at most `rows` rows, broken at spaces; what does not fit is cut."""
    parts = fold(appearance.text(note.text), width)
    shown = [*parts[: rows - 1], " ".join(parts[rows - 1 :])][:rows] if rows > 0 else []
    return [Row(appearance, width).add(part, note.style) for part in shown if part]
