"""`summary.json`: what each worker reached (the form is fixed, DESIGN.md 4.5); and `tune.json`, a tuning's trials and answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gmg_tui.model import Fps, Session, Snapshot, Tuning, Worker, WorkerState, own_rates
from gmg_tui.results.jobs import as_plain
from gmg_tui.session import LOGS

_MEANS: Final = ("gpu_util_mean_pct", "memory_peak_mib", "power_mean_w", "energy_j")


def summary(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    """The summary as plain data; unknown metrics are None."""
    sound = [worker for worker in own_rates(snapshot.workers) if worker.state is not WorkerState.FAILED]
    printed = [worker.fps.last for worker in sound if worker.fps and worker.fps.last is not None]
    settled = [worker.fps.settled for worker in sound if worker.fps and worker.fps.settled is not None]
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        "args": list(session.spec.args),
        "started": datetime.fromtimestamp(session.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "elapsed_s": round(snapshot.elapsed_s, 3),
        "total_fps": sum(printed) if printed else None,
        "total_fps_settled": round(sum(settled), 3) if settled else None,
        **({"simulated": True} if session.spec.simulate is not None else {}),
        **({"idle_slots": list(session.idle)} if session.idle else {}),
        "workers": [_worker(session, worker) for worker in snapshot.workers],
    }


def _worker(session: Session, worker: Worker) -> dict[str, Any]:
    slot = session.slot(worker.slot)
    gpu, fps = slot and slot.gpu, worker.fps
    return {
        "slot": worker.slot,
        "gpu": gpu
        and {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_total_mib": gpu.memory_total_mib},
        "state": worker.state.value,
        "reason": worker.reason,
        "exit_code": worker.newest.exit_code,
        "attempts": worker.attempt,
        "n_envs": worker.n_envs,
        "fps": _fps(fps),
        "env_steps": _rounded(fps.env_steps) if fps else None,
        "counted": fps.counted if fps else None,
        **{name: _rounded(getattr(worker.newest, name)) for name in _MEANS},
        "log": f"{LOGS}/{worker.slot}.log",
        **({"node": slot.node} if slot is not None and slot.node else {}),
        **({} if worker.group is None else {"group": msgspec.to_builtins(worker.group)}),
    }


def _fps(fps: Fps | None) -> dict[str, float | int | None] | None:
    if fps is None:
        return None
    return {
        "last": fps.last,
        "mean": _rounded(fps.mean),
        "max": fps.max,
        "samples": fps.samples,
        "settled": _rounded(fps.settled),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def tune(session: Session, tuning: Tuning) -> dict[str, Any]:
    """A tuning as plain data, with its answer; unknown values are None."""
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        **({"simulated": True} if session.spec.simulate is not None else {}),
        "variable": tuning.spec.variable,
        "metric": tuning.spec.metric,
        "goal": tuning.spec.goal.value,
        "trials": [as_plain(trial) for trial in tuning.trials],
        **as_plain(tuning.answer),
        "command": list(tuning.command) or None,
    }
