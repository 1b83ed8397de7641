"""Writes a session's files from its store: `summary.json`, `tune.json`, and the results of a sweep."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from gmg_tui.machine.files import write_atomic
from gmg_tui.machine.folders import write_own
from gmg_tui.model import JobRecord, Session, Snapshot, Tuning, Worker, WorkerState, summable, units
from gmg_tui.model.text import encode_lossy
from gmg_tui.results.column import as_cell, as_csv
from gmg_tui.results.job_columns import as_plain, columns, iso_ms, job_json
from gmg_tui.session import LOGS, STORE, SUMMARY, TUNE
from gmg_tui.session.store.database import encode
from gmg_tui.session.store.reader import Stored, open_store

DETAILED_FILE: Final = "detailed_results.json"
TABLE_FILE: Final = "summary_results.csv"
_FPS_FIELDS: Final = ("last", "mean", "max", "samples", "settled")
_ATTEMPT_FIELDS: Final = ("gpu_util_mean_pct", "memory_peak_mib", "power_mean_w", "energy_j")


def export(session: Session) -> None:
    """Writes all result files of a session, each atomically, and the `--summary` file once it has ended.

    Raises `StoreError`, or `OSError` at the first file that cannot be written.
    """
    folder = Path(session.spec.folder)
    with open_store(folder / STORE, copied=True) as stored:
        snapshot, data = stored.last_snapshot, b""
        if snapshot is not None:
            data = _json(summary(session, snapshot))
            write_own(folder / SUMMARY, data)
            if snapshot.tuning is not None:
                data = _json(tuning_results(session, snapshot.tuning))
                write_own(folder / TUNE, data)
        if session.spec.sweep is not None:
            write_own(folder / DETAILED_FILE, detailed_json(stored.iter_jobs(), stored))
            write_own(folder / TABLE_FILE, table_csv(stored.iter_jobs()))
        if session.spec.summary is not None and snapshot is not None and snapshot.ended:
            write_atomic(Path(session.spec.summary), data)


def _json(value: Any) -> bytes:
    return msgspec.json.format(encode_lossy(msgspec.json.encode, value), indent=2) + b"\n"


def detailed_json(jobs: Iterable[JobRecord], stored: Stored) -> Iterator[bytes]:
    """Yields the lines of `detailed_results.json`, one for each job, in the order of `jobs`."""
    prefix, best = b'{"jobs": [\n', stored.best()
    for job in jobs:
        points = best.get(job.number, {}).items()
        best_values = {name: point._asdict() | {"time": iso_ms(point.time)} for name, point in points}
        yield prefix + encode(job_json(job, stored.attempts_of(job.number)) | {"best": best_values}).encode()
        prefix = b",\n"
    yield (prefix if prefix.startswith(b"{") else b"") + b"\n]}\n"


def table_csv(jobs: Iterable[JobRecord], *, raw: bool = False) -> Iterator[bytes]:
    """Yields the lines of `summary_results.csv` for `jobs`; `raw` as in `as_csv`."""
    rows = []
    for job in jobs:  # nested results, which no column shows, need not stay in memory
        result = {name: value for name, value in (job.result or {}).items() if as_cell(value) is not None}
        rows.append(structs.replace(job, result=result))
    yield from as_csv(columns(rows), rows, raw=raw)


def summary(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    """Returns `summary.json` as plain data; unknown figures are None."""
    counted = [worker for worker in summable(snapshot.workers) if worker.state is not WorkerState.FAILED]
    printed = [worker.fps.last for worker in counted if worker.fps and worker.fps.last is not None]
    settled = [worker.fps.settled for worker in counted if worker.fps and worker.fps.settled is not None]
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        "args": list(session.spec.args),
        "started": units.iso(session.began),
        "elapsed_s": snapshot.elapsed_s,
        "total_fps": sum(printed) if printed else None,
        "total_fps_settled": sum(settled) if settled else None,
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
        "alerts": [as_plain(alert) for alert in worker.alerts],
        "n_envs": worker.newest.n_envs,
        "fps": fps and {name: getattr(fps, name) for name in _FPS_FIELDS},
        "env_steps": fps.env_steps if fps else None,
        "counted": fps.counted if fps else None,
        **{name: getattr(worker.newest, name) for name in _ATTEMPT_FIELDS},
        "checkpoint": worker.newest.checkpoint and as_plain(worker.newest.checkpoint),
        "continued_from": worker.newest.continued_from,
        "log": f"{LOGS}/{worker.slot}.log",
        **({"node": slot.node} if slot is not None and slot.node else {}),
        **({} if worker.group is None else {"group": msgspec.to_builtins(worker.group)}),
    }


def tuning_results(session: Session, tuning: Tuning) -> dict[str, Any]:
    """Returns `tune.json` as plain data; unknown values are None."""
    return {
        "session": session.spec.name,
        "script": session.spec.script,
        **({"simulated": True} if session.spec.simulate is not None else {}),
        "variable": tuning.spec.variable,
        "metric": tuning.spec.metric,
        "ended": tuning.ended,
        "stopped": tuning.stopped,
        "step": tuning.reached or tuning.step,
        "reason": tuning.step if tuning.reached else None,
        "trials": [as_plain(trial) for trial in tuning.trials],
        **as_plain(tuning.answer),
        "command": list(tuning.command) or None,
    }
