"""The slots and the jobs of a sweep as rows of tables. Pure functions, no widget."""

from __future__ import annotations

from typing import Final, NamedTuple

from gmg_tui import units
from gmg_tui.genesis.placeholders import as_text
from gmg_tui.model import JobRecord, Lane, Worker, WorkerState
from gmg_tui.ui.line import Line
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables import words

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
"""Columns below which values and reasons have no column of their own."""


class Columns(NamedTuple):
    """Where the columns begin, for one width."""

    width: int
    number: int
    """Columns of the job's number."""
    name: int
    slot: int
    tries: bool
    """Whether there is room for the number of attempts."""
    fps: bool
    """Whether there is room for FPS."""
    rest: bool
    """Whether there is room for values and reasons."""


def columns(width: int, jobs: int, slots: tuple[str, ...]) -> Columns:
    """The columns of both tables.

    Args:
        width: In cells.
        jobs: How many jobs there are: their numbers' digits.
        slots: All names of slots.
    """
    number = max(2, len(str(jobs))) + 1
    slot = max([4, *(len(name) for name in slots)]) + 1
    fixed = 2 + number + _STATE + slot + _ELAPSED
    room = width - 1 - fixed - _NAME_MIN
    fps = room >= _FPS
    room -= _FPS if fps else 0
    tries = room >= _TRIES
    room -= _TRIES if tries else 0
    name = _NAME_MIN + max(0, min(_NAME_MAX - _NAME_MIN, room // 3 if room >= 2 * _REST_MIN else room))
    return Columns(width, number, name, slot, tries, fps, room - (name - _NAME_MIN) >= _REST_MIN)


def values_of(job: JobRecord) -> str:
    """The job's values in one line: `method=ode  branch_counts=4`."""
    return "  ".join(f"{name}={as_text(value)}" for name, value in job.values.items())


def now_of(job: JobRecord, worker: Worker | None) -> JobRecord | Worker:
    """Whose state counts: the worker's that the job has now, which is newer than the record; else the record's."""
    return worker if worker is not None and worker.job == job.number and not job.state.ended else job


def elapsed_s(job: JobRecord, worker: Worker | None) -> float | None:
    """How long the job has held slots, seconds."""
    if now_of(job, worker) is not worker or worker is None or worker.attempt_s is None:
        return job.elapsed_s
    return max(worker.attempt_s, job.elapsed_s or 0.0)


def heading(layout: Columns, look: Look) -> Line:
    """The row above the jobs."""
    line = Line(look, layout.width)
    at = 2 + layout.number
    line.right("#", at - 1, "dim").to(at).add("job", "dim").to(at + layout.name).add("state", "dim")
    at += layout.name + _STATE
    line.to(at).add("slot", "dim")
    at += layout.slot
    if layout.tries:
        at += _TRIES
        line.right("tries", at - 1, "dim")
    at += _ELAPSED
    line.right("elapsed", at - 1, "dim")
    if layout.fps:
        at += _FPS
        line.right("FPS", at - 1, "dim")
    if layout.rest:
        line.to(at + 1).add("reason or values", "dim")
    return line


def row(job: JobRecord, worker: Worker | None, layout: Columns, look: Look, *, chosen: bool) -> Line:
    """One job.

    Args:
        job: The job.
        worker: The worker on the job's slot, whose job may be another one by now.
        layout: The columns.
        look: Styles and signs.
        chosen: Whether it is the chosen one.
    """
    line = Line(look, layout.width)
    now = now_of(job, worker)
    at = 2 + layout.number
    line.add(look.signs.pointer if chosen else " ", "selected").right(f"{job.number}", at - 1, "dim").to(at)
    line.add(job.name, "strong" if chosen else "text", limit=layout.name - 1)
    line.to(at + layout.name).add(f"{look.signs.states[now.state]} {now.state.value}", style_of(now.state))
    at += layout.name + _STATE
    line.to(at).add(job.slot or "", "text")
    at += layout.slot
    if layout.tries:
        at += _TRIES
        tries = now.attempt if isinstance(now, Worker) else job.attempts
        line.right(str(tries) if tries else "", at - 1, "dim")
    at += _ELAPSED
    seconds = elapsed_s(job, worker)
    line.right(units.span(seconds) if seconds is not None else "", at - 1)
    fps = now.fps or job.fps
    if layout.fps:
        at += _FPS
        line.right(units.fps(fps.last) if fps is not None else "", at - 1, _fps_style(now.state))
    if layout.rest:
        text, style = said(job)
        line.to(at + 1).add(text, style)
    return line


def _fps_style(state: WorkerState) -> str:
    return "fps" if state is WorkerState.RUNNING else "text"


def style_of(state: WorkerState) -> str:
    """The name of the style for a job's state."""
    return _STYLES.get(state, "title")


def said(job: JobRecord) -> tuple[str, str]:
    """Why the job is as it is, or what it is about, and the name of the style for that."""
    if job.reason:
        return job.reason, "error" if job.state is WorkerState.FAILED else "text"
    return values_of(job), "dim"


def detail(job: JobRecord | None, layout: Columns, look: Look, place: str) -> Line:
    """The row below the jobs: all that there is to say of the chosen one, which its own row may have to cut."""
    line = Line(look, layout.width).end(f" {place} ", "dim")
    if job is None:
        return line.add("  asking the engine", "dim")
    line.add("  ").add(f"#{job.number} {job.name}", "strong")
    for text, style in ((job.reason, said(job)[1]), (values_of(job), "text"), (job.log, "dim")):
        if text:
            line.add("  ").add(text, style)
    return line


def lane_row(lane: Lane, worker: Worker | None, layout: Columns, look: Look) -> Line:
    """One slot: whether it is used, its job, what that does, and what it waits for."""
    line = Line(look, layout.width).add("  ").add(lane.slot, "title" if lane.used else "dim")
    at = 2 + layout.slot
    line.to(at).add("used" if lane.used else "not used", "text" if lane.used else "dim")
    at += _USED
    holds = worker is not None and worker.job is not None and (lane.job is not None or worker.state.live)
    if worker is not None and holds:
        line.to(at).add(words.job_of(worker), "text", limit=layout.name + layout.number - 1)
        at += layout.name + layout.number
        line.to(at).add(f"{words.sign_of(worker, look)} {words.state_of(worker)}", words.style_of(worker))
        at += _STATE + _FPS
        if worker.fps is not None and not words.getting_ready(worker):
            line.right(units.fps(worker.fps.last), at - 1, _fps_style(worker.state))
        left = words.timeout_of(worker)
        if left is not None:
            line.end(f" {left} ", "dim")
        return line
    if lane.used and lane.waits:
        waits = f"waits {lane.waits}" if lane.waits.startswith("for ") else lane.waits
        line.to(at).add(f"{look.signs.states[WorkerState.WAITING]} {waits}", "dim")
    return line
