"""The GPUs in the names of NVIDIA's dcgm-exporter, in its units, as its dashboard for Grafana asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from gmg_tui import machine
from gmg_tui.metrics.names import Sheet
from gmg_tui.metrics.view import View

_FIGURES = (
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz"),
    ("DCGM_FI_DEV_GPU_TEMP", "temperature_c"),
    ("DCGM_FI_DEV_POWER_USAGE", "power_w"),
    ("DCGM_FI_DEV_GPU_UTIL", "gpu_util_pct"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_util_pct"),
    ("DCGM_FI_DEV_FB_FREE", "memory_free_mib"),
    ("DCGM_FI_DEV_FB_USED", "memory_used_mib"),
)
"""A name, and the field of `GpuSample` that it is. Names and labels: NVIDIA/dcgm-exporter, etc/default-counters.csv."""


def write(sheet: Sheet, views: Iterable[View]) -> None:
    """Write the GPUs of these sessions, each once, whatever shares it."""
    written = set[str]()
    for view in views:
        for slot in view.session.slots:
            gpu, sample = slot.gpu, view.snapshot.sample(slot.gpu)
            if gpu is None or sample is None or gpu.uuid in written:
                continue
            written.add(gpu.uuid)
            labels = {
                "gpu": str(gpu.index),
                "UUID": gpu.uuid,
                "pci_bus_id": gpu.pci_bus_id or "",
                "device": f"nvidia{gpu.index}",
                "modelName": gpu.name,
                "Hostname": slot.node or machine.name(),
            }
            for name, field in _FIGURES:
                sheet.gauge(name, getattr(sample, field), **labels)
