"""What a session came to: the table and the few lines that are printed when all workers have ended."""

from __future__ import annotations

from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.headless.columns import columns
from gmg_tui.model import Session, Snapshot, Worker, WorkerState, total_fps

_LEFT = frozenset({"slot", "GPU", "state"})
_HEADER = ("slot", "state", "FPS last", "mean", "max", "envs")
_GPU_HEADER = ("GPU", "GPU %", "VRAM peak", "W mean", "energy")


def final(session: Session, snapshot: Snapshot) -> list[str]:
    """The lines that say what each worker and all of them together reached, why some failed, and where the files are.

    Of a sweep only the last: what its jobs reached is in its results, which have a table of their own.
    """
    folder = Path(session.spec.folder)
    if snapshot.queue is not None:
        return [f"logs: {folder / sessions.LOGS}/"]
    return [
        *_table(session, snapshot.workers),
        _sum(snapshot),
        *_reasons(snapshot.workers),
        f"summary: {folder / sessions.SUMMARY}",
        f"logs: {folder / sessions.LOGS}/",
    ]


def exit_status(snapshot: Snapshot, *, interrupted: bool) -> int:
    """The command's exit status: 0 all (of a sweep: all jobs) finished, 1 one failed, 130 interrupted by a person.

    Args:
        snapshot: The last one.
        interrupted: Whether the person stopped the session from here; a worker that fails on being stopped does not
            make it a failure then.
    """
    if interrupted:
        return 130
    if snapshot.queue is not None:
        queue = snapshot.queue
        return 1 if queue.failed else 0 if queue.finished == queue.jobs else 130
    states = {worker.state for worker in snapshot.workers}
    if WorkerState.FAILED in states:
        return 1
    return 130 if WorkerState.STOPPED in states else 0


def _table(session: Session, workers: tuple[Worker, ...]) -> list[str]:
    with_cards = any(slot.gpu for slot in session.slots)
    header = (*_HEADER, *_GPU_HEADER) if with_cards else _HEADER
    rows = [(*_cells(worker), *(_gpu_cells(session, worker) if with_cards else ())) for worker in workers]
    return columns(header, rows, left=_LEFT)


def _cells(worker: Worker) -> tuple[str, ...]:
    fps = worker.fps
    return (
        worker.slot,
        worker.state.value,
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
    per_watt = _mean_fps_per_watt(snapshot.workers)
    if per_watt is not None:
        parts.append(f"{units.short(per_watt)} FPS/W")
    parts.append(units.clock(snapshot.elapsed_s))
    return "  ".join(parts)


def _mean_fps_per_watt(workers: tuple[Worker, ...]) -> float | None:
    """Mean FPS per mean watt over the whole run, of the workers that know both; a card at rest says nothing of it."""
    known = [(worker.fps.mean, worker.power_mean_w) for worker in workers if worker.fps and worker.power_mean_w]
    return sum(fps for fps, _ in known) / sum(watts for _, watts in known) if known else None


def _reasons(workers: tuple[Worker, ...]) -> list[str]:
    lines = []
    for worker in workers:
        if worker.state is WorkerState.FAILED:
            lines.append(f"{worker.slot} failed: {worker.reason or 'no reason is known'}")
            if worker.advice:
                lines.append(f"{'':{len(worker.slot)}} {worker.advice}")
        lines.extend(f"{worker.slot} warning: {warning}" for warning in worker.warnings)
    return lines
