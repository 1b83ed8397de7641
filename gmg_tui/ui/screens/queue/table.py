"""The slots and the jobs of a sweep as rows of tables. Pure functions, no widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gmg_tui import units
from gmg_tui.model import JobRecord, Lane, Worker, WorkerState
from gmg_tui.ui.drawing import words
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row

_STYLES: Final = {
    WorkerState.RUNNING: "ok",
    WorkerState.FINISHED: "ok",
    WorkerState.FAILED: "error",
    WorkerState.WAITING: "dim",
    WorkerState.STOPPED: "dim",
}
_STATE: Final = 13
"""Columns of sign and state."""
_USED: Final = 10
_FPS: Final = 12
_ELAPSED: Final = 9
_TRIES: Final = 6
_NAME_MIN, _NAME_MAX = 12, 32
_REST_MIN: Final = 16
"""Columns below which values and reasons get no column of their own."""
_GAP: Final = "  "


class Columns(NamedTuple):
    """Widths of the columns, for one total width; 0 where there is no room for the column."""

    width: int
    number: int
    """Columns of the job's number."""
    name: int
    slot: int
    tries: int
    """Columns of the number of attempts."""
    fps: int
    rest: bool
    """Whether there is room for values and reasons."""


def columns(width: int, jobs: int, slots: tuple[str, ...], *, several: bool = False) -> Columns:
    """The columns of both tables, `width` cells wide, for so many jobs and all slots; `several` says if a job takes more."""
    number = max(2, len(str(jobs))) + 1
    slot = max([4, *(len(name) for name in slots)]) + 1 + (len(f" +{len(slots) - 1}") if several else 0)
    fixed = 2 + number + _STATE + slot + _ELAPSED
    room = width - 1 - fixed - _NAME_MIN
    fps = _FPS if room >= _FPS else 0
    tries = _TRIES if room - fps >= _TRIES else 0
    room -= fps + tries
    name = _NAME_MIN + max(0, min(_NAME_MAX - _NAME_MIN, room // 3 if room >= 2 * _REST_MIN else room))
    return Columns(width, number, name, slot, tries, fps, room - (name - _NAME_MIN) >= _REST_MIN)


def heading(layout: Columns, appearance: Appearance) -> Row:
    """The row above the jobs."""
    names = ("#", "job", "state", "slot", "tries", "elapsed", "FPS", "reason or values")
    return _cells(Row(appearance, layout.width), layout, [(name, "dim") for name in names])


def row(
    job: JobRecord,
    worker: Worker | None,
    layout: Columns,
    appearance: Appearance,
    *,
    chosen: bool,
    group_fps: float | None = None,
) -> Row:
    """One job; `worker` is the one on the job's first slot, which may have another job by now.

    `group_fps` is the rate of all ranks, where it runs as a group.
    """
    state, tries, seconds, fps = job.state, job.attempts, job.elapsed_s, job.fps
    if worker is not None and worker.job == job.number and not job.state.ended:  # it knows more than the record
        state, tries, fps = worker.state, worker.attempt, worker.fps or fps
        seconds = seconds if worker.attempt_s is None else max(worker.attempt_s, seconds or 0.0)
    rate = fps.best_known if fps is not None else None
    if job.world_size is not None and not state.ended:
        rate = group_fps
    cells = [
        (str(job.number), "dim"),
        (job.name, "strong" if chosen else "text"),
        (f"{appearance.signs.states[state]} {state.value}", _STYLES.get(state, "title")),
        (f"{job.slot} +{len(job.slots) - 1}" if job.slots else job.slot or "", "text"),
        (str(tries) if tries else "", "dim"),
        (units.span(seconds) if seconds is not None else "", "text"),
        (units.fps(rate) if rate is not None else "", _fps_style(state)),
        said(job),
    ]
    line = Row(appearance, layout.width).add(appearance.signs.pointer if chosen else " ", "selected")
    return _cells(line, layout, cells)


def _cells(line: Row, layout: Columns, cells: Sequence[tuple[str, str]]) -> Row:
    """Write a row of the table of jobs: a text and its style's name for each column, also for those without room."""
    number, name, state, slot, *metrics, rest = cells
    at = 2 + layout.number
    line.right(number[0], at - 1, number[1]).to(at).add(*name, limit=layout.name - 1)
    at += layout.name
    line.to(at).add(*state).to(at + _STATE).add(*slot)
    at += _STATE + layout.slot
    for (text, style), width in zip(metrics, (layout.tries, _ELAPSED, layout.fps), strict=True):
        at += width
        if width:
            line.right(text, at - 1, style)
    return line.to(at + 1).add(*rest) if layout.rest else line


def _fps_style(state: WorkerState) -> str:
    return "fps" if state is WorkerState.RUNNING else "text"


def said(job: JobRecord) -> tuple[str, str]:
    """The reason for the job's state, or else its values, and the name of the style."""
    if job.reason:
        return job.reason, "error" if job.state is WorkerState.FAILED else "text"
    return words.values_of(job), "dim"


def detail(job: JobRecord | None, layout: Columns, appearance: Appearance, position: str) -> Row:
    """The row below the jobs: all about the selected one, whose own row may be cut."""
    line = Row(appearance, layout.width).end(f" {position} ", "dim")
    if job is None:
        return line.add("  waiting for the engine", "dim")
    line.add(_GAP).add(f"#{job.number} {job.name}", "strong")
    for text, style in ((job.reason, said(job)[1]), (words.unnamed_values_of(job), "text"), (job.log, "dim")):
        if text and line.room > len(_GAP):
            line.add(_GAP).add(text, style)
    return line


def lane_row(lane: Lane, worker: Worker | None, layout: Columns, appearance: Appearance) -> Row:
    """One slot: whether it is in use, its job and that job's state, or what it waits for."""
    line = Row(appearance, layout.width).add("  ").add(lane.slot, "title" if lane.used else "dim")
    at = 2 + layout.slot
    word, style = ("benched", "warn") if lane.benched else ("used", "text") if lane.used else ("not used", "dim")
    line.to(at).add(word, style)
    at += _USED
    holds = worker is not None and worker.job is not None and (lane.job is not None or worker.state.live)
    if worker is not None and holds:
        line.to(at).add(words.job_of(worker), "text", limit=layout.name + layout.number - 1)
        at += layout.name + layout.number
        line.to(at).add(f"{words.sign_of(worker, appearance)} {words.state_of(worker)}", words.style_of(worker))
        at += _STATE + _FPS
        if worker.fps is not None and not words.getting_ready(worker):
            line.right(words.rate_of(worker), at - 1, words.rate_style(worker))
        left, below = words.timeout_of(worker), words.slow(worker)
        if left:
            line.end(f" {left} ", "dim")
        return line.add(f"  {below.text}", below.style) if below is not None else line
    if lane.benched:
        return line.to(at).add(lane.benched, "warn")
    if lane.used and lane.waits:
        waits = f"waits {lane.waits}" if lane.waits.startswith("for ") else lane.waits
        line.to(at).add(f"{appearance.signs.states[WorkerState.WAITING]} {waits}", "dim")
    return line
