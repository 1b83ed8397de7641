"""A session as lines of text: the workers' output, their state changes, and their throughput."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from gmg_tui import units
from gmg_tui.genesis.output import lines as genesis_lines
from gmg_tui.headless import changes
from gmg_tui.headless.changes import DIGITS
from gmg_tui.headless.jobs import counts
from gmg_tui.model import RankGroup, Session, Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.protocol import Lines
from gmg_tui.slurm import allocation

_LOST = re.compile(r"^(\S+: lost since [\d:]+).*")
"""The note on a lost node, the same whatever follows."""
_STATUS_EVERY_S = 5.0
"""The shortest time between two status lines …"""
_STATUS_AT_LEAST_S = 60.0
"""… and between two that differ in nothing but the time."""


class Reporter:
    """Turns an engine's messages into lines, and repeats none.

    Lines of the workers with nothing but their progress are left out, unless it is `verbose`: the status
    line stands for them.
    """

    def __init__(self, session: Session, *, verbose: bool = False) -> None:
        self._session = session
        self._verbose = verbose
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._next_line: Counter[str] = Counter()
        self._workers: dict[str, Worker] = {}
        self._groups: dict[str, RankGroup] = {}
        self._held_back: set[str] = set()
        """The slots whose failure is reported with the next snapshot, as the lines that explain it have not come yet."""
        self._reported: set[tuple[str, str]] = set()
        self._status = ""
        self._status_time = float("-inf")

    def output(self, message: Lines) -> Iterator[str]:
        """A worker's lines, each after its slot; a separate line has how many were left out before them."""
        yield from self._left_out(message.slot, message.first)
        self._next_line[message.slot] = message.first + len(message.lines)
        for line in message.lines:
            if not self._verbose and genesis_lines.is_mere(line):
                continue
            yield f"{message.slot:<{self._width}} │ {line}"

    def missed(self, snapshot: Snapshot) -> Iterator[str]:
        """How many of the newest lines of each worker were left out."""
        for worker in snapshot.workers:
            yield from self._left_out(worker.slot, worker.log_lines)

    def events(self, snapshot: Snapshot) -> Iterator[str]:
        """The changes of the workers and the session since the previous snapshot.

        For a sweep's workers only problems: `Jobs` reports the starts and ends of jobs. What the ranks of a group do is
        reported of the group, once. A failure waits for its last lines, but no longer than until the next snapshot.
        """
        in_groups = frozenset(slot for group in snapshot.groups for slot in group.slots)
        for worker in snapshot.workers:
            yield from self._of_worker(worker, snapshot, in_group=worker.slot in in_groups)
        for group in snapshot.groups:
            before = self._groups.get(group.id)
            # A failure is reported once the lines of all its ranks have come.
            if group.state is not WorkerState.FAILED or self._held_back.isdisjoint(group.slots):
                same = before if before is not None and before.job == group.job else None
                for text in changes.of_group(same, group, snapshot.time):
                    yield self._line(group.id, text)
                self._groups[group.id] = group
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
        """What is wrong with the GPUs, each once; a growing figure is not reported again."""
        troubles = {sample.uuid: sample.health.troubles for sample in snapshot.samples if sample.health}
        for slot in self._session.slots:
            for trouble in troubles.get(slot.gpu.uuid, ()) if slot.gpu else ():
                if self._first(slot.name, DIGITS.sub("", trouble.text)):
                    yield self._line(slot.name, f"warning: {trouble.text}; {trouble.advice}")

    def _of_worker(self, worker: Worker, snapshot: Snapshot, *, in_group: bool) -> Iterator[str]:
        """The changes of a worker; of a rank only what is not its group's."""
        before = self._workers.get(worker.slot)
        if before is not None and before.job != worker.job:
            before = None
        if self._awaits_lines(before, worker):
            return
        if not in_group and worker.lost_since is None:  # the note on its node stands for all of them
            report = changes.of_worker if snapshot.queue is None else changes.problems
            for text in report(before, worker, snapshot.time):
                yield self._line(worker.slot, text)
        whose = worker.slot if worker.job is None else f"{worker.slot} {worker.job}"
        for warning in worker.warnings:
            if self._first(whose, warning):
                yield self._line(worker.slot, f"warning: {warning}")
        if worker.advice and worker.state.live and self._first(whose, worker.advice):
            yield self._line(worker.slot, worker.advice)
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
        key = text + DIGITS.split(late, maxsplit=1)[0]
        if key == self._status and since_s < _STATUS_AT_LEAST_S:
            return None
        self._status, self._status_time = key, snapshot.time
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
                100 * progress.done / progress.total
                for worker in snapshot.workers
                if (progress := worker.progress) and progress.total
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
        if (slot, text) in self._reported:
            return False
        self._reported.add((slot, text))
        return True


def _late(snapshot: Snapshot) -> str:
    """How long the driver has been silent, or how old the GPUs' metrics are, as the end of a line; empty if they are new."""
    oldest = max(snapshot.samples, key=lambda sample: sample.age_s or 0.0, default=None)
    if oldest is None or oldest.age_s is None:
        return ""
    age = units.span(oldest.age_s)
    return f"  {oldest.error} for {age}" if oldest.silent else f"  GPU metrics are {age} old"


def states(names: Iterator[str]) -> str:
    """How many workers are in each state: `1 failed, 7 running`."""
    return ", ".join(f"{number} {state}" for state, number in sorted(Counter(names).items()))
