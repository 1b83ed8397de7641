"""What clients see of a worker whose processes run here."""

from __future__ import annotations

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.workers.worker_status import WorkerStatus
from gmg_tui.genesis.output.failures import FailureKind
from gmg_tui.model import Details, Phase, WorkerState
from gmg_tui.text import clean


def view(worker: WorkerStatus, index: int, now: float) -> model.Worker:
    """The worker at this moment; `now` is monotonic seconds."""
    attempt = worker.attempt
    common = model.Worker(
        slot=worker.slot.name,
        index=index,
        state=worker.state,
        state_s=now - worker.state_since,
        args=worker.args if attempt is None else attempt.args,
        reason=worker.reason,
        advice=worker.advice,
        out_of_memory=_is_out_of_memory(worker),
        before=worker.before,
        log_lines=worker.ring.end,
        last_line=_last_line(worker),
        warnings=_warnings(worker),
        job=worker.task.job,
        job_name=worker.task.name,
        timeout_s=worker.task.timeout_s,
        restart_in_s=max(0.0, worker.restart_at - now) if worker.restart_at is not None else None,
        group=worker.rank,
    )
    if attempt is None:
        return common
    reader, meter = attempt.reader, attempt.meter
    phase, timeout_s = worker.phase, worker.task.timeout_s
    own_phase = phase is not Phase.NONE and not worker.carried
    return structs.replace(
        common,
        reason=worker.reason or attempt.held.reason,
        timeout_s=timeout_s + attempt.held.total_s if timeout_s is not None else None,
        phase=phase,
        phase_s=_phase_s(worker, now),
        silent_s=attempt.silent_s(now) if own_phase else None,
        phase_usual_s=attempt.usual_s if own_phase else None,
        attempt=attempt.number,
        attempt_s=attempt.elapsed_s,
        pid=attempt.process.current_pid
        if worker.state.live and attempt.process.started and attempt.ended is None
        else None,
        exit_code=attempt.exit_code,
        output_bytes=attempt.output_bytes,
        fps=attempt.fps,
        fps_of_group=reader.fps_of_group,
        fps_in_rank_0=worker.carried,
        fps_silent_s=reader.fps_silent_s(now) if worker.state is WorkerState.RUNNING else None,
        n_envs=attempt.n_envs,
        progress=reader.progress,
        device=reader.device,
        backend=reader.backend,
        genesis_version=reader.genesis_version,
        warning_lines=reader.remarks.warnings,
        error_lines=reader.remarks.errors,
        stopping=attempt.termination.sent if worker.state is WorkerState.STOPPING else None,
        cpu_pct=attempt.activity.cpu_pct if worker.state.live else None,
        memory_rss_mib=attempt.activity.memory_rss_mib if worker.state.live else None,
        stuck=worker.stuck,
        now=attempt.metrics() if worker.before is not None else None,
        gpu_util_mean_pct=meter.gpu_util_pct.value,
        memory_peak_mib=meter.memory_peak_mib,
        power_mean_w=meter.power_w.value,
        energy_j=meter.energy_j,
    )


def _phase_s(worker: WorkerStatus, now: float) -> float:
    if worker.attempt is None or worker.phase is Phase.NONE:
        return 0.0
    return now - (worker.state_since if worker.carried else worker.attempt.reader.phase_started)


def _is_out_of_memory(worker: WorkerStatus) -> bool:
    failure = worker.failure if worker.state is WorkerState.FAILED else None
    return failure is not None and failure.kind is FailureKind.MEMORY


def _last_line(worker: WorkerStatus) -> str:
    """The newest line that tells something: an iteration of rsl_rl ends with the time left, which is 0 at the end."""
    newest = clean(worker.ring.newest)
    done = worker.attempt.reader.progress if worker.attempt is not None else None
    if done is None or not newest.lstrip().startswith("ETA:"):
        return newest
    reward = f", mean reward {done.reward}" if done.reward else ""
    return f"{done.unit} {done.done:,.0f} of {done.total:,.0f}{reward}"


def _warnings(worker: WorkerStatus) -> tuple[str, ...]:
    attempt = worker.attempt
    survivors = attempt.termination.survivors if attempt is not None else None
    found = [survivors, worker.misplaced, worker.memory_kept, worker.log.trouble, worker.dump]
    if attempt is not None:
        found += [
            attempt.fault,
            attempt.backpressure.trouble,
            attempt.reported.trouble,
            attempt.continued,
            attempt.left_behind,
        ]
    said = attempt.reader.warnings if attempt is not None else ()
    return (*(text for text in found if text is not None), *said)


def details(worker: WorkerStatus, cwd: str, egl: str) -> Details:
    """What a details screen shows of the worker, except its GPU's processes, and the ranks of its torchrun."""
    attempt = worker.attempt
    attempts = [*worker.past, *([(attempt.record(), attempt.settings)] if attempt is not None else [])]
    return Details(
        slot=worker.slot.name,
        command=attempt.command if attempt is not None else (),
        cwd=cwd,
        env=dict(attempt.environment.set) if attempt is not None else {},
        unset=attempt.environment.unset if attempt is not None else (),
        egl=egl,
        attempts=tuple(record for record, _ in attempts),
        settings=tuple(settings for _, settings in attempts),
        args=worker.args,
        extra_env=worker.env,
    )
