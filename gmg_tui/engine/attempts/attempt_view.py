"""What others see of an attempt that runs here: the scheduler and the records, and the watch of its group."""

from __future__ import annotations

from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.model import AttemptReport, Phase


def report(attempt: RunningAttempt) -> AttemptReport:
    """All about it at this moment."""
    meter = attempt.meter
    return AttemptReport(
        attempt.record(),
        attempt.gpu_index,
        attempt.fps,
        attempt.n_envs,
        attempt.reader.n_envs,
        attempt.reader.fps_of_group,
        attempt.reader.had_progress,
        attempt.timed_out,
        attempt.elapsed_s,
        meter.gpu_util_pct.value,
        meter.memory_peak_mib,
        meter.power_w.value,
        meter.energy_j,
        dict(attempt.reported.values),
        attempt.reported.taken,
    )


def seen(attempt: RunningAttempt, *, lives: bool) -> RankSeen:
    """What the watch of its group sees of it; `lives` is whether its worker does."""
    reader, activity, stopped = attempt.reader, attempt.activity, attempt.activity.stopped
    return RankSeen(
        attempt=attempt.number,
        settled=attempt.process.started and attempt.held.reason is None and not attempt.termination.begun,
        lives=lives and attempt.exit_code is None,
        phase_started=reader.phase_started,
        in_running=reader.phase is Phase.RUNNING,
        progress_at=reader.pace.last_at,
        progress_every_s=reader.pace.usual_s,
        cpu_since=activity.seen_since,
        cpu_pct=activity.cpu_pct,
        busy=activity.busy,
        idle_s=activity.seen_idle_s,
        output_at=attempt.output_at,
        stopped=(stopped.pid, stopped.state) if stopped is not None else None,
        observations=attempt.observations,
    )
