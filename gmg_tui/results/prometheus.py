"""Metrics of sessions for Prometheus, in base units. Each scrape requests a snapshot from each running engine."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gmg_tui import session as sessions
from gmg_tui.model import Alert, Gpu, GpuSample, Session, Slot, Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import safe
from gmg_tui.session.client import newest_snapshot
from gmg_tui.session.store.reader import open_store

_MIB = float(1 << 20)
_STORE_TIMEOUT_S = 1.0
"""Maximum time to read a session's store, which a script may lock or make huge."""
_LOST_EXPORT_S = 900.0
"""Time to keep exporting a lost session, with `gmg_session_up` 0."""


def _progress_ratio(worker: Worker) -> float | None:
    progress = worker.newest.progress
    return progress.done / progress.total if progress is not None and progress.total else None


_WORKER_METRICS: tuple[tuple[str, str, Callable[[Worker], float | None], float], ...] = (
    ("gmg_worker_fps", "The current rate: environment steps per second.", lambda worker: worker.current_fps, 1),
    ("gmg_worker_fps_mean", "The rate of the attempt so far.", lambda worker: worker.newest.rate, 1),
    ("gmg_worker_n_envs", "Environments that the worker simulates.", lambda worker: worker.newest.n_envs, 1),
    ("gmg_worker_attempt", "Number of the current attempt, from 1.", lambda worker: worker.attempt or None, 1),
    ("gmg_worker_progress_ratio", "Completed share of the work.", _progress_ratio, 1),
    ("gmg_worker_cpu_ratio", "CPU load of the processes; 1 is a whole core.", lambda worker: worker.cpu_pct, 0.01),
    ("gmg_worker_memory_bytes", "Resident memory of the processes.", lambda worker: worker.memory_rss_mib, _MIB),
    ("gmg_worker_gpu_memory_peak_bytes", "Peak GPU memory.", lambda worker: worker.newest.memory_peak_mib, _MIB),
)
"""The metrics of workers that have not ended: name, help, value, and factor to the base unit."""

_GPU_METRICS: tuple[tuple[str, str, str, float], ...] = (
    ("gmg_gpu_lost", "1 if the driver reports the GPU as lost.", "lost", 1),
    ("gmg_gpu_utilization_ratio", "Share of the time with a kernel running.", "gpu_util_pct", 0.01),
    ("gmg_gpu_memory_used_bytes", "Memory in use.", "memory_used_mib", _MIB),
    ("gmg_gpu_memory_total_bytes", "Total memory.", "memory_total_mib", _MIB),
    ("gmg_gpu_temperature_celsius", "Temperature.", "temperature_c", 1),
    ("gmg_gpu_power_watts", "Power draw.", "power_w", 1),
    ("gmg_gpu_power_limit_watts", "Power limit in force.", "power_limit_w", 1),
    ("gmg_gpu_sm_clock_hertz", "Clock of the SMs.", "sm_clock_mhz", 1e6),
)
"""The metrics of GPUs: name, help, field of `GpuSample`, and factor to the base unit."""


SessionView = tuple[Session, Snapshot | None]
"""A session and its newest snapshot; None if the engine does not answer."""


class SessionsCollector(Collector):
    """The metrics of this user's running and recently lost sessions on this machine."""

    def collect(self) -> Iterable[Metric]:
        """Returns the current metrics."""
        scrape = _Scrape()
        for session, snapshot in asyncio.run(_views()):
            up = snapshot is not None
            scrape.add("gmg_session_up", "1 if the session's engine answers.", up, session=session.spec.name)
            if snapshot is not None:
                _write_session(scrape, session, snapshot)
        return scrape.metrics.values()


async def _views() -> list[SessionView]:
    """Returns the sessions to export: the running ones by name, then the lost ones."""
    entries = sorted((entry for entry in sessions.list_sessions() if entry.is_local), key=lambda entry: entry.name)
    oldest = time.time() - _LOST_EXPORT_S
    lost = [entry for entry in entries if entry.state == "lost" and (entry.record.ended or entry.written) > oldest]
    running = [entry.record.session for entry in entries if entry.state == "running"]
    snapshots = await asyncio.gather(*map(newest_snapshot, running))
    return [*zip(running, snapshots, strict=True), *((entry.record.session, None) for entry in lost)]


class _Scrape:
    """The metrics of one scrape, without unknown values and empty labels.

    Labels pass through `safe`: a NUL or carriage return may make a parser reject the whole scrape.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def add(self, name: str, text: str, value: float | None, scale: float = 1, /, **labels: str) -> None:
        """Adds a sample of `value` times `scale`, to a counter if the name ends in `_total`, else to a gauge."""
        if value is not None:
            family, kind = name.removesuffix("_total"), "counter" if name.endswith("_total") else "gauge"
            nonempty = {key: safe(label) for key, label in labels.items() if label}
            self.metrics.setdefault(family, Metric(family, text, kind)).add_sample(name, nonempty, float(value * scale))


def _write_session(scrape: _Scrape, session: Session, snapshot: Snapshot) -> None:
    spec = session.spec
    labels = {"session": spec.name}
    info = {"script": spec.script, "kind": spec.command, "version": session.version}
    scrape.add("gmg_session_info", "Script, kind (run, sweep or tune), version.", 1, **labels, **info)
    scrape.add("gmg_session_elapsed_seconds", "Time that the session has been running.", snapshot.elapsed_s, **labels)
    rate = total_fps(snapshot.counted) if not snapshot.ended else None
    scrape.add("gmg_session_fps", "The current rate of all running workers.", rate, **labels)
    per_joule = fps_per_watt(session, snapshot)
    scrape.add("gmg_session_env_steps_per_joule", "Current rate divided by the power of the GPUs.", per_joule, **labels)
    states = Counter(worker.state for worker in snapshot.workers)
    for state in WorkerState:
        scrape.add("gmg_session_workers", "Workers by state.", states[state], **labels, state=state.value)
    if (queue := snapshot.queue) is not None:
        for name in ("waiting", "running", "finished", "failed", "stopped"):
            scrape.add("gmg_jobs", "Jobs by state.", getattr(queue, name), **labels, state=name)
        scrape.add("gmg_queue_eta_seconds", "Seconds until all jobs have ended.", queue.eta_s, **labels)
    for group in snapshot.groups:
        scrape.add("gmg_group_fps", "The current rate of a group of ranks.", group.fps, **labels, group=group.id)
    _write_alerts(scrape, snapshot.alerts, labels)
    for slot in session.slots:
        if (worker := snapshot.worker(slot.name)) is not None:
            _write_worker(scrape, worker, _labels(spec.name, slot))
    for slot in {slot.gpu.uuid: slot for slot in session.slots if slot.gpu is not None}.values():
        if slot.gpu is not None and (sample := snapshot.sample(slot.gpu)) is not None:
            _write_gpu(scrape, slot.gpu, sample, _labels(spec.name, slot))
    try:
        _write_totals(scrape, session)
    except GmgError:
        return  # the store cannot be read: omit the counters, as they must not drop to 0


def _write_totals(scrape: _Scrape, session: Session) -> None:
    """Adds the counters of the session's store. Raises `StoreError`."""
    name = session.spec.name
    with open_store(Path(session.spec.folder) / sessions.STORE, _STORE_TIMEOUT_S) as stored:
        runs = [run for attempts in stored.attempts.values() for run in attempts]
        energies = [(job.slot, job.energy_j) for job in stored.iter_jobs() if job.energy_j is not None]
    failed = Counter(run.slot for run in runs if run.attempt.state is WorkerState.FAILED)
    scrape.add("gmg_session_failures_total", "Attempts that failed, on all slots.", failed.total(), session=name)
    for slot in session.slots:
        labels, restarts = _labels(name, slot), sum(run.slot == slot.name and run.attempt.number > 1 for run in runs)
        energies_j = [energy_j for slot_name, energy_j in energies if slot_name == slot.name]
        energy_j = sum(energies_j) if energies_j else None
        scrape.add("gmg_worker_restarts_total", "Attempts after the first.", restarts, **labels)
        scrape.add("gmg_worker_failures_total", "Attempts that failed.", failed[slot.name], **labels)
        scrape.add("gmg_worker_energy_joules_total", "Energy that the slot's jobs have used.", energy_j, **labels)


def _write_worker(scrape: _Scrape, worker: Worker, slot_labels: dict[str, str]) -> None:
    rank = str(worker.group.rank) if worker.group is not None else ""
    labels = {**slot_labels, "gmg_job": str(worker.job or ""), "rank": rank}
    scrape.add("gmg_worker_lines_total", "Lines of output.", worker.log_lines, **slot_labels)
    for state in WorkerState:
        text = "1 for the state that the worker is in, 0 for the others."
        scrape.add("gmg_worker_state", text, worker.state is state, **labels, state=state.value)
    _write_alerts(scrape, worker.alerts, labels)
    if worker.state.ended:
        return
    scrape.add("gmg_worker_phase", "1 for the phase that the script is in.", 1, **labels, phase=worker.phase.value)
    for name, text, value, scale in _WORKER_METRICS:
        scrape.add(name, text, value(worker), scale, **labels)
    for metric, number in {safe(metric): number for metric, number in worker.newest.numbers.items()}.items():
        scrape.add("gmg_worker_metric", "A metric that the script reports.", number, **labels, metric=metric)


def _write_alerts(scrape: _Scrape, alerts: Iterable[Alert], labels: dict[str, str]) -> None:
    for alert in {alert.kind: alert for alert in reversed(tuple(alerts))}.values():
        text = "1 for each kind of alert that a worker or the session has."
        scrape.add("gmg_alert", text, 1, **labels, kind=alert.kind, severity=alert.severity.value)


def _write_gpu(scrape: _Scrape, gpu: Gpu, sample: GpuSample, labels: dict[str, str]) -> None:
    del labels["slot"]
    scrape.add("gmg_gpu_info", "The GPU's name.", 1, **labels, name=gpu.name)
    for name, text, field, scale in _GPU_METRICS:
        scrape.add(name, text, getattr(sample, field), scale, **labels)
    scrape.add("gmg_gpu_energy_joules_total", "Energy used since the driver was loaded.", sample.energy_j, **labels)
    for reason in dict.fromkeys(map(safe, sample.throttle or ())):
        scrape.add("gmg_gpu_throttle_reason", "1 for each reason why the GPU is throttled.", 1, **labels, reason=reason)


def _labels(session: str, slot: Slot) -> dict[str, str]:
    gpu = {"gpu": str(slot.gpu.index), "uuid": slot.gpu.uuid} if slot.gpu is not None else {}
    return {"session": session, "slot": slot.name, "node": slot.node, **gpu}
