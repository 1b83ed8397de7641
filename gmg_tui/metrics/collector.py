"""Makes the metrics of a scrape from the sessions that are followed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gmg_tui.metrics import dcgm
from gmg_tui.metrics.failure_class import failure_class
from gmg_tui.metrics.following import Following
from gmg_tui.metrics.names import Sheet
from gmg_tui.metrics.view import View
from gmg_tui.model import Gpu, GpuSample, Phase, Slot, Snapshot, Worker, WorkerState, fps_per_watt, total_fps
from gmg_tui.store.totals import Totals

_Scale = Callable[[float], float]


def _bytes(mib: float) -> float:
    return mib * (1 << 20)


def _hertz(mhz: float) -> float:
    return mhz * 1e6


def _ratio(pct: float) -> float:
    return pct / 100


_FIGURES: tuple[tuple[str, str, _Scale], ...] = (
    ("gmg_gpu_utilization_ratio", "gpu_util_pct", _ratio),
    ("gmg_gpu_memory_utilization_ratio", "memory_util_pct", _ratio),
    ("gmg_gpu_memory_used_bytes", "memory_used_mib", _bytes),
    ("gmg_gpu_memory_free_bytes", "memory_free_mib", _bytes),
    ("gmg_gpu_memory_total_bytes", "memory_total_mib", _bytes),
    ("gmg_gpu_temperature_celsius", "temperature_c", float),
    ("gmg_gpu_power_watts", "power_w", float),
    ("gmg_gpu_power_limit_watts", "power_limit_w", float),
    ("gmg_gpu_sm_clock_hertz", "sm_clock_mhz", _hertz),
    ("gmg_gpu_sm_clock_max_hertz", "sm_clock_max_mhz", _hertz),
    ("gmg_gpu_fan_ratio", "fan_pct", _ratio),
    ("gmg_gpu_pcie_receive_bytes_per_second", "pcie_rx_mib_s", _bytes),
    ("gmg_gpu_pcie_transmit_bytes_per_second", "pcie_tx_mib_s", _bytes),
)
"""A metric, the field of `GpuSample` that it is, and what makes its unit of the field's."""


class SessionsCollector(Collector):
    """Tells of the sessions that are followed; with `dcgm_names` of their GPUs in the names of dcgm-exporter, too."""

    def __init__(self, following: Following, *, dcgm_names: bool = False) -> None:
        self._following = following
        self._dcgm_names = dcgm_names

    def describe(self) -> Iterable[Metric]:
        """Nothing: which metrics there are depends on what runs."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics at this moment."""
        sheet = Sheet()
        views = sorted(self._following.views.values(), key=lambda view: view.session.spec.name)
        running = [view for view in views if view.left is None]
        sheet.gauge("gmg_sessions", len(running))
        for outcome in ("finished", "failed", "stopped", "lost"):
            sheet.count("gmg_sessions_ended", self._following.ended[outcome], outcome=outcome)
        for view in views:
            silent = view.silent
            if view.left is None:
                sheet.gauge("gmg_session_up", not silent, session=view.session.spec.name)
            if not silent:
                _SessionSheet(sheet, view).write()
        if self._dcgm_names:
            dcgm.write(sheet, [view for view in running if not view.silent])
        return sheet


class _SessionSheet:
    """Writes one session's metrics.

    Of a session that has done its work there remain how it ended, and its counters; what is measured ends with it.
    """

    def __init__(self, sheet: Sheet, view: View) -> None:
        self._sheet = sheet
        self._view = view
        self._session = view.session
        self._snapshot: Snapshot = view.snapshot
        self._name = view.session.spec.name
        self._running = view.left is None

    def write(self) -> None:
        self._whole()
        self._jobs()
        self._groups()
        slots = {slot.name: slot for slot in self._session.slots}
        for worker in self._snapshot.workers:
            if (slot := slots.get(worker.slot)) is not None:
                self._worker(worker, slot)
        for slot in slots.values():
            self._slot(slot)
        if (totals := self._view.totals) is not None:
            self._counted(totals, slots)
        if self._running:
            for gpu, node in {slot.gpu: slot.node for slot in slots.values() if slot.gpu is not None}.items():
                if (sample := self._snapshot.sample(gpu)) is not None:
                    self._gpu(gpu, sample, node)

    def _place(self, slot: Slot) -> dict[str, str]:
        """The labels of a slot."""
        on = {"gpu": str(slot.gpu.index), "uuid": slot.gpu.uuid} if slot.gpu is not None else {}
        return {"session": self._name, "slot": slot.name, "node": slot.node, **on}

    def _whole(self) -> None:
        sheet, snapshot, session, spec = self._sheet, self._snapshot, self._session, self._session.spec
        kind = "tune" if spec.tune is not None else "sweep" if spec.sweep is not None else "run"
        sheet.gauge(
            "gmg_session_info", 1, session=self._name, script=spec.script, kind=kind, version=self._session.version
        )
        sheet.gauge("gmg_session_start_time_seconds", session.started, session=self._name)
        sheet.gauge("gmg_session_elapsed_seconds", snapshot.elapsed_s, session=self._name)
        if self._running:
            sheet.gauge("gmg_session_fps", total_fps(snapshot.counted), session=self._name)
            sheet.gauge("gmg_session_fps_per_watt", fps_per_watt(session, snapshot), session=self._name)
        states = Counter(worker.state for worker in snapshot.workers)
        for state in WorkerState:
            sheet.gauge("gmg_session_workers", states[state], session=self._name, state=state.value)

    def _jobs(self) -> None:
        sheet, queue = self._sheet, self._snapshot.queue
        if queue is None:
            return
        for state in ("waiting", "running", "finished", "failed", "stopped"):
            sheet.gauge("gmg_jobs", getattr(queue, state), session=self._name, state=state)
        sheet.count("gmg_jobs_busy_seconds", queue.busy_s, session=self._name)
        if self._session.spec.tune is not None:
            return  # its jobs are not known before they start
        if self._running:
            sheet.gauge("gmg_queue_eta_seconds", queue.eta_s, session=self._name)
            waited_s = queue.before_s + max(0.0, time.time() - self._session.started) if queue.waiting else 0.0
            sheet.gauge("gmg_queue_longest_wait_seconds", waited_s, session=self._name)

    def _groups(self) -> None:
        for group in self._snapshot.groups:
            labels = {"session": self._name, "group": group.id, "job": _number(group.job)}
            self._sheet.gauge("gmg_group_fps", group.fps, **labels)
            self._sheet.count("gmg_group_restarts", group.restarts, **labels)
            for state in WorkerState:
                self._sheet.gauge("gmg_group_state", group.state is state, **labels, state=state.value)

    def _counted(self, totals: Totals, slots: Mapping[str, Slot]) -> None:
        """What the store has counted."""
        for slot in slots.values():
            self._sheet.count("gmg_worker_restarts", totals.restarts.get(slot.name, 0), **self._place(slot))
        failures = Counter[tuple[str, str]]()
        for (name, reason), count in totals.failures.items():
            failures[name, failure_class(reason)] += count
        self._sheet.count("gmg_session_failures", failures.total(), session=self._name)
        for (name, kind), count in sorted(failures.items()):
            if (found := slots.get(name)) is not None:
                self._sheet.count("gmg_worker_failures", count, **self._place(found), **{"class": kind})
        if (
            self._session.spec.sweep is not None and self._session.spec.tune is None
        ):  # a tuning's are made as they start
            self._sheet.summary("gmg_queue_wait_seconds", totals.begun, totals.waited_s, session=self._name)

    def _slot(self, slot: Slot) -> None:
        """What is counted on a slot over all that runs there."""
        place, view = self._place(slot), self._view
        self._sheet.count("gmg_worker_lines", view.lines.get(slot.name, 0), **place)
        self._sheet.count("gmg_worker_energy_joules", view.energy_j.get(slot.name), **place)
        queue = self._snapshot.queue
        if queue is not None and slot.name in queue.benched:
            self._sheet.gauge("gmg_slot_benched", 1, **place)

    def _worker(self, worker: Worker, slot: Slot) -> None:
        """What a worker does at this moment."""
        sheet = self._sheet
        rank = str(worker.group.rank) if worker.group is not None else ""
        labels = {**self._place(slot), "job": _number(worker.job), "rank": rank}
        for state in WorkerState:
            sheet.gauge("gmg_worker_state", worker.state is state, **labels, state=state.value)
        sheet.gauge("gmg_worker_state_seconds", worker.state_s, **labels)
        sheet.gauge("gmg_worker_attempt", worker.attempt or None, **labels)
        if worker.state.ended:
            return
        sheet.gauge("gmg_worker_stuck", worker.stuck is not None, **labels)
        if worker.phase is not Phase.NONE:
            sheet.gauge("gmg_worker_phase", 1, **labels, phase=worker.phase.value)
            sheet.gauge("gmg_worker_phase_seconds", worker.phase_s, **labels)
        if worker.current_fps is not None and worker.fps is not None:
            sheet.gauge("gmg_worker_fps", worker.fps.last, **labels)
            sheet.gauge("gmg_worker_fps_settled", worker.fps.settled, **labels)
        sheet.gauge("gmg_worker_n_envs", worker.n_envs, **labels)
        if (progress := worker.progress) is not None:
            sheet.gauge(
                "gmg_worker_progress_ratio", progress.done / progress.total if progress.total else None, **labels
            )
            sheet.gauge("gmg_worker_eta_seconds", progress.eta_s, **labels)
        sheet.gauge("gmg_worker_cpu_ratio", _in(_ratio, worker.cpu_pct), **labels)
        sheet.gauge("gmg_worker_memory_bytes", _in(_bytes, worker.memory_rss_mib), **labels)
        sheet.gauge("gmg_worker_gpu_memory_peak_bytes", _in(_bytes, worker.memory_peak_mib), **labels)

    def _gpu(self, gpu: Gpu, sample: GpuSample, node: str) -> None:
        """What a GPU reports; nothing of one that the driver does not answer for."""
        sheet = self._sheet
        labels = {"session": self._name, "node": node, "gpu": str(gpu.index), "uuid": gpu.uuid}
        sheet.gauge("gmg_gpu_info", 1, **labels, name=gpu.name, pci_bus_id=gpu.pci_bus_id or "")
        sheet.gauge("gmg_gpu_lost", sample.lost, **labels)
        for name, field, scale in _FIGURES:
            sheet.gauge(name, _in(scale, getattr(sample, field)), **labels)
        sheet.count("gmg_gpu_energy_joules", sample.energy_j, **labels)
        if sample.throttle is not None:
            sheet.gauge("gmg_gpu_throttled", bool(sample.throttle), **labels)
            for reason in sample.throttle:
                sheet.gauge("gmg_gpu_throttle_reason", 1, **labels, reason=reason)


def _in(scale: _Scale, value: float | None) -> float | None:
    return None if value is None else scale(value)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
