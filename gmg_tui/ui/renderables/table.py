"""The workers as a table of one row each."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.ui.history import buckets
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import graphs, words
from gmg_tui.ui.renderables.words import Note, Shown

_STATE = 13
"""Columns of sign and state: `● restarting `."""
_TIME = 8
_FPS = 12
_FIGURES_GPU = (("GPU %", 6), ("VRAM GiB", 12), ("W", 5), ("°C", 4))
_FIGURES_CPU = (("CPU %", 7), ("RAM GiB", 9))
_HISTORY_MAX = 30
_JOB, _JOB_MAX = 9, 24
"""Columns of a job's number and name in a narrow table, and at most."""
_JOB_GROWS_FROM = 72
"""Columns of a table from which one in four goes to the job's name."""
_ENVS = 10
_ENVS_FROM = 120
"""Columns of a table from which it has one for the number of environments."""
_WITHOUT_FPS = frozenset({WorkerState.STOPPING, WorkerState.RESTARTING})
"""States in which a last number says less than what is happening."""
_NOTE_MIN = 12
"""Cells below which a note says nothing."""
_URGENT = frozenset({"warn", "error"})
"""Styles of notes for which the graph gives way where there is no room for both."""


class Columns(NamedTuple):
    """Where the columns of a table begin, for one width and one set of slots."""

    width: int
    slot: int
    """Columns of the slot's name."""
    history: int
    """Columns of the FPS graph."""
    figures: tuple[tuple[str, int], ...]
    """Headings and columns of the figures at the right."""
    envs: int = 0
    """Columns of the number of environments; 0 where there is no room."""
    job: int = 0
    """Columns of the job's number and name; 0 in a plain run."""

    @property
    def state(self) -> int:
        """The column where the state begins."""
        return 2 + self.slot + self.job

    @property
    def message(self) -> int:
        """The column where FPS begin, and what is said instead."""
        return self.state + _STATE + _TIME

    @property
    def history_at(self) -> int:
        """The column where the FPS graph begins."""
        return self.message + _FPS + self.envs

    @property
    def figures_at(self) -> int:
        """The column where the figures at the right begin."""
        return self.width - sum(width for _, width in self.figures) - 1


def columns(slots: tuple[str, ...], width: int, *, on_cards: bool, jobs: bool = False) -> Columns:
    """The columns of a table `width` cells wide.

    Args:
        slots: The slots' names.
        width: In cells.
        on_cards: Whether the figures are those of cards, or of the CPU.
        jobs: Whether the slots take jobs from a queue, whose names then have a column.
    """
    figures = _FIGURES_GPU if on_cards else _FIGURES_CPU
    name = max([4, *(len(slot) for slot in slots)]) + 1
    layout = Columns(width, name, 0, figures, _ENVS if width >= _ENVS_FROM else 0)
    if jobs:
        layout = layout._replace(job=min(_JOB_MAX, _JOB + max(0, width - _JOB_GROWS_FROM) // 4))
        while len(layout.figures) > 1 and layout.figures_at < layout.history_at:
            layout = layout._replace(figures=layout.figures[:-1])
    free = layout.figures_at - layout.history_at - 1
    history = max(0, free if free <= 10 else min(_HISTORY_MAX, 8 + (free - 8) // 3))
    return layout._replace(history=history)


def heading(layout: Columns, look: Look) -> Line:
    """The row above the table."""
    line = Line(look, layout.width)
    line.add("  slot").to(2 + layout.slot)
    if layout.job:
        line.add("job").to(layout.state)
    line.add("state").right("for", layout.message - 1)
    line.right("FPS", layout.message + _FPS - 1)
    if layout.envs:
        line.right("envs", layout.history_at - 1)
    line.to(layout.history_at)
    if layout.history > 6:
        line.add("history")
    at = layout.figures_at
    for name, width in layout.figures:
        at += width
        line.right(name, at)
    return line


def row(shown: Shown, layout: Columns, look: Look) -> Line:
    """One worker, in `layout.width` cells."""
    worker = shown.worker
    line = Line(look, layout.width)
    pointer = look.signs.pointer if shown.chosen else " "
    line.add(f"{pointer} ", "selected").add(shown.slot.name, "strong" if shown.chosen else "text")
    line.to(2 + layout.slot)
    if layout.job:
        line.add(words.job_of(worker), "text", limit=layout.job - 1).to(layout.state)
    line.add(f"{words.sign_of(worker, look)} ", words.style_of(worker))
    line.add("STUCK" if worker.stuck else worker.state.value, words.style_of(worker), limit=_STATE - 3)
    line.right(_time(shown), layout.message - 1, "dim").to(layout.message)
    _message(line, shown, layout, look)
    _figures(line, shown, layout)
    return line


def _time(shown: Shown) -> str:
    worker = shown.worker
    if worker.state is WorkerState.RESTARTING and worker.restart_in_s is not None:
        return f"in {units.span(max(0.0, worker.restart_in_s))}"
    return units.span(worker.phase_s if words.getting_ready(worker) else worker.state_s)


def _message(line: Line, shown: Shown, layout: Columns, look: Look) -> None:
    """FPS, environments, history and a note; where there is no FPS, the note has the room of all."""
    worker = shown.worker
    edge = layout.figures_at - 1
    note = _note(shown, look)
    if worker.fps is not None and not words.getting_ready(worker) and worker.state not in _WITHOUT_FPS:
        running = worker.state is WorkerState.RUNNING
        line.right(units.fps(worker.fps.last), layout.message + _FPS - 1, "fps" if running else "strong")
        if layout.envs and worker.n_envs is not None:
            line.right(f"{worker.n_envs:,}", layout.history_at - 1, "dim")
        line.to(layout.history_at)
        after = edge - layout.history_at - layout.history - 1
        # Cards under full load are at their power cap for hours; that is no reason to hide how the worker fares.
        mild = note == words.throttled(shown.reading) or (running and note.style not in _URGENT)
        if after >= _NOTE_MIN or mild:
            history = shown.history
            values = buckets(history.fps, history.end, layout.history, graphs.SPAN_S)
            line.add(graphs.history(values, history.fps_max, layout.history, look.signs), "fps-graph").add(" ")
            if after < _NOTE_MIN:
                return
    line.add(note.text, note.style, limit=edge - (line.width - line.room))


def _note(shown: Shown, look: Look) -> Note:
    """The one thing most worth saying."""
    worker = shown.worker
    notes = words.trouble(shown)
    if notes and notes[0].style in _URGENT:
        return notes[0]
    if words.getting_ready(worker) and not words.held(worker):
        expected = words.usual(worker)
        time = f", {expected[1]}" if expected else ""
        return Note(f"{words.spinner(shown, look)} {words.phase_of(worker)}{time}", "title")
    if notes:
        return notes[0]
    compared = words.before_after(worker, look)
    if compared:
        return Note(compared, "strong")
    if worker.progress is not None and not worker.state.ended and worker.progress.total:
        progress = worker.progress
        left = f", {units.span(progress.eta_s)} left" if progress.eta_s is not None else ""
        return Note(f"{progress.done / progress.total * 100:.0f} %{left}", "title")
    return Note(words.rate_now(worker) or "", "strong")


def detail(shown: Shown, width: int, look: Look, *, place: str = "") -> Line:
    """The row below the table: all that there is to say of the chosen worker, which its own row may have to cut.

    Args:
        shown: The chosen worker.
        width: In cells.
        look: Styles and signs.
        place: Which workers are visible, for the right end.
    """
    worker = shown.worker
    line = Line(look, width).end(place, "strong").add("  ").add(shown.slot.name, "strong")
    notes = words.trouble(shown)
    if worker.job is not None:
        notes.insert(0, Note(words.job_of(worker), "title"))
        left = words.timeout_of(worker)
        if left is not None:
            notes.append(Note(left, "text"))
    compared = words.before_after(worker, look)
    if compared:
        notes.append(Note(compared, "strong"))
    if worker.n_envs is not None:
        notes.append(Note(units.count(worker.n_envs, "env"), "text"))
    if worker.args:
        notes.append(Note(" ".join(worker.args), "dim"))
    for number, note in enumerate(notes):
        line.add(f" {look.signs.dot} " if number else "  ", "dim").add(note.text, note.style)
    return line


def _figures(line: Line, shown: Shown, layout: Columns) -> None:
    reading, worker = shown.reading, shown.worker
    if shown.slot.gpu is None:
        memory = units.gib(worker.memory_rss_mib)
        values = [units.whole(worker.cpu_pct), memory, "", ""]
    elif reading is None:
        values = [units.NOT_KNOWN] * 4
    else:
        used, total = units.gib(reading.memory_used_mib), units.gib(reading.memory_total_mib)
        memory = units.NOT_SUPPORTED if reading.memory_used_mib is None else f"{used}/{total}"
        figures = (reading.gpu_util_pct, reading.power_w, reading.temperature_c)
        util, power, temperature = (units.whole(value) for value in figures)
        values = [util, memory, power, temperature]
    at = layout.figures_at
    for (_, width), value in zip(layout.figures, values, strict=False):
        at += width
        line.right(value, at, "dim" if value in {units.NOT_SUPPORTED, units.NOT_KNOWN} else "text")
