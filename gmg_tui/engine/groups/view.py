"""What clients see of a group."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from gmg_tui.engine.groups.group_run import GroupRun
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.model import Progress, RankGroup, RateOf, WorkerState

_NOTABLE_PCT = 3.0
"""Ranks whose rates differ by less are equally fast."""
_ORDER = (
    WorkerState.STOPPING,
    WorkerState.RESTARTING,
    WorkerState.WAITING,
    WorkerState.STARTING,
    WorkerState.BUILDING,
    WorkerState.COMPILING,
    WorkerState.RUNNING,
    WorkerState.FAILED,
    WorkerState.STOPPED,
    WorkerState.FINISHED,
)
"""A group is in the first of these states in which one of its ranks is."""


def group_view(group: GroupRun, workers: Sequence[SlotWorker], now: float) -> RankGroup:
    """The group at this moment; `workers` are its ranks in their order, `now` is monotonic seconds."""
    state = group_state(workers)
    group.enter(state, max(worker.state_since for worker in workers))
    slowest, behind_pct = _slowest(workers)
    at = group.policy.at
    return RankGroup(
        id=group.id,
        slots=tuple(worker.slot.name for worker in workers),
        state=state,
        state_s=now - group.state_since,
        job=workers[0].task.job,
        restarts=group.restarts,
        restart_in_s=max(0.0, at - now) if at is not None else None,
        fps=_rate(workers) if state is WorkerState.RUNNING else None,
        rate_of=RateOf.RANK_0 if _reports_for_all(workers) else RateOf.SUM,
        progress=_progress(workers),
        slowest=slowest,
        behind_pct=behind_pct,
        waits_for=group.waits_for,
        stuck=group.stuck if not group.called_off else None,
        reason=group.cause if state in (WorkerState.FAILED, WorkerState.RESTARTING, WorkerState.STOPPING) else None,
        advice=next((worker.advice for worker in workers if worker.advice), None),
    )


def group_state(workers: Sequence[SlotWorker]) -> WorkerState:
    """The state of the group whose ranks these are."""
    states = [worker.state for worker in workers]
    # A rank that reports for all steps with the others, who print nothing.
    runs = _reports_for_all(workers) and WorkerState.RUNNING in states and WorkerState.STOPPING not in states
    return WorkerState.RUNNING if runs else min(states, key=_ORDER.index)


def _reports_for_all(workers: Sequence[SlotWorker]) -> bool:
    return any(worker.fps_of_group for worker in workers)


def _rate(workers: Sequence[SlotWorker]) -> float | None:
    """Environment steps per second of the whole group: never the sum of numbers that are the group's already."""
    whole = _reports_for_all(workers)
    counted = [one for one in workers if one.fps_of_group == whole]
    rates = [fps.best_known for one in counted if (fps := one.fps) is not None]
    return sum(rates) if rates else None


def _progress(workers: Sequence[SlotWorker]) -> Progress | None:
    """That of the first rank that says how far it is."""
    return next((progress for worker in workers if (progress := worker.progress) is not None), None)


def _slowest(workers: Sequence[SlotWorker]) -> tuple[int | None, float | None]:
    """The rank with the lowest rate, and how far it is below the median, per cent; None where that says nothing."""
    rates = [worker.fps.best_known if worker.fps is not None else None for worker in workers]
    known = [rate for rate in rates if rate is not None]
    if _reports_for_all(workers) or len(known) < len(rates) or len(known) < 2:
        return None, None
    lowest, middle = min(known), median(known)
    behind_pct = 100 * (1 - lowest / middle) if middle > 0 else 0.0
    return (rates.index(lowest), behind_pct) if behind_pct >= _NOTABLE_PCT else (None, None)
