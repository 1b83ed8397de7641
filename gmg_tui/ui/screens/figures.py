"""The current figures of a worker and its card, as labels and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gmg_tui import units
from gmg_tui.model import Gpu, GpuReading, Worker
from gmg_tui.ui.renderables import words

Figure: TypeAlias = tuple[str, str, str]
"""A label, its text, and the name of the text's style."""


def of_worker(worker: Worker) -> Iterator[Figure]:
    """What the script prints, what Genesis says of itself, and what the process tree uses."""
    fps = worker.fps
    yield "FPS", units.fps(fps.last if fps else None), "fps"
    if fps is not None:
        yield (
            "mean, max",
            f"{units.short(fps.mean)}, {units.short(fps.max)} of {units.count(fps.samples, 'sample')}",
            "text",
        )
        now = words.rate_now(worker)
        if now is not None:
            yield "", now, "text"
    yield "envs", units.NOT_KNOWN if worker.n_envs is None else f"{worker.n_envs:,}", "text"
    if worker.progress is not None:
        done = worker.progress
        left = "" if done.eta_s is None else f", {units.span(done.eta_s)} left"
        yield "progress", f"{done.unit} {done.done:,.0f} of {done.total:,.0f}{left}", "text"
    yield "process tree", f"CPU {_known(worker.cpu_pct, '{:.0f} %')}, RAM {_known_mib(worker.memory_rss_mib)}", "text"
    yield "Genesis", _genesis(worker), "text"


def of_card(gpu: Gpu, reading: GpuReading | None, worker: Worker | None) -> Iterator[Figure]:
    """What the card says now; `n/a` where it does not say."""
    if reading is None:
        yield "card", "not read yet", "dim"
        return
    full = reading.memory_total_mib or gpu.memory_total_mib
    yield (
        "GPU",
        f"{_given(reading.gpu_util_pct, '{:.0f} %')}, memory {_given(reading.memory_util_pct, '{:.0f} %')}",
        "text",
    )
    yield "VRAM", f"{units.gib(reading.memory_used_mib)} of {units.gib(full)} GiB", "text"
    yield (
        "power",
        f"{units.whole(reading.power_w)} of {units.whole(reading.power_limit_w or gpu.power_limit_w)} W",
        "text",
    )
    yield "temperature", _given(reading.temperature_c, "{:.0f} °C"), "text"
    clocks = f"{units.whole(reading.sm_clock_mhz)} of {units.whole(reading.sm_clock_max_mhz)} MHz"
    yield "SM clock", clocks, "text"
    yield "throttled", *_throttle(reading)
    yield "fan", _given(reading.fan_pct, "{:.0f} %"), "text"
    received, sent = _given(reading.pcie_rx_mib_s, "{:.0f}"), _given(reading.pcie_tx_mib_s, "{:.0f}")
    yield "PCIe", f"in {received}, out {sent} MiB/s", "text"
    yield (
        "energy",
        f"{units.energy(worker.energy_j if worker else None)} here, {units.energy(reading.energy_j)} in all",
        "text",
    )


def identity(gpu: Gpu) -> Iterator[Figure]:
    """What does not change about a card."""
    yield "card", gpu.name, "text"
    index = str(gpu.index) if gpu.mig_index is None else f"{gpu.index}, MIG instance {gpu.mig_index}"
    yield "index", f"{index}, PCI {gpu.pci_bus_id or units.NOT_SUPPORTED}", "text"
    yield "UUID", gpu.uuid, "text"
    persistence = {True: "on", False: "off", None: units.NOT_SUPPORTED}[gpu.persistence]
    yield "persistence", persistence, "text"


def _genesis(worker: Worker) -> str:
    if worker.genesis_version is None and worker.backend is None and worker.device is None:
        return "has said nothing of itself yet"
    version = worker.genesis_version or units.NOT_KNOWN
    return f"{version} on {worker.backend or units.NOT_KNOWN}, {worker.device or units.NOT_KNOWN}"


def _throttle(reading: GpuReading) -> tuple[str, str]:
    if reading.throttle is None:
        return units.NOT_SUPPORTED, "text"
    return (", ".join(reading.throttle), "warn") if reading.throttle else ("no", "text")


def _given(value: float | None, form: str) -> str:
    return units.NOT_SUPPORTED if value is None else form.format(value)


def _known(value: float | None, form: str) -> str:
    return units.NOT_KNOWN if value is None else form.format(value)


def _known_mib(value: float | None) -> str:
    return units.NOT_KNOWN if value is None else units.mib(value)
