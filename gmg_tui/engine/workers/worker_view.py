"""What clients see of a worker whose processes run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import model
from gmg_tui.engine.clock import unix
from gmg_tui.engine.workers.member import RankSeen
from gmg_tui.genesis.output.failures import FailureKind
from gmg_tui.model import Details, Phase, WorkerState
from gmg_tui.text import clean

if TYPE_CHECKING:
    from gmg_tui.engine.workers.local_worker import LocalWorker


def view(worker: LocalWorker, now: float) -> model.Worker:
    """What `Worker.view` takes from here; `now` is monotonic seconds."""
    attempt, state = worker.running, worker.state
    troubles = (worker.misplaced, worker.memory_kept, worker.log.trouble)
    failed = worker.failure if state is WorkerState.FAILED else None
    common = model.Worker(
        slot=worker.slot.name,
        index=0,
        state=state,
        state_since=unix(worker.state_since),
        args_given=worker.args if attempt is None else (),
        advice=_advice(worker),
        out_of_memory=failed is not None and failed.kind is FailureKind.MEMORY,
        warnings=(
            *(text for text in troubles if text is not None),
            *(attempt.warnings if attempt is not None else ()),
        ),
        log_lines=worker.ring.end,
        last_line=_last_line(worker),
        job=worker.task.job,
        job_name=worker.task.name,
        timeout_s=worker.task.timeout_s,
        before=worker.before,
    )
    if attempt is None:
        return common
    reader, phase = attempt.reader, worker.phase
    since = worker.state_since if worker.carried else reader.phase_started
    silent_s = attempt.fps_silent_s(now) if state is WorkerState.RUNNING else None
    return structs.replace(
        common,
        current=attempt.record(),
        phase_since=unix(since) if phase is not Phase.NONE else 0.0,
        phase_usual_s=attempt.usual_s if phase is not Phase.NONE and not worker.carried else None,
        fps_silent_since=unix(now - silent_s) if silent_s is not None else None,
        device=reader.genesis.device,
        backend=reader.genesis.backend,
        genesis_version=reader.genesis.version,
        error_lines=reader.errors.count,
        stopping=attempt.process.sent if state is WorkerState.STOPPING else None,
        cpu_pct=attempt.activity.cpu_pct if state.live else None,
        memory_rss_mib=attempt.activity.memory_rss_mib if state.live else None,
        healed=reader.genesis.alerts.rebuilt_caches > 0 or (worker.raced and reader.had_progress),
    )


def seen(worker: LocalWorker) -> RankSeen:
    """What the watch of its group sees of a rank."""
    attempt = worker.running
    if attempt is None:
        return RankSeen()
    reader, activity, stopped = attempt.reader, attempt.activity, attempt.activity.stopped
    return RankSeen(
        attempt=attempt.number,
        settled=attempt.process.started and not attempt.process.is_stopping,
        lives=worker.state.live and attempt.exit_code is None,
        phase_started=reader.phase_started,
        in_running=reader.phase is Phase.RUNNING,
        progress_at=reader.pace.last_at,
        progress_every_s=reader.pace.usual_s,
        cpu_since=activity.seen_since,
        cpu_pct=activity.cpu_pct,
        busy=activity.busy,
        idle_s=activity.seen_idle_s,
        stopped=(stopped.pid, stopped.state) if stopped is not None else None,
    )


def _advice(worker: LocalWorker) -> str | None:
    attempt = worker.running
    if attempt is None:
        return worker.advice
    return worker.advice or (attempt.reader.hint if attempt.fps is None and worker.state.live else None)


def _last_line(worker: LocalWorker) -> str:
    """The script's progress and metrics where it reports such, else its newest line: the last of a table means little."""
    reader = worker.running.reader if worker.running is not None else None
    if reader is None or not reader.metrics:
        return clean(worker.ring.newest)
    done = reader.progress
    parts = [f"{done.unit} {done.done:,.0f} of {done.total:,.0f}"] if done is not None else []
    return ", ".join([*parts, *(f"{name.replace('_', ' ')} {value:,.5g}" for name, value in reader.metrics.items())])


def details(worker: LocalWorker) -> Details:
    """The attempts of a worker, and what the newest was started with."""
    attempt = worker.running
    return Details(
        slot=worker.slot.name,
        command=attempt.launch.command if attempt is not None else (),
        cwd=worker.context.spec.cwd,
        env=dict(attempt.launch.environment.set) if attempt is not None else {},
        unset=attempt.launch.environment.unset if attempt is not None else (),
        egl=attempt.launch.egl_note if attempt is not None else "not asked yet",
        attempts=(*worker.past, *([attempt.record()] if attempt is not None else [])),
        args=worker.args,
        extra_env=worker.env,
    )
