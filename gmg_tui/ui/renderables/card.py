"""A worker as a card of a fixed size, framed."""

from __future__ import annotations

from rich.segment import Segment

from gmg_tui import units
from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.history import buckets
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import graphs, words
from gmg_tui.ui.renderables.digits import ROWS as DIGIT_ROWS
from gmg_tui.ui.renderables.digits import digits, digits_width
from gmg_tui.ui.renderables.words import Note, Shown

HEIGHT = 9
"""Rows of a card, with its frame."""
TALL_HEIGHT = HEIGHT + DIGIT_ROWS - 1
"""Rows of a card whose FPS are drawn in large digits."""
MIN_WIDTH = 38
"""Columns below which a card is no use."""
_LABEL = 5
"""Columns of the words at the left of the graphs."""
_WITH_TIMEOUT = 52
"""Columns within a card from which watts, degrees and a time-out have room beside each other."""
_FIGURE = 7
"""Columns of the figure at the right of a graph: ` 1650 %`."""


def card(shown: Shown, width: int, look: Look, *, tall: bool = False) -> list[list[Segment]]:
    """The rows of a card, `HEIGHT` or `TALL_HEIGHT` of them, each exactly `width` cells."""
    inner = width - 4
    large = tall and _fits_large(shown, inner)
    rows = [
        *_top(shown, inner, look, rows=DIGIT_ROWS if tall else 1, large=large),
        *_middle(shown, inner, look, large=large),
        *_bottom(shown, inner, look),
    ]
    return _framed(shown, rows, width, look)


def _framed(shown: Shown, rows: list[Line], width: int, look: Look) -> list[list[Segment]]:
    signs = look.signs
    corner, line = (signs.chosen_corner, signs.chosen_line) if shown.chosen else (signs.corner, signs.line)
    border = "selected" if shown.chosen else "border"
    worker = shown.worker
    head = Line(look, width)
    head.end(f" {line[0]}{corner[1]}", border)
    if not worker.state.ended and not words.getting_ready(worker):
        head.end(f" {units.span(worker.state_s)}", "text")
    head.end(f" {words.sign_of(worker, look)} {words.state_of(worker)}", words.style_of(worker))
    head.add(f"{corner[0]}{line[0]} ", border).add(shown.slot.name, "strong" if shown.chosen else "title")
    if worker.job is None:
        head.add(f" {words.card_name(shown.slot)} ", "dim", limit=head.room - 1)
    else:
        _add_job(head, shown, look)
    side = look.style(border)
    return [
        head.segments(line[0], border),
        *[[Segment(f"{line[1]} ", side), *row.segments(), Segment(f" {line[1]}", side)] for row in rows],
        [Segment(corner[2] + line[0] * (width - 2) + corner[3], side)],
    ]


def _add_job(head: Line, shown: Shown, look: Look) -> None:
    """The job beside the slot's name, and the card between the two where there is room for it."""
    job = words.job_of(shown.worker)
    name = f" {look.signs.dot} {words.card_name(shown.slot)}"
    if len(name) + len(job) + 5 <= head.room:
        head.add(name, "dim").add(" \N{EM DASH}", "dim")
    head.add(f" {job} ", "text", limit=head.room - 1)


def _fits_large(shown: Shown, inner: int) -> bool:
    """Whether the FPS are there, and fit in large digits with a word beside them."""
    worker = shown.worker
    if worker.fps is None or words.getting_ready(worker):
        return False
    return digits_width(units.fps(worker.fps.last)) + len(_unit(worker)) <= inner


def _unit(worker: Worker) -> str:
    return " FPS" if worker.state is WorkerState.RUNNING else " at last"


def _top(shown: Shown, inner: int, look: Look, *, rows: int, large: bool) -> list[Line]:
    """The number that matters, in `rows` rows: FPS, or what keeps the worker from having any."""
    if large:
        return _large_figure(shown.worker, inner, look)
    worker = shown.worker
    first = Line(look, inner)
    if words.getting_ready(worker):
        first.add(f"{words.spinner(shown, look)} {words.phase_of(worker)} ", "title")
        first.add(units.span(worker.phase_s), "strong")
    elif worker.fps is None:
        first.add(f"{units.NOT_KNOWN} FPS", "dim")
    else:
        running = worker.state is WorkerState.RUNNING
        first.add(units.fps(worker.fps.last), "fps" if running else "strong")
        first.add(" FPS", "fps" if running else "dim").add("" if running else " at last", "dim")
    first.end(_envs(worker), "dim")
    return [first, *[Line(look, inner) for _ in range(rows - 1)]]


def _envs(worker: Worker) -> str:
    return f" {units.count(worker.n_envs, 'env')}" if worker.n_envs is not None else ""


def _large_figure(worker: Worker, inner: int, look: Look) -> list[Line]:
    assert worker.fps is not None
    running = worker.state is WorkerState.RUNNING
    style = "fps" if running else "strong"
    rows = [Line(look, inner).add(row, style) for row in digits(units.fps(worker.fps.last))]
    rows[-1].add(_unit(worker), style if running else "dim")
    rate = words.current_rate(worker)
    if rate is not None:
        rows[0].end(" now", "dim")
        rows[1].end(f" {units.short(rate)}", "strong")
    return rows


def _middle(shown: Shown, inner: int, look: Look, *, large: bool) -> list[Line]:
    """The histories and the card's figures."""
    return [_fps_row(shown, inner, look, large=large), _util_row(shown, inner, look), _memory_row(shown, inner, look)]


def _fps_row(shown: Shown, inner: int, look: Look, *, large: bool) -> Line:
    """The history of the FPS, or how far the phase before them is.

    Args:
        shown: What is drawn.
        inner: In cells.
        look: Styles and signs.
        large: Whether the FPS are drawn in large digits, which leave no room for the number of environments beside
            them, but for the rate of this moment.
    """
    row = Line(look, inner)
    worker, history = shown.worker, shown.history
    if words.held(worker):
        return row
    if words.getting_ready(worker):
        expected = words.usual(worker)
        if expected is None:
            return row.add("no time known for this phase yet", "dim")
        fraction, text = expected
        return _bar(row, fraction, "title", text, look)
    row.add("FPS".ljust(_LABEL), "dim")
    now = words.rate_now(worker)
    if large:
        row.end(_envs(worker), "text")
    elif now is not None:
        row.end(f" {now}", "strong")
    if worker.fps is not None and worker.state.ended:
        row.end(f" mean {units.short(worker.fps.mean)}", "text")
    values = buckets(history.fps, history.end, row.room, graphs.SPAN_S)
    return row.add(graphs.history(values, history.fps_max, row.room, look.signs), "fps-graph")


def _util_row(shown: Shown, inner: int, look: Look) -> Line:
    row = Line(look, inner)
    history, reading, worker = shown.history, shown.reading, shown.worker
    if shown.slot.gpu is None:
        row.add("CPU".ljust(_LABEL), "dim").end(_percent(worker.cpu_pct, units.NOT_KNOWN).rjust(_FIGURE))
        top = max(100.0, *(value or 0.0 for value in history.util_pct)) if history.util_pct else 100.0
    else:
        util = _percent(reading.gpu_util_pct, units.NOT_SUPPORTED) if reading else units.NOT_KNOWN
        row.add("GPU".ljust(_LABEL), "dim").end(util.rjust(_FIGURE))
        top = 100.0
    values = buckets(history.util_pct, history.end, row.room, graphs.SPAN_S)
    return row.add(graphs.history(values, top, row.room, look.signs), "util")


def _percent(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.0f} %"


def _memory_row(shown: Shown, inner: int, look: Look) -> Line:
    row = Line(look, inner)
    reading, worker = shown.reading, shown.worker
    if shown.slot.gpu is None:
        row.add("RAM".ljust(_LABEL), "dim").add(_tree(worker.memory_rss_mib))
        return row.end(f"pid {worker.pid}", "dim") if worker.pid is not None else row
    row.add("VRAM".ljust(_LABEL), "dim")
    used = reading.memory_used_mib if reading else None
    total = reading.memory_total_mib if reading else None
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED)
    return _bar(row, used / total, "vram", f"{units.gib(used)} / {units.gib(total)} GiB", look)


def _tree(mib: float | None) -> str:
    """Memory of a process tree, which is not known while there is none."""
    return units.NOT_KNOWN if mib is None else units.mib(mib)


def _bar(row: Line, fraction: float, style: str, text: str, look: Look) -> Line:
    row.end(f" {text}")
    full, rest = graphs.bar(fraction, row.room, look.signs)
    return row.add(full, style).add(rest, "border")


def _bottom(shown: Shown, inner: int, look: Look) -> list[Line]:
    """Watts and degrees, then the two things most worth a line each: trouble, progress, a comparison, the last output."""
    notes = words.trouble(shown)
    if shown.slot.gpu is None:
        return _notes(shown, notes, inner, look, 3)
    first, slowed = _electric_row(shown, inner, look), words.throttled(shown.reading)
    if slowed is not None:
        room = first.room
        first.end(f" {slowed.text}", slowed.style)
        if first.room < room:
            notes.remove(slowed)
        else:
            first.end(" throttled", slowed.style)
    return [first, *_notes(shown, notes, inner, look, 2)]


def _electric_row(shown: Shown, inner: int, look: Look) -> Line:
    row, reading = Line(look, inner), shown.reading
    if reading is None:
        return row.add("no figures of the card", "dim")
    limit = f" / {reading.power_limit_w:.0f}" if reading.power_limit_w is not None else ""
    row.add(f"{units.whole(reading.power_w)}{limit} W".ljust(14))
    row.add(f"{units.whole(reading.temperature_c)} {look.signs.degree}C".ljust(8))
    if reading.sm_clock_mhz is not None:
        row.add(f"{reading.sm_clock_mhz:.0f} MHz", "dim")
    left = words.timeout_of(shown.worker)
    if left is not None and _timeout_beside(shown, inner):
        row.end(f" {left}", "dim")
    return row


def _timeout_beside(shown: Shown, inner: int) -> bool:
    """Whether the time-out has room beside watts and degrees, rather than beside the last output."""
    return shown.reading is not None and not shown.reading.throttle and inner >= _WITH_TIMEOUT


def _notes(shown: Shown, notes: list[Note], inner: int, look: Look, rows: int) -> list[Line]:
    lines: list[Line] = []
    if shown.worker.progress is not None and not shown.worker.state.ended:
        lines.append(progress_row(shown, inner, look))
    compared = words.before_after(shown.worker, look)
    if compared:
        notes = [*notes, Note(compared, "strong")]
    for note in notes:
        lines.extend(wrapped(note, inner, look, rows - len(lines)))
    if len(lines) < rows:
        missing = rows - len(lines) - 1
        lines.extend(Line(look, inner) for _ in range(missing))
        last, left = Line(look, inner), words.timeout_of(shown.worker)
        if left is not None and not _timeout_beside(shown, inner):
            last.end(f" {left}", "dim")
        lines.append(last.add(words.last_line(shown.worker), "dim"))
    return lines[:rows]


def wrapped(note: Note, width: int, look: Look, rows: int) -> list[Line]:
    """A note over at most `rows` rows, broken at spaces; what does not fit is cut."""
    rest = look.text(note.text)
    lines: list[Line] = []
    while rest and len(lines) < rows:
        here = rest
        if len(rest) > width and len(lines) < rows - 1:
            space = rest.rfind(" ", 0, width + 1)
            here = rest[: space if space > width // 2 else width]
        lines.append(Line(look, width).add(here, note.style))
        rest = rest[len(here) :].lstrip() if len(lines) < rows else ""
    return lines


def progress_row(shown: Shown, width: int, look: Look) -> Line:
    """A bar of how far the run is, with the time left where it is known."""
    progress = shown.worker.progress
    assert progress is not None
    text = f"{progress.done:,.0f}/{progress.total:,.0f} {progress.unit}"
    if progress.eta_s is not None:
        text += f", {units.span(progress.eta_s)} left"
    return _bar(Line(look, width), progress.done / progress.total if progress.total else 0.0, "title", text, look)
