"""A session as lines of text: what the workers print, what becomes of them, and how fast they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gmg_tui import units
from gmg_tui.headless.jobs import counts
from gmg_tui.model import Session, Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.protocol import Lines

_STATUS_EVERY_S = 5.0
"""A status line comes at most so often …"""
_STATUS_AT_LEAST_S = 60.0
"""… and, while nothing but the time changes, no more than so often, as a sign of life."""


class Reporter:
    """Turns what an engine sends into lines; keeps what it has said, and says nothing twice."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._next_line: Counter[str] = Counter()
        self._workers: dict[str, Worker] = {}
        self._said: set[tuple[str, str]] = set()
        self._status = ""
        self._status_time = float("-inf")

    def output(self, message: Lines) -> Iterator[str]:
        """A worker's lines, each after its slot; a line of its own says how many were left out before them."""
        yield from self._left_out(message.slot, message.first)
        self._next_line[message.slot] = message.first + len(message.lines)
        for line in message.lines:
            yield f"{message.slot:<{self._width}} │ {line}"

    def missed(self, snapshot: Snapshot) -> Iterator[str]:
        """How many of the newest lines of each worker were left out."""
        for worker in snapshot.workers:
            yield from self._left_out(worker.slot, worker.log_lines)

    def events(self, snapshot: Snapshot) -> Iterator[str]:
        """What has become of the workers and of the session since the snapshot before.

        Of a sweep's workers only what is out of the ordinary: their jobs' starts and ends are told by `Jobs`.
        """
        happened = _happened if snapshot.queue is None else _out_of_the_ordinary
        for worker in snapshot.workers:
            before = self._workers.get(worker.slot)
            if before is not None and before.job != worker.job:
                before = None
            for text in happened(before, worker):
                yield self._line(worker.slot, text)
            whose = worker.slot if worker.job is None else f"{worker.slot} {worker.job}"
            for warning in worker.warnings:
                if self._first(whose, warning):
                    yield self._line(worker.slot, f"warning: {warning}")
            self._workers[worker.slot] = worker
        notes = (*snapshot.notes, snapshot.nvml_error) if snapshot.nvml_error else snapshot.notes
        for note in notes:
            if self._first("", note):
                yield f"{self._session.spec.name}: {note}"

    def status(self, snapshot: Snapshot) -> str | None:
        """The line with the sum and the states; None when it is not due or says nothing that was not said."""
        since_s = snapshot.time - self._status_time
        if since_s < _STATUS_EVERY_S:
            return None
        text = "  ".join(self._totals(snapshot))
        if text == self._status and since_s < _STATUS_AT_LEAST_S:
            return None
        self._status, self._status_time = text, snapshot.time
        eta_s = snapshot.queue.eta_s if snapshot.queue is not None else None
        left = f"  {units.clock(eta_s)} left" if eta_s is not None else ""
        return f"{text}  {units.clock(snapshot.elapsed_s)}{left}"

    def _totals(self, snapshot: Snapshot) -> Iterator[str]:
        yield self._session.spec.name
        yield f"Σ {units.fps(total_fps(snapshot.counted))} FPS"
        per_watt = fps_per_watt(snapshot.workers, powers_w(self._session, snapshot))
        if per_watt is not None:
            yield f"{units.short(per_watt)} FPS/W"
        if snapshot.queue is None:
            yield states(worker.state for worker in snapshot.workers)
        else:
            yield counts(snapshot.queue)
        stuck = sum(worker.stuck is not None for worker in snapshot.workers)
        if stuck:
            yield f"⚠ {stuck} stuck"

    def _left_out(self, slot: str, up_to: int) -> Iterator[str]:
        missing = up_to - self._next_line[slot]
        if missing > 0:
            self._next_line[slot] = up_to
            left_out = units.count(missing, "line")
            file = f"{slot}.log" if self._session.spec.sweep is None else ""  # each job of a sweep has its own
            yield f"{slot:<{self._width}} │ … {left_out} left out; all are in logs/{file}"

    def _line(self, slot: str, text: str) -> str:
        return f"{slot:<{self._width}}   {text}"

    def _first(self, slot: str, text: str) -> bool:
        if (slot, text) in self._said:
            return False
        self._said.add((slot, text))
        return True


def powers_w(session: Session, snapshot: Snapshot) -> dict[str, float]:
    """The power of each slot's card, watts, where the card says it."""
    readings = {slot.name: snapshot.reading(slot.gpu) for slot in session.slots}
    return {name: reading.power_w for name, reading in readings.items() if reading and reading.power_w is not None}


def states(found: Iterator[str]) -> str:
    """How many workers are in each state: `1 failed, 7 running`."""
    return ", ".join(f"{number} {state}" for state, number in sorted(Counter(found).items()))


def signal_sent(worker: Worker) -> str:
    """The signal that the worker's `stopping` names first; the rest of that text counts down."""
    return (worker.stopping or "").partition(" ")[0].rstrip(",;:")


def _happened(before: Worker | None, worker: Worker) -> Iterator[str]:
    moved = before is None or (before.state, before.attempt) != (worker.state, worker.attempt)
    if moved or (before and signal_sent(before) != signal_sent(worker)):
        yield _state(worker)
    if worker.stuck and not (before and before.stuck):
        yield f"⚠ stuck: {worker.stuck}"
    if before and before.stuck and not worker.stuck and not worker.state.ended:
        yield "no longer stuck"


def _out_of_the_ordinary(before: Worker | None, worker: Worker) -> Iterator[str]:
    if worker.state is WorkerState.RESTARTING and (before is None or before.state is not WorkerState.RESTARTING):
        yield _state(worker)
    if worker.stuck and not (before and before.stuck):
        yield f"⚠ stuck: {worker.stuck}"
    if before and before.stuck and not worker.stuck and not worker.state.ended:
        yield "no longer stuck"


def _ago(worker: Worker) -> str:
    """How long after its attempt's start the worker came into its state."""
    if worker.attempt_s is None:
        return ""
    since_s = worker.attempt_s if worker.state.ended else worker.attempt_s - worker.state_s
    return f" after {units.span(since_s)}"


def _state(worker: Worker) -> str:
    reason = f": {worker.reason}" if worker.reason else ""
    match worker.state:
        case WorkerState.STARTING:
            return f"starting, attempt {worker.attempt}" if worker.attempt > 1 else "starting"
        case WorkerState.RESTARTING:
            wait = "" if worker.restart_in_s is None else f" in {units.span(worker.restart_in_s)}"
            return f"restarting{wait}, attempt {worker.attempt + 1}{reason}"
        case WorkerState.STOPPING:
            return f"stopping: {worker.stopping}" if worker.stopping else "stopping"
        case WorkerState.COMPILING if worker.phase_usual_s is not None:
            return f"compiling{_ago(worker)}; this took {units.span(worker.phase_usual_s)} the last time"
        case WorkerState.WAITING:
            return f"waiting{reason}"
        case _:
            return f"{worker.state}{_ago(worker)}{reason}"
