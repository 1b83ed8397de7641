"""What has changed of a worker, or of a group of ranks, from one snapshot to the next, as lines of text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from gmg_tui import units
from gmg_tui.model import RankGroup, RateOf, Worker, WorkerState

DIGITS = re.compile(r"[\d:.]+")
"""What may change in a text without making it a different one."""


def of_worker(before: Worker | None, worker: Worker, now: float) -> Iterator[str]:
    """The changes of a worker of a plain run; `now` is the snapshot's time."""
    moved = before is None or (before.state, before.attempt) != (worker.state, worker.attempt)
    if moved or (before and signal_sent(before) != signal_sent(worker)):
        yield _state(worker, now)
    elif before is not None:
        yield from _awaited(before, worker, now)
    yield from _stuck(before, worker)


def problems(before: Worker | None, worker: Worker, now: float) -> Iterator[str]:
    """The changes of a sweep's worker that are not its job's start or end."""
    if worker.state is WorkerState.RESTARTING and (before is None or before.state is not WorkerState.RESTARTING):
        yield _state(worker, now)
    elif before is not None and worker.job is not None:
        yield from _awaited(before, worker, now)
    yield from _stuck(before, worker)


def of_group(before: RankGroup | None, group: RankGroup, now: float) -> Iterator[str]:
    """The changes of a group: each once, with its cause, not once for each rank."""
    if before is None or (before.state, before.restarts) != (group.state, group.restarts):
        yield _group_state(group, now)
    elif group.waits_for and group.waits_for != before.waits_for:
        yield f"waiting for {_ranks(group.waits_for)}"
    if group.fps is not None and (before is None or before.fps is None):
        whose = "rank 0's, for all" if group.rate_of is RateOf.RANK_0 else "the sum of all ranks"
        yield f"{units.fps(group.fps)} FPS ({whose})"
    yield from _stuck(before, group)


def signal_sent(worker: Worker) -> str:
    """The signal that was sent, from the worker's `stopping`, whose rest counts down."""
    return (worker.stopping or "").partition(" ")[0].rstrip(",;:")


def _awaited(before: Worker, worker: Worker, now: float) -> Iterator[str]:
    """What a worker that does not run waits for now, if that is something else; an amount that changes is not."""
    waits = worker.state in {WorkerState.WAITING, WorkerState.RESTARTING}
    if waits and worker.reason and DIGITS.sub("", worker.reason) != DIGITS.sub("", before.reason or ""):
        yield _state(worker, now)


def _stuck(before: Worker | RankGroup | None, now: Worker | RankGroup) -> Iterator[str]:
    was_stuck = before is not None and before.stuck is not None
    if now.stuck and not was_stuck:
        yield f"⚠ stuck: {now.stuck}"
    if was_stuck and not now.stuck and not now.state.ended:
        yield "no longer stuck"


def _state(worker: Worker, now: float) -> str:
    reason = f": {worker.reason}" if worker.reason else ""
    after = ""
    if worker.current is not None:
        after = f" after {units.span(worker.current.elapsed_s(worker.state_since))}"
    match worker.state:
        case WorkerState.STARTING:
            return f"starting, attempt {worker.attempt}" if worker.attempt > 1 else "starting"
        case WorkerState.RESTARTING:
            return f"restarting{_in(worker.restart_at, now)}, attempt {worker.attempt + 1}{reason}"
        case WorkerState.STOPPING:
            return f"stopping: {worker.stopping}" if worker.stopping else "stopping"
        case WorkerState.COMPILING if worker.phase_usual_s is not None:
            return f"compiling{after}; this took {units.span(worker.phase_usual_s)} last time"
        case WorkerState.WAITING:
            return f"waiting{reason}"
        case _:
            return f"{worker.state}{after}{reason}"


def _group_state(group: RankGroup, now: float) -> str:
    reason = f": {group.reason}" if group.reason else ""
    ranks = units.count(len(group.slots), "rank")
    match group.state:
        case WorkerState.STARTING:
            return f"starting {ranks}, attempt {group.restarts + 1}" if group.restarts else f"starting {ranks}"
        case WorkerState.RESTARTING:
            return f"restarting{_in(group.restart_at, now)}, attempt {group.restarts + 2}{reason}"
        case WorkerState.STOPPING:
            return f"ending {ranks}"
        case WorkerState.WAITING if group.waits_for:
            return f"waiting for {_ranks(group.waits_for)}"
        case _:
            return f"{group.state}{reason}"


def _in(at: float | None, now: float) -> str:
    return "" if at is None else f" in {units.span(max(0.0, at - now))}"


def _ranks(ranks: Collection[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
