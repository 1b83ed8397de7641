"""`summary.json`: what each worker reached, for other programs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.files import is_replaced, write_atomic, write_where_asked
from gmg_tui.model import Session, Snapshot, Worker, own_rates
from gmg_tui.results import tuning
from gmg_tui.results.detailed import fps_of
from gmg_tui.session import LOGS, SUMMARY

_MEANS = ("gpu_util_mean_pct", "memory_peak_mib", "power_mean_w", "energy_j")


def summary(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    """The summary as plain data; unknown metrics are None."""
    fps = [worker.fps for worker in own_rates(snapshot.workers) if worker.fps]
    settled = [one.settled for one in fps if one.settled is not None]
    started = datetime.fromtimestamp(session.started, UTC)
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        "args": list(session.spec.args),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "elapsed_s": round(snapshot.elapsed_s, 3),
        "total_fps": sum(one.last for one in fps) if fps else None,
        "total_fps_settled": round(sum(settled), 3) if settled else None,
        **({"simulated": True} if session.spec.simulate is not None else {}),
        **({"idle_slots": list(session.idle)} if session.idle else {}),
        "workers": [_worker(session, worker) for worker in snapshot.workers],
    }


def _worker(session: Session, worker: Worker) -> dict[str, Any]:
    slot = session.slot(worker.slot)
    gpu, fps = slot and slot.gpu, worker.fps
    means = {name: getattr(worker, name) for name in _MEANS}
    return {
        "slot": worker.slot,
        "gpu": gpu
        and {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_total_mib": gpu.memory_total_mib},
        "state": worker.state.value,
        "reason": worker.reason,
        "exit_code": worker.exit_code,
        "attempts": worker.attempt,
        "n_envs": worker.n_envs,
        "fps": fps_of(fps),
        **{name: None if value is None else round(value, 3) for name, value in means.items()},
        "log": f"{LOGS}/{worker.slot}.log",
        **({"node": slot.node} if slot is not None and slot.node else {}),
        **({} if worker.group is None else {"group": msgspec.to_builtins(worker.group)}),
    }


def write(session: Session, snapshot: Snapshot, *, ended: bool) -> None:
    """Write the summary to the session's folder, and to `--summary`'s file; to a pipe only at the end.

    A tuning has `tune.json` beside it, which is what is written to `--summary`'s file.

    Raises:
        OSError: One of them cannot be written.
    """
    folder = Path(session.spec.folder)
    data = msgspec.json.format(msgspec.json.encode(summary(session, snapshot)), indent=2) + b"\n"
    write_atomic(folder / SUMMARY, data)
    if snapshot.tuning is not None:
        spec = session.spec
        data = tuning.encoded(
            snapshot.tuning, session=spec.name, script=spec.script, simulated=spec.simulate is not None
        )
        write_atomic(folder / tuning.TUNE, data)
    asked = Path(session.spec.summary) if session.spec.summary is not None else None
    if asked is not None and (ended or is_replaced(asked)):
        write_where_asked(asked, data)
