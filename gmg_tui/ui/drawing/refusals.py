"""Why a key can do nothing with a worker, and what running it would end, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gmg_tui import units
from gmg_tui.model import Worker, WorkerState
from gmg_tui.ui.drawing import groups, words
from gmg_tui.ui.keys import now

SHORT_S: Final = 60.0
"""Up to so many seconds of an attempt may be lost without a question."""
_ENDED: Final = {
    WorkerState.FINISHED: "has finished",
    WorkerState.FAILED: "has failed",
    WorkerState.STOPPED: "is stopped",
}


def why_not(key: str, slot: str, worker: Worker | None, *, queued: bool) -> str:
    """Why `key` (`r`, `x`, `X` or `e`) can do nothing on `slot`; empty where it can. `queued`: in a sweep."""
    if worker is None or (queued and worker.job is None):
        again = f"; {now('Q')} shows the jobs, and {now('r', 'in-queue')} there runs one again" if key == "r" else ""
        return f"{now(key)}: no job runs on {slot}{again}."
    if worker.state in _ENDED:
        done = _ENDED[worker.state]
        if queued and (key != "r" or worker.state is WorkerState.FINISHED):
            return f"{now(key)}: job {worker.job} {done}; {now('Q')}, then r runs it again."
        if key in {"x", "X"}:
            return f"{now(key)}: {slot} {done} already; {now('r')} starts it again."
    if key == "x" and worker.state is WorkerState.STOPPING:
        return f"{now(key)}: {slot} is being stopped already; {now('X')} kills it."
    return ""


def lost_s(worker: Worker) -> float:
    """How much running ends with the worker's process, seconds; 0 where it is too little to ask."""
    going = worker.state.live and worker.state is not WorkerState.STOPPING and not words.held(worker)
    ran_s = worker.attempt_s or 0.0
    return ran_s if going and ran_s > SHORT_S else 0.0


def question(verb: str, workers: Sequence[Worker]) -> str:
    """What to ask before `verb` (`Restart`, `Stop`) is done to `workers`; empty where that costs nothing.

    It does where more than a minute of running is lost, and where a worker would run out of memory again. Ranks are to
    be given with all others of their groups, which it is done to as well.
    """
    longest = max(workers, key=lost_s, default=None)
    if longest is None:
        return ""
    ran_s = lost_s(longest)
    walled = [worker.slot for worker in workers if worker.out_of_memory] if verb == "Restart" else []
    reasons = []
    one = len(workers) == 1
    if ran_s:
        reasons.append(f"{'It' if one else longest.slot} has been running for {units.span(ran_s)}.")
    if walled:
        reasons.append(
            f"{'It' if one else ', '.join(walled)} ran out of memory with the same settings; {now('e')} changes them."
        )
    if not reasons:
        return ""
    return " ".join([f"{verb} {_named(workers, longest)}?", *reasons])


def _named(workers: Sequence[Worker], one: Worker) -> str:
    """The workers in a question; `one` is that of them which has a name there if it is alone."""
    if together := groups.together_text(workers):
        return together
    if len(workers) > 1:
        return f"{len(workers)} workers"
    return one.slot if one.job is None else f"job {one.job} ({one.job_name}) on {one.slot}"


def kill_question(workers: Sequence[Worker]) -> str:
    """What to ask before workers are killed; ranks are given as to `question`."""
    what = groups.together_text(workers) or (workers[0].slot if len(workers) == 1 else f"{len(workers)} workers")
    return f"Kill {what} now? Genesis will not save {'its' if len(workers) == 1 else 'their'} compiled kernels."
