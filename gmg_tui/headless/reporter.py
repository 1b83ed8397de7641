"""A session as lines of text: the workers' output, their state changes, and their throughput."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from gmg_tui import units
from gmg_tui.genesis.output import progress
from gmg_tui.headless.groups import Groups
from gmg_tui.headless.jobs import counts
from gmg_tui.model import Session, Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.protocol import Lines
from gmg_tui.slurm import allocation

_DIGITS = re.compile(r"[\d:.]+")
"""What may change in a text without making it another one."""
_LOST = re.compile(r"^(\S+: lost since [\d:]+).*")
"""The note on a lost node, which is the same one whatever is said of it later."""
_STATUS_EVERY_S = 5.0
"""The shortest time between two status lines …"""
_STATUS_AT_LEAST_S = 60.0
"""… and between two that differ in nothing but the time."""


class Reporter:
    """Turns an engine's messages into lines, and repeats none.

    Of the workers' lines those that say nothing but their progress are left out, unless it is `verbose`: the status
    line stands for them.
    """

    def __init__(self, session: Session, *, verbose: bool = False) -> None:
        self._session = session
        self._verbose = verbose
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._next_line: Counter[str] = Counter()
        self._workers: dict[str, Worker] = {}
        self._groups = Groups()
        self._held_back: set[str] = set()
        """The slots whose failure is told with the next snapshot, as the lines that explain it have not come yet."""
        self._said: set[tuple[str, str]] = set()
        self._status = ""
        self._status_time = float("-inf")

    def output(self, message: Lines) -> Iterator[str]:
        """A worker's lines, each after its slot; a separate line says how many were left out before them."""
        if not message.after_progress or self._verbose:
            yield from self._left_out(message.slot, message.first)
        self._next_line[message.slot] = message.first + len(message.lines)
        for line in message.lines:
            if not self._verbose and progress.is_mere(line):
                continue
            yield f"{message.slot:<{self._width}} │ {line}"

    def missed(self, snapshot: Snapshot) -> Iterator[str]:
        """How many of the newest lines of each worker were left out."""
        for worker in snapshot.workers:
            yield from self._left_out(worker.slot, worker.log_lines)

    def events(self, snapshot: Snapshot) -> Iterator[str]:
        """The changes of the workers and the session since the previous snapshot.

        For a sweep's workers only problems: `Jobs` reports the starts and ends of jobs. What the ranks of a group do is
        said of the group, once. A failure waits for its last
        lines, but no longer than until the next snapshot.
        """
        told = frozenset(slot for group in snapshot.groups for slot in group.slots)
        for worker in snapshot.workers:
            yield from self._of_worker(worker, snapshot, in_group=worker.slot in told)
        if told:
            # A failure is told once the lines of all its ranks have come.
            late = frozenset(group.id for group in snapshot.groups if not self._held_back.isdisjoint(group.slots))
            for name, text in self._groups.events(snapshot, late):
                yield self._line(name, text)
        yield from self._of_gpus(snapshot)
        for slot, why in (snapshot.queue.benched if snapshot.queue is not None else {}).items():
            if self._first(slot, why):
                yield self._line(slot, f"benched: {why}")
        simulated = self._session.spec.simulate
        if simulated is not None and self._first("", "simulated"):
            yield f"{self._session.spec.name}: simulated: {units.count(simulated, 'GPU')}, and what runs on them"
        notes = (*snapshot.notes, snapshot.nvml_error) if snapshot.nvml_error else snapshot.notes
        for note in notes:
            if self._first("", _LOST.sub(r"\1", note)):
                yield f"{self._session.spec.name}: {note}"

    def _of_gpus(self, snapshot: Snapshot) -> Iterator[str]:
        """What is wrong with the GPUs, each once; figures that grow are no news."""
        troubles = {one.uuid: one.health.troubles for one in snapshot.samples if one.health and one.health.troubles}
        slots = [
            (slot.name, troubles[slot.gpu.uuid])
            for slot in self._session.slots
            if slot.gpu and slot.gpu.uuid in troubles
        ]
        for slot, found in slots:
            for trouble in found:
                if self._first(slot, _DIGITS.sub("", trouble.text)):
                    yield self._line(slot, f"warning: {trouble.text}; {trouble.advice}")

    def _of_worker(self, worker: Worker, snapshot: Snapshot, *, in_group: bool) -> Iterator[str]:
        """The changes of a worker; of a rank only what its group does not say."""
        before = self._workers.get(worker.slot)
        if before is not None and before.job != worker.job:
            before = None
        if self._awaits_lines(before, worker):
            return
        if not in_group and worker.lost_since is None:  # the note on its node says so of all of them
            for text in (_changes if snapshot.queue is None else _problems)(before, worker):
                yield self._line(worker.slot, text)
        whose = worker.slot if worker.job is None else f"{worker.slot} {worker.job}"
        for warning in worker.warnings:
            if self._first(whose, warning):
                yield self._line(worker.slot, f"warning: {warning}")
        self._workers[worker.slot] = worker

    def _awaits_lines(self, before: Worker | None, worker: Worker) -> bool:
        failed = worker.state is WorkerState.FAILED and (before is None or before.state is not WorkerState.FAILED)
        if not failed or self._next_line[worker.slot] >= worker.log_lines or worker.slot in self._held_back:
            self._held_back.discard(worker.slot)
            return False
        self._held_back.add(worker.slot)
        return True

    def status(self, snapshot: Snapshot) -> str | None:
        """The line with the sum and the states; None when it is not due or has not changed."""
        since_s = snapshot.time - self._status_time
        if since_s < _STATUS_EVERY_S:
            return None
        text, late = "  ".join(self._totals(snapshot)), _late(snapshot)
        says = text + _DIGITS.split(late, maxsplit=1)[0]
        if says == self._status and since_s < _STATUS_AT_LEAST_S:
            return None
        self._status, self._status_time = says, snapshot.time
        eta_s = snapshot.queue.eta_s if snapshot.queue is not None else None
        left = f"  {units.clock(eta_s)} left" if eta_s is not None else ""
        job = allocation.left(snapshot.allocation, snapshot.time)
        slurm = f"  {job.text}" if job is not None else ""
        return f"{text}  {units.clock(snapshot.elapsed_s)}{left}{slurm}{late}"

    def _totals(self, snapshot: Snapshot) -> Iterator[str]:
        yield self._session.spec.name
        if self._session.spec.simulate is not None:
            yield "simulated"
        yield f"Σ {units.fps(total_fps(snapshot.counted))} FPS"
        per_watt = fps_per_watt(self._session, snapshot)
        if per_watt is not None:
            yield f"{units.short(per_watt)} FPS/W"
        if snapshot.queue is None:
            yield states(worker.state_word for worker in snapshot.workers)
            shares = [
                100 * one.done / one.total for worker in snapshot.workers if (one := worker.progress) and one.total
            ]
            if shares:
                yield f"{units.whole(min(shares))} % done"
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


def _late(snapshot: Snapshot) -> str:
    """How long the driver has been silent, or how old the GPUs' metrics are, as the end of a line; empty if they are new."""
    oldest = max(snapshot.samples, key=lambda sample: sample.age_s or 0.0, default=None)
    if oldest is None or oldest.age_s is None:
        return ""
    age = units.span(oldest.age_s)
    return f"  {oldest.error} for {age}" if oldest.silent else f"  GPU metrics are {age} old"


def states(found: Iterator[str]) -> str:
    """How many workers are in each state: `1 failed, 7 running`."""
    return ", ".join(f"{number} {state}" for state, number in sorted(Counter(found).items()))


def signal_sent(worker: Worker) -> str:
    """The signal that was sent, from the worker's `stopping`, whose rest counts down."""
    return (worker.stopping or "").partition(" ")[0].rstrip(",;:")


def _changes(before: Worker | None, worker: Worker) -> Iterator[str]:
    moved = before is None or (before.state, before.attempt) != (worker.state, worker.attempt)
    if moved or (before and signal_sent(before) != signal_sent(worker)):
        yield _state(worker)
    elif before is not None:
        yield from _awaited(before, worker)
    if worker.silent_s is not None and (before is None or before.silent_s is None):
        yield f"busy, no line for {units.span(worker.silent_s)} (last: {worker.phase})"
    yield from _stuck(before, worker)


def _problems(before: Worker | None, worker: Worker) -> Iterator[str]:
    if worker.state is WorkerState.RESTARTING and (before is None or before.state is not WorkerState.RESTARTING):
        yield _state(worker)
    elif before is not None and worker.job is not None:
        yield from _awaited(before, worker)
    yield from _stuck(before, worker)


def _awaited(before: Worker, worker: Worker) -> Iterator[str]:
    """What a worker that does not run waits for now, if that is something else; an amount that changes is not."""
    waits = worker.state in {WorkerState.WAITING, WorkerState.RESTARTING}
    if waits and worker.reason and _DIGITS.sub("", worker.reason) != _DIGITS.sub("", before.reason or ""):
        yield _state(worker)


def _stuck(before: Worker | None, worker: Worker) -> Iterator[str]:
    was_stuck = before is not None and before.stuck is not None
    if worker.stuck and not was_stuck:
        yield f"⚠ stuck: {worker.stuck}"
    if was_stuck and not worker.stuck and not worker.state.ended:
        yield "no longer stuck"


def _ago(worker: Worker) -> str:
    """How long after its attempt's start the worker entered its state."""
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
            return f"compiling{_ago(worker)}; this took {units.span(worker.phase_usual_s)} last time"
        case WorkerState.WAITING:
            return f"waiting{reason}"
        case _:
            return f"{worker.state}{_ago(worker)}{reason}"
