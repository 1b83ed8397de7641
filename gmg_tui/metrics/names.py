"""The names of the metrics, what each is, and its type. Units are Prometheus' base units; counters end in `_total`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

_GAUGES: Mapping[str, str] = {
    "gmg_sessions": "Sessions that run on this machine.",
    "gmg_session_up": "Whether the session's engine answers; where it does not, nothing else is told of the session.",
    "gmg_session_info": "The session's script, its kind (run, sweep or tune) and the version of its gmg-tui.",
    "gmg_session_start_time_seconds": "When the session's engine started, Unix time.",
    "gmg_session_elapsed_seconds": "How long the session has worked; stands still while all workers have ended.",
    "gmg_session_fps": "Environment steps per second of all running workers together (settled rates).",
    "gmg_session_fps_per_watt": "Environment steps per joule: FPS of the running workers over their GPUs' power.",
    "gmg_session_workers": "Workers by state.",
    "gmg_jobs": "Jobs of a sweep or a tuning by state.",
    "gmg_queue_eta_seconds": "Seconds to the end of all jobs, from the times of those that have ended.",
    "gmg_queue_longest_wait_seconds": "How long the jobs that still wait have waited; 0 where none does.",
    "gmg_slot_benched": "1 where no job starts on the slot's GPU until a person says so.",
    "gmg_worker_fps": "Environment steps per second, as the script printed them last.",
    "gmg_worker_fps_settled": "Environment steps per second by wall time over the last seconds.",
    "gmg_worker_n_envs": "Environments that the worker simulates.",
    "gmg_worker_state": "1 for the state that the worker is in, 0 for the others.",
    "gmg_worker_state_seconds": "How long it has been in this state.",
    "gmg_worker_phase": "1 for the phase that the script is in.",
    "gmg_worker_phase_seconds": "How long it has been in this phase.",
    "gmg_worker_stuck": "1 where the worker counts as stuck.",
    "gmg_worker_attempt": "Number of the current attempt, from 1.",
    "gmg_worker_progress_ratio": "How much of its work the script says is done.",
    "gmg_worker_eta_seconds": "Seconds to the script's end, from its pace or as it says.",
    "gmg_worker_cpu_ratio": "CPU of its processes; 1 is a whole core.",
    "gmg_worker_memory_bytes": "Resident memory of its processes.",
    "gmg_worker_gpu_memory_peak_bytes": "The most GPU memory that the current attempt has used.",
    "gmg_group_fps": "Environment steps per second of a group of ranks.",
    "gmg_group_state": "1 for the state that the group is in, 0 for the others.",
    "gmg_gpu_info": "The GPU's name and PCI bus ID.",
    "gmg_gpu_lost": "1 where the driver reports the GPU as lost.",
    "gmg_gpu_utilization_ratio": "Share of the time in which a kernel ran.",
    "gmg_gpu_memory_utilization_ratio": "Share of the time in which memory was read or written.",
    "gmg_gpu_memory_used_bytes": "Memory in use.",
    "gmg_gpu_memory_free_bytes": "Memory that can be allocated.",
    "gmg_gpu_memory_total_bytes": "Memory that it has.",
    "gmg_gpu_temperature_celsius": "Temperature of the GPU.",
    "gmg_gpu_power_watts": "Power draw.",
    "gmg_gpu_power_limit_watts": "Power limit in force.",
    "gmg_gpu_sm_clock_hertz": "Clock of the SMs.",
    "gmg_gpu_sm_clock_max_hertz": "Highest clock of the SMs.",
    "gmg_gpu_fan_ratio": "Speed of the fan.",
    "gmg_gpu_pcie_receive_bytes_per_second": "PCIe traffic to the GPU.",
    "gmg_gpu_pcie_transmit_bytes_per_second": "PCIe traffic from the GPU.",
    "gmg_gpu_throttled": "Whether anything holds the clocks below their maximum.",
    "gmg_gpu_throttle_reason": "1 for each reason that holds the clocks below their maximum.",
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
}
_COUNTERS: Mapping[str, str] = {
    "gmg_sessions_ended": "Sessions that have ended since these metrics are told, by outcome.",
    "gmg_jobs_busy_seconds": "How long all jobs together have occupied slots.",
    "gmg_session_failures": "Attempts that failed, on all slots together: 0 where none did, so that the first can be seen.",
    "gmg_worker_restarts": "Attempts on the slot that were not the first of their job.",
    "gmg_worker_failures": "Attempts on the slot that failed, by class of the failure.",
    "gmg_worker_lines": "Lines that the slot's workers have printed.",
    "gmg_worker_energy_joules": "Energy that the slot's workers have used since these metrics are told.",
    "gmg_group_restarts": "Restarts of the group.",
    "gmg_gpu_energy_joules": "The GPU's energy counter, since its driver was loaded.",
}
"""Without `_total`, which the text format appends."""
_SUMMARIES: Mapping[str, str] = {"gmg_queue_wait_seconds": "How long jobs have waited in the queue for their start."}


class Sheet:
    """The metrics of one scrape. A value that is None, and a label that is empty, are left out."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def gauge(self, name: str, value: float | None, /, **labels: str) -> None:
        """Tell a gauge."""
        if value is not None:
            self._metric(name, _GAUGES, "gauge").add_sample(name, _told(labels), float(value))

    def count(self, name: str, value: float | None, /, **labels: str) -> None:
        """Tell a counter; its `name` is without `_total`."""
        if value is not None:
            self._metric(name, _COUNTERS, "counter").add_sample(f"{name}_total", _told(labels), float(value))

    def summary(self, name: str, count: int, total: float, /, **labels: str) -> None:
        """Tell how many there were, and their sum."""
        metric = self._metric(name, _SUMMARIES, "summary")
        metric.add_sample(f"{name}_count", _told(labels), float(count))
        metric.add_sample(f"{name}_sum", _told(labels), total)

    def _metric(self, name: str, known: Mapping[str, str], kind: str) -> Metric:
        if name not in self._metrics:
            self._metrics[name] = Metric(name, known[name], kind)
        return self._metrics[name]


def _told(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if value}
