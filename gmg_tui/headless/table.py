"""A session's results: the table and the few lines that are printed when all workers have ended."""

from __future__ import annotations

from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui import tables, units
from gmg_tui.model import Queue, RankGroup, Session, Snapshot, Worker, WorkerState, own_rates, total_fps
from gmg_tui.results.tuning import TUNE
from gmg_tui.tune import answer_text

_HEADER = ("slot", "state", "FPS", "FPS last", "mean", "max", "envs")
_RANK_HEADER = ("group", "rank")
_COUNTED = "in rank 0"
"""In the place of the FPS of a rank for which rank 0 reports."""
_GPU_HEADER = ("GPU", "GPU %", "VRAM peak", "W mean", "energy")


def final(session: Session, snapshot: Snapshot) -> list[str]:
    """The lines with each worker's metrics and their total, why some failed, and where the files are.

    For a sweep only the last: its results have their own table. For a tuning its answer.
    """
    folder = Path(session.spec.folder)
    if snapshot.tuning is not None:
        return [*answer_text.lines(snapshot.tuning), f"tuning: {folder / TUNE}", f"logs: {folder / sessions.LOGS}/"]
    if snapshot.queue is not None:
        return [*_stranded(snapshot.queue), f"logs: {folder / sessions.LOGS}/"]
    return [
        *_table(session, snapshot.workers),
        _sum(snapshot),
        *_failed_groups(snapshot.groups),
        *_reasons(snapshot),
        *([session.idle_text] if session.idle_text else []),
        f"summary: {folder / sessions.SUMMARY}",
        f"logs: {folder / sessions.LOGS}/",
    ]


def _stranded(queue: Queue) -> list[str]:
    """Why the waiting jobs of a sweep do not start on any GPU, and what to do; nothing where that is not so."""
    if not queue.stranded:
        return []
    return [
        "no job can start: every GPU that the jobs may use is benched",
        *(f"{slot}: {why}" for slot, why in queue.benched.items()),
        "mend them (nvidia-smi, the kernel's log, gmg-tui doctor), or give others with --gpus, and continue the sweep",
    ]


def exit_status(snapshot: Snapshot, *, interrupted: bool) -> int:
    """The command's exit status: 0 all (of a sweep: all jobs) finished, 1 one failed, 130 interrupted by the user.

    That of a tuning is 0 with an answer, whatever its trials did, and 1 without one. After an interruption from here, a
    worker that fails while it is stopped does not count as a failure.
    """
    if interrupted:
        return 130
    if snapshot.tuning is not None:
        answered = any(answer.fastest is not None for answer in snapshot.tuning.answers)
        return 130 if snapshot.tuning.stopped else 0 if answered else 1
    if snapshot.queue is not None:
        queue = snapshot.queue
        return 1 if queue.failed or queue.stranded else 0 if queue.finished == queue.jobs else 130
    states = {worker.state for worker in snapshot.workers}
    if WorkerState.FAILED in states:
        return 1
    return 130 if WorkerState.STOPPED in states else 0


def _table(session: Session, workers: tuple[Worker, ...]) -> list[str]:
    with_gpus = any(slot.gpu for slot in session.slots)
    with_ranks = any(worker.group for worker in workers)
    rows = [(_HEADER[0], *(_RANK_HEADER if with_ranks else ()), *_HEADER[1:], *(_GPU_HEADER if with_gpus else ()))]
    rows += [
        (
            worker.slot,
            *(_rank_cells(worker) if with_ranks else ()),
            *_cells(worker),
            *(_gpu_cells(session, worker) if with_gpus else ()),
        )
        for worker in workers
    ]
    return tables.lines(rows, f"l{'ll' if with_ranks else ''}lrrrrrlrrrr")


def _rank_cells(worker: Worker) -> tuple[str, ...]:
    rank = worker.group
    return (units.NOT_KNOWN,) * 2 if rank is None else (rank.id, f"{rank.rank}/{rank.world_size}")


def _cells(worker: Worker) -> tuple[str, ...]:
    fps = worker.fps
    return (
        worker.state.value,
        _COUNTED if fps is None and worker.fps_in_rank_0 else units.fps(fps.best_known if fps else None),
        units.fps(fps.last if fps else None),
        units.fps(fps.mean if fps else None),
        units.fps(fps.max if fps else None),
        units.NOT_KNOWN if worker.n_envs is None else f"{worker.n_envs:,}",
    )


def _gpu_cells(session: Session, worker: Worker) -> tuple[str, ...]:
    slot = session.slot(worker.slot)
    return (
        slot.gpu.name if slot and slot.gpu else units.NOT_KNOWN,
        units.whole(worker.gpu_util_mean_pct),
        units.mib(worker.memory_peak_mib),
        units.whole(worker.power_mean_w),
        units.energy(worker.energy_j),
    )


def _sum(snapshot: Snapshot) -> str:
    parts = [f"total {units.fps(total_fps(snapshot.workers))} FPS"]
    per_watt = _mean_fps_per_watt(snapshot)
    if per_watt is not None:
        parts.append(f"{units.short(per_watt)} FPS/W")
    parts.append(units.clock(snapshot.elapsed_s))
    return "  ".join(parts)


def _mean_fps_per_watt(snapshot: Snapshot) -> float | None:
    """FPS per mean watt of the running phase, of the workers that have both; a group's rate is of all its ranks' cards."""
    watts = {worker.slot: worker.power_mean_w for worker in snapshot.workers if worker.power_mean_w}
    fps = power_w = 0.0
    for worker in own_rates(snapshot.workers):
        group = snapshot.group(worker.slot) if worker.fps_of_group else None
        slots = group.slots if group is not None else (worker.slot,)
        if worker.fps and all(slot in watts for slot in slots):
            fps += worker.fps.best_known
            power_w += sum(watts[slot] for slot in slots)
    return fps / power_w if power_w else None


def _failed_groups(groups: tuple[RankGroup, ...]) -> list[str]:
    lines = []
    for group in groups:
        if group.state is WorkerState.FAILED:
            lines.append(f"{group.id} failed: {group.reason or 'no reason known'}")
            if group.advice:
                lines.append(f"{'':{len(group.id)}} {group.advice}")
    return lines


def _reasons(snapshot: Snapshot) -> list[str]:
    workers, lines = snapshot.workers, []
    told = {slot for group in snapshot.groups for slot in group.slots}
    for worker in workers:
        if worker.state is WorkerState.FAILED and worker.slot not in told:
            lines.append(f"{worker.slot} failed: {worker.reason or 'no reason known'}")
            if worker.advice:
                lines.append(f"{'':{len(worker.slot)}} {worker.advice}")
        lines.extend(f"{worker.slot} warning: {warning}" for warning in worker.warnings)
        if worker.below_median_pct is not None:
            lines.append(f"{worker.slot}: {units.percent(worker.below_median_pct)} of the median")
    # A person knows whom he has stopped; a signal stops all for the same reason.
    stopped = {worker.reason for worker in workers if worker.state is WorkerState.STOPPED and worker.reason}
    return [*lines, *sorted(stopped)]
