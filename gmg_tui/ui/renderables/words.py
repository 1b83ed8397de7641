"""What is said of a worker in words: its state, its phase, its figures before and after, and what is not as it should be."""

from __future__ import annotations

import re
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import GpuReading, Phase, Slot, Worker, WorkerState
from gmg_tui.ui.history import History
from gmg_tui.ui.look import Look

_DIFFERS = 0.03
"""The rate won back from a moving average is shown while it is further than this from the printed number."""
_TIMEOUT_NEAR = 0.1
"""The share of a time-out that is left when it becomes a thing to know."""
_PREFIX = re.compile(r"\[Genesis\] \[[\d:]+\] \[[A-Z]+\] ")
"""What Genesis 1.4.5 begins each of its lines with."""
_BEFORE_RUNNING = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING})
_STATE_STYLES = {
    WorkerState.RUNNING: "ok",
    WorkerState.FINISHED: "ok",
    WorkerState.FAILED: "error",
    WorkerState.STOPPING: "warn",
    WorkerState.RESTARTING: "warn",
    WorkerState.STOPPED: "dim",
    WorkerState.WAITING: "dim",
}


class Shown(NamedTuple):
    """All that is drawn of one slot."""

    slot: Slot
    worker: Worker
    reading: GpuReading | None
    """What its card said; None on a CPU slot, and before the first reading."""
    history: History
    chosen: bool
    time: float
    """The snapshot's Unix time, seconds; it steps the spinner."""


class Note(NamedTuple):
    """One thing that a person should know, in a few words."""

    text: str
    style: str


def sign_of(worker: Worker, look: Look) -> str:
    """The one character for the worker's state."""
    return look.signs.stuck if worker.stuck else look.signs.states[worker.state]


def style_of(worker: Worker) -> str:
    """The name of the style for the worker's state."""
    return "error" if worker.stuck else _STATE_STYLES.get(worker.state, "title")


def state_of(worker: Worker) -> str:
    """The state in a word or two: `running`, `STUCK compiling`."""
    return f"STUCK {worker.state.value}" if worker.stuck else worker.state.value


def getting_ready(worker: Worker) -> bool:
    """Whether the worker is in one of the phases before the first progress, which can be silent for minutes."""
    return worker.state in _BEFORE_RUNNING


def held(worker: Worker) -> bool:
    """Whether the worker is kept from going on; its reason says what for."""
    return getting_ready(worker) and worker.reason is not None


def phase_of(worker: Worker) -> str:
    """What the worker does before it runs."""
    return worker.phase.value if worker.phase is not Phase.NONE else worker.state.value


def spinner(shown: Shown, look: Look) -> str:
    """One step for each second of the snapshot's time, so that it turns only while the engine speaks, and work goes on."""
    if held(shown.worker):
        return look.signs.states[WorkerState.WAITING]
    return look.signs.spinner[int(shown.time) % len(look.signs.spinner)]


def usual(worker: Worker) -> tuple[float, str] | None:
    """How far a phase is by the time it took the last time: a fraction, and the words; None when it was never seen."""
    if not worker.phase_usual_s:
        return None
    left = worker.phase_usual_s - worker.phase_s
    usually = f"usually {units.span(worker.phase_usual_s)}"
    words = f"{usually}, {units.span(left)} left" if left >= 1 else usually
    return worker.phase_s / worker.phase_usual_s, words


def current_rate(worker: Worker) -> float | None:
    """The rate of this moment, FPS, while the printed average is far from it; else None."""
    fps = worker.fps
    if fps is None or fps.rate is None or worker.state is not WorkerState.RUNNING:
        return None
    near = abs(fps.rate - fps.last) <= _DIFFERS * max(abs(fps.last), abs(fps.rate))
    return None if near else fps.rate


def rate_now(worker: Worker) -> str | None:
    """The rate of this moment in words, while the printed average is far from it: `now 24.1M FPS`."""
    rate = current_rate(worker)
    return None if rate is None else f"now {units.short(rate)} FPS"


def before_after(worker: Worker, look: Look) -> str | None:
    """What the last change of arguments did: `FPS 21.2M → 24.0M (+13 %)  VRAM 12.1 → 23.9 GiB`."""
    before, now = worker.before, worker.now
    if before is None:
        return None
    arrow = look.signs.arrow
    parts = []
    if before.fps is not None:
        after = now.fps if now else None
        change = f" ({(after / before.fps - 1) * 100:+.0f} %)" if after is not None and before.fps > 0 else ""
        parts.append(f"FPS {units.short(before.fps)} {arrow} {units.short(after)}{change}")
    if before.n_envs is not None and (now is None or now.n_envs != before.n_envs):
        after_envs = f"{now.n_envs:,}" if now and now.n_envs is not None else units.NOT_KNOWN
        parts.append(f"envs {before.n_envs:,} {arrow} {after_envs}")
    if before.memory_peak_mib is not None:
        after_mib = now.memory_peak_mib if now else None
        peak = units.gib(after_mib) if after_mib is not None else units.NOT_KNOWN
        parts.append(f"VRAM {units.gib(before.memory_peak_mib)} {arrow} {peak} GiB")
    return "  ".join(parts) or None


def last_line(worker: Worker) -> str:
    """The worker's newest line without what Genesis begins each line with."""
    return _PREFIX.sub("", worker.last_line, count=1)


def job_of(worker: Worker) -> str:
    """The job's number and name: `#12 wide`; empty where there is no job."""
    return "" if worker.job is None else f"#{worker.job} {worker.job_name}"


def timeout_left_s(worker: Worker) -> float | None:
    """How long the attempt may still take, seconds; None where it may take for ever, or there is none."""
    if worker.timeout_s is None or worker.attempt_s is None or not worker.state.live:
        return None
    return max(0.0, worker.timeout_s - worker.attempt_s)


def timeout_of(worker: Worker) -> str | None:
    """The time left of the time-out in words: `time-out in 12:31`."""
    left_s = timeout_left_s(worker)
    return None if left_s is None else f"time-out in {units.span(left_s)}"


def trouble(shown: Shown) -> list[Note]:
    """What is not as it should be, the worst first."""
    worker, reading = shown.worker, shown.reading
    notes = []
    if reading is not None and reading.lost:
        notes.append(Note("card lost: " + (reading.error or "the driver cannot reach it"), "error"))
    elif reading is not None and reading.error:
        notes.append(Note(reading.error, "warn"))
    if worker.stuck:
        notes.append(Note(worker.stuck, "error"))
    if worker.stopping:
        notes.append(Note(worker.stopping, "warn"))
    if worker.state is WorkerState.RESTARTING and worker.restart_in_s is not None:
        notes.append(
            Note(f"attempt {worker.attempt + 1} begins in {units.span(max(0.0, worker.restart_in_s))}", "warn")
        )
    if worker.reason:
        notes.append(_reason(worker, worker.reason))
    if worker.advice:
        notes.append(Note(worker.advice, "text"))
    notes.extend(Note(warning, "warn") for warning in worker.warnings)
    left_s = timeout_left_s(worker)
    if left_s is not None and worker.timeout_s is not None and left_s < _TIMEOUT_NEAR * worker.timeout_s:
        notes.append(Note(f"time-out in {units.span(left_s)}", "warn"))
    slowed = throttled(reading)
    return notes if slowed is None else [*notes, slowed]


def throttled(reading: GpuReading | None) -> Note | None:
    """What keeps the card from its full clock; None where nothing does, or the card does not say."""
    return (
        Note("throttled: " + ", ".join(reading.throttle), "warn") if reading is not None and reading.throttle else None
    )


def _reason(worker: Worker, reason: str) -> Note:
    if worker.state is WorkerState.FAILED:
        return Note(reason, "error")
    waits = worker.state in {WorkerState.WAITING, WorkerState.RESTARTING} and reason.startswith("for ")
    return Note(f"waits {reason}" if waits else reason, "text")


def card_name(slot: Slot) -> str:
    """The card's name without its maker, or what a CPU slot is."""
    if slot.gpu is None:
        return "CPU"
    return slot.gpu.name.removeprefix("NVIDIA ")
