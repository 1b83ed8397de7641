"""From the engine's state to what a client sees of it."""

from __future__ import annotations

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.place import Place
from gmg_tui.engine.worker import Worker
from gmg_tui.model import Details, Phase, WorkerState
from gmg_tui.text import clean

_KEPT_ENV_CHARS = 2000


def place_view(place: Place, now: float) -> model.Worker:
    """What is on a slot at this moment; `now` is monotonic seconds.

    A slot that waits for its next job shows the last lines of the one before, and what it waits for.
    """
    worker = place.worker
    if worker is not None and (place.over or place.waits is None or not worker.state.ended):
        return _worker_view(worker, now)
    return model.Worker(
        slot=place.slot.name,
        index=place.index,
        state=WorkerState.FINISHED if place.over else WorkerState.WAITING,
        reason=place.waits,
        log_lines=place.ring.end,
        last_line=clean(place.ring.newest),
    )


def _worker_view(worker: Worker, now: float) -> model.Worker:
    """The worker at this moment; `now` is monotonic seconds."""
    attempt = worker.attempt
    common = model.Worker(
        slot=worker.slot.name,
        index=worker.index,
        state=worker.state,
        state_s=now - worker.state_since,
        args=worker.args if attempt is None else attempt.args,
        reason=worker.reason,
        advice=worker.advice,
        before=worker.before,
        log_lines=worker.ring.end,
        last_line=clean(worker.ring.newest),
        warnings=_warnings(worker),
        job=worker.task.job,
        job_name=worker.task.name,
        timeout_s=worker.task.timeout_s,
    )
    if attempt is None:
        return common
    reader, meter = attempt.reader, attempt.meter
    phase, timeout_s = worker.phase, worker.task.timeout_s
    return structs.replace(
        common,
        reason=worker.reason or attempt.held.reason,
        timeout_s=timeout_s + attempt.held.total_s if timeout_s is not None else None,
        phase=phase,
        phase_s=now - reader.phase_started if phase else 0.0,
        phase_usual_s=worker.phase_times.usual(phase) if phase not in (Phase.NONE, Phase.RUNNING) else None,
        attempt=attempt.number,
        attempt_s=attempt.elapsed_s,
        pid=attempt.process.pid if worker.state.live and attempt.process.started else None,
        exit_code=attempt.process.exit_code,
        fps=reader.fps,
        n_envs=reader.n_envs,
        progress=reader.progress,
        device=reader.device,
        backend=reader.backend,
        genesis_version=reader.genesis_version,
        stopping=attempt.ending.sent if worker.state is WorkerState.STOPPING else None,
        cpu_pct=attempt.activity.cpu_pct if worker.state.live else None,
        memory_rss_mib=attempt.activity.memory_rss_mib if worker.state.live else None,
        stuck=worker.stuck,
        restart_in_s=max(0.0, worker.restart_at - now) if worker.restart_at is not None else None,
        now=attempt.figures() if worker.before is not None else None,
        gpu_util_mean_pct=meter.gpu_util_mean_pct,
        memory_peak_mib=meter.memory_peak_mib,
        power_mean_w=meter.power_mean_w,
        energy_j=meter.energy_j,
    )


def _warnings(worker: Worker) -> tuple[str, ...]:
    attempt = worker.attempt
    survivors = attempt.ending.survivors if attempt is not None else None
    found = [survivors, worker.misplaced, worker.memory_kept, worker.log.trouble]
    said = attempt.reader.warnings if attempt is not None else ()
    return (*(text for text in found if text is not None), *said)


def details(worker: Worker, cwd: str, egl: str) -> Details:
    """What a details screen shows of the worker, but for its card's processes."""
    attempt = worker.attempt
    attempts = (*worker.past, *((attempt.record(),) if attempt is not None else ()))
    return Details(
        slot=worker.slot.name,
        command=attempt.command if attempt is not None else (),
        cwd=cwd,
        env={name: value[:_KEPT_ENV_CHARS] for name, value in attempt.environment.set.items()} if attempt else {},
        unset=attempt.environment.unset if attempt is not None else (),
        egl=egl,
        attempts=attempts,
        args=worker.args,
        extra_env=worker.env,
    )
