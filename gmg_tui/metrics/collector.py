"""Makes the metrics of a scrape from the sessions that are followed. Units are Prometheus' base units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gmg_tui.metrics.following import Following, Totals, View
from gmg_tui.model import Gpu, GpuSample, Session, Slot, Worker, WorkerState, fps_per_watt, total_fps

_MIB = float(1 << 20)


def _done(worker: Worker) -> float | None:
    progress = worker.progress
    return progress.done / progress.total if progress is not None and progress.total else None


_WORKER: tuple[tuple[str, str, Callable[[Worker], float | None], float], ...] = (
    ("gmg_worker_fps", "The current rate: environment steps per second.", lambda worker: worker.current_fps, 1),
    ("gmg_worker_fps_mean", "The rate of the attempt so far.", lambda worker: worker.newest.rate, 1),
    ("gmg_worker_n_envs", "Environments that the worker simulates.", lambda worker: worker.n_envs, 1),
    ("gmg_worker_stuck", "1 if the worker counts as stuck.", lambda worker: worker.stuck is not None, 1),
    ("gmg_worker_attempt", "Number of the current attempt, from 1.", lambda worker: worker.attempt or None, 1),
    ("gmg_worker_progress_ratio", "The share of its work that is done.", _done, 1),
    ("gmg_worker_cpu_ratio", "CPU of its processes; 1 is a whole core.", lambda worker: worker.cpu_pct, 0.01),
    ("gmg_worker_memory_bytes", "Resident memory of its processes.", lambda worker: worker.memory_rss_mib, _MIB),
    ("gmg_worker_gpu_memory_peak_bytes", "Peak of its GPU memory.", lambda worker: worker.newest.memory_peak_mib, _MIB),
)
"""A metric of live workers, its help, its value, and what makes its unit of the value's."""

_GPU: tuple[tuple[str, str, str, float], ...] = (
    ("gmg_gpu_lost", "1 if the driver reports the GPU as lost.", "lost", 1),
    ("gmg_gpu_utilization_ratio", "Share of the time in which a kernel ran.", "gpu_util_pct", 0.01),
    ("gmg_gpu_memory_used_bytes", "Memory in use.", "memory_used_mib", _MIB),
    ("gmg_gpu_memory_total_bytes", "Memory that it has.", "memory_total_mib", _MIB),
    ("gmg_gpu_temperature_celsius", "Temperature.", "temperature_c", 1),
    ("gmg_gpu_power_watts", "Power draw.", "power_w", 1),
    ("gmg_gpu_power_limit_watts", "Power limit in force.", "power_limit_w", 1),
    ("gmg_gpu_sm_clock_hertz", "Clock of the SMs.", "sm_clock_mhz", 1e6),
)
"""A metric of GPUs, its help, the field of `GpuSample`, and what makes its unit of the field's."""


class SessionsCollector(Collector):
    """The metrics of the sessions that are followed."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def collect(self) -> Iterable[Metric]:
        """All metrics at this moment."""
        scrape = _Scrape()
        views = sorted(self._following.views.values(), key=lambda view: view.session.spec.name)
        running = [view for view in views if view.ended_at is None]
        scrape.gauge("gmg_sessions", "Sessions that run on this machine.", len(running))
        for outcome in ("finished", "failed", "stopped", "lost"):
            count = self._following.ended[outcome]
            scrape.count("gmg_sessions_ended", "Sessions that have ended, by outcome.", count, outcome=outcome)
        for view in running:
            name = view.session.spec.name
            scrape.gauge("gmg_session_up", "1 if the session's engine answers.", not view.silent, session=name)
        for view in views:
            if not view.silent:
                _write_session(scrape, view)
        return scrape.metrics.values()


class _Scrape:
    """The metrics of one scrape. A value that is None, and a label that is empty, are left out."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def gauge(self, name: str, text: str, value: float | None, /, **labels: str) -> None:
        """Add a sample of a gauge."""
        self._add(Metric(name, text, "gauge"), name, value, labels)

    def count(self, name: str, text: str, value: float | None, /, **labels: str) -> None:
        """Add a sample of a counter; its `name` is without `_total`."""
        self._add(Metric(name, text, "counter"), f"{name}_total", value, labels)

    def _add(self, metric: Metric, name: str, value: float | None, labels: dict[str, str]) -> None:
        if value is not None:
            nonempty = {key: label for key, label in labels.items() if label}
            self.metrics.setdefault(metric.name, metric).add_sample(name, nonempty, float(value))


def _write_session(scrape: _Scrape, view: View) -> None:
    """Of a session that has ended there remain how it ended, and its counters."""
    session, snapshot, running = view.session, view.snapshot, view.ended_at is None
    spec = session.spec
    kind = "tune" if spec.tune is not None else "sweep" if spec.sweep is not None else "run"
    labels = {"session": spec.name}
    about = {"script": spec.script, "kind": kind, "version": session.version}
    scrape.gauge("gmg_session_info", "Script, kind (run, sweep or tune), version.", 1, **labels, **about)
    scrape.gauge("gmg_session_elapsed_seconds", "How long the session has worked.", snapshot.elapsed_s, **labels)
    if running:
        rate = total_fps(snapshot.counted)
        scrape.gauge("gmg_session_fps", "The current rate of all running workers.", rate, **labels)
        per_joule = fps_per_watt(session, snapshot)
        scrape.gauge("gmg_session_env_steps_per_joule", "Current rate by power of the GPUs.", per_joule, **labels)
    states = Counter(worker.state for worker in snapshot.workers)
    for state in WorkerState:
        scrape.gauge("gmg_session_workers", "Workers by state.", states[state], **labels, state=state.value)
    if (queue := snapshot.queue) is not None:
        for word in ("waiting", "running", "finished", "failed", "stopped"):
            scrape.gauge("gmg_jobs", "Jobs by state.", getattr(queue, word), **labels, state=word)
        scrape.gauge("gmg_queue_eta_seconds", "Seconds to the end of all jobs.", queue.eta_s, **labels)
    for group in snapshot.groups:
        scrape.gauge("gmg_group_fps", "The current rate of a group of ranks.", group.fps, **labels, group=group.id)
    for slot in session.slots:
        if (worker := snapshot.worker(slot.name)) is not None:
            _write_worker(scrape, worker, _labels(spec.name, slot))
    for slot in {slot.gpu.uuid: slot for slot in session.slots if slot.gpu is not None}.values() if running else ():
        if slot.gpu is not None and (sample := snapshot.sample(slot.gpu)) is not None:
            _write_gpu(scrape, slot.gpu, sample, _labels(spec.name, slot))
    if (totals := view.totals()) is not None:
        _write_totals(scrape, view.session, totals)


def _write_totals(scrape: _Scrape, session: Session, totals: Totals) -> None:
    name, failures = session.spec.name, totals.failures
    scrape.count("gmg_session_failures", "Attempts that failed, on all slots.", failures.total(), session=name)
    for slot in session.slots:
        labels, energy_j = _labels(name, slot), totals.energy_j.get(slot.name)
        scrape.count("gmg_worker_restarts", "Attempts that were not the first.", totals.restarts[slot.name], **labels)
        scrape.count("gmg_worker_failures", "Attempts that failed.", failures[slot.name], **labels)
        scrape.count("gmg_worker_energy_joules", "Energy that the slot's jobs have used.", energy_j, **labels)


def _write_worker(scrape: _Scrape, worker: Worker, of_slot: dict[str, str]) -> None:
    rank = str(worker.group.rank) if worker.group is not None else ""
    labels = {**of_slot, "gmg_job": str(worker.job or ""), "rank": rank}
    scrape.count("gmg_worker_lines", "Lines of output.", worker.log_lines, **of_slot)
    for state in WorkerState:
        text = "1 for the state that the worker is in, 0 for the others."
        scrape.gauge("gmg_worker_state", text, worker.state is state, **labels, state=state.value)
    if worker.state.ended:
        return
    scrape.gauge("gmg_worker_phase", "1 for the phase that the script is in.", 1, **labels, phase=worker.phase.value)
    for name, text, value, scale in _WORKER:
        scrape.gauge(name, text, _scaled(value(worker), scale), **labels)
    for metric, number in worker.newest.metrics.items():
        scrape.gauge("gmg_worker_metric", "A named number that the script prints.", number, **labels, metric=metric)


def _write_gpu(scrape: _Scrape, gpu: Gpu, sample: GpuSample, labels: dict[str, str]) -> None:
    """What a GPU reports; empty where the driver does not answer for it."""
    del labels["slot"]
    scrape.gauge("gmg_gpu_info", "The GPU's name.", 1, **labels, name=gpu.name)
    for name, text, field, scale in _GPU:
        scrape.gauge(name, text, _scaled(getattr(sample, field), scale), **labels)
    scrape.count("gmg_gpu_energy_joules", "Energy since its driver was loaded.", sample.energy_j, **labels)
    for reason in sample.throttle or ():
        scrape.gauge("gmg_gpu_throttle_reason", "1 for each reason to throttle.", 1, **labels, reason=reason)


def _labels(session: str, slot: Slot) -> dict[str, str]:
    on = {"gpu": str(slot.gpu.index), "uuid": slot.gpu.uuid} if slot.gpu is not None else {}
    return {"session": session, "slot": slot.name, "node": slot.node, **on}


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
