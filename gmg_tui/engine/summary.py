"""`summary.json`: what each worker reached, in the form that other programs read (DESIGN.md 4.5)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.files import write_atomic
from gmg_tui.model import Session, Snapshot, Worker
from gmg_tui.session import LOGS, SUMMARY


def summary(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    """The summary as plain data; a figure that is not known is None."""
    lasts = [worker.fps.last for worker in snapshot.workers if worker.fps]
    started = datetime.fromtimestamp(session.started, UTC)
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        "args": list(session.spec.args),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "elapsed_s": round(snapshot.elapsed_s, 3),
        "total_fps": sum(lasts) if lasts else None,
        "workers": [_worker(session, worker) for worker in snapshot.workers],
    }


def _worker(session: Session, worker: Worker) -> dict[str, Any]:
    slot = session.slot(worker.slot)
    gpu = slot.gpu if slot is not None else None
    return {
        "slot": worker.slot,
        "gpu": None
        if gpu is None
        else {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_total_mib": gpu.memory_total_mib},
        "state": worker.state.value,
        "reason": worker.reason,
        "exit_code": worker.exit_code,
        "attempts": worker.attempt,
        "n_envs": worker.n_envs,
        "fps": None
        if worker.fps is None
        else {
            "last": worker.fps.last,
            "mean": round(worker.fps.mean, 3),
            "max": worker.fps.max,
            "samples": worker.fps.samples,
        },
        "gpu_util_mean_pct": _rounded(worker.gpu_util_mean_pct),
        "memory_peak_mib": _rounded(worker.memory_peak_mib),
        "power_mean_w": _rounded(worker.power_mean_w),
        "energy_j": _rounded(worker.energy_j),
        "log": f"{LOGS}/{worker.slot}.log",
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def write(session: Session, snapshot: Snapshot) -> None:
    """Write the summary to the session's folder, and to `--summary`'s file. Raises `OSError`."""
    data = msgspec.json.format(msgspec.json.encode(summary(session, snapshot)), indent=2) + b"\n"
    write_atomic(Path(session.spec.folder) / SUMMARY, data)
    if session.spec.summary is not None:
        write_atomic(Path(session.spec.summary), data)
