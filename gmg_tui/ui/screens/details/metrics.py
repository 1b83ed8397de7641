"""The current metrics of a worker and its GPU, written to a page as labels and texts."""

from __future__ import annotations

from gmg_tui import units
from gmg_tui.model import Gpu, GpuActivity, GpuSample, Worker
from gmg_tui.ui.drawing import groups, words
from gmg_tui.ui.drawing.page import Page


def write_worker(page: Page, worker: Worker) -> None:
    """What the script prints, what Genesis reports about itself, and what the process tree uses."""
    fps, done = worker.fps, worker.progress
    page.heading("Worker")
    if worker.group is not None:
        page.row("group", groups.rank_name(worker.group))
    if worker.fps_in_rank_0 and fps is None:
        page.row("FPS", words.COUNTED, "dim")
    else:
        page.row("FPS", _rate(worker), words.rate_style(worker))
    if worker.fps_in_rank_0 and fps is not None:
        page.row("", words.COUNTED)
    if worker.fps_of_group:
        page.row("", f"of all {units.count(worker.group.world_size, 'rank')}" if worker.group else "of all ranks")
    if worker.fps_silent_s is not None:
        page.row("", words.beside_rate(worker).text, "warn")
    if fps is not None:
        page.row("printed last", units.fps(fps.last))
        means = f"{units.short(fps.mean)}, {units.short(fps.max)} of {units.count(fps.samples, 'sample')}"
        page.row("mean, max", means)
    page.row("envs", words.known(worker.n_envs, "{:,}".format))
    if done is not None:
        left = "" if done.eta_s is None else f", {units.span(done.eta_s)} left"
        if done.pace_per_s is not None:
            left = f", {units.short(done.pace_per_s)} {done.unit}/s{left}"
        page.row("progress", f"{done.unit} {done.done:,.0f} of {done.total:,.0f}{left}")
    cpu, memory = words.known(worker.cpu_pct, "{:.0f} %".format), words.known(worker.memory_rss_mib, units.mib)
    page.row("process tree", f"CPU {cpu}, RAM {memory}")
    page.row("Genesis", _genesis(worker))


def _rate(worker: Worker) -> str:
    """The rate with its spread: `24,013,029 ± 310k`."""
    spread = worker.fps.spread if worker.fps else None
    return words.rate_of(worker) if spread is None else f"{words.rate_of(worker)} ± {units.short(spread)}"


def write_gpu(page: Page, gpu: Gpu, sample: GpuSample | None, worker: Worker) -> None:
    """The GPU's newest sample; `n/a` for what it does not report."""
    late = sample is not None and sample.age_s is not None and not sample.silent
    page.heading(f"GPU {units.span(sample.age_s)} ago" if sample is not None and late else "GPU now")
    if sample is None:
        page.row("GPU", "no sample yet", "dim")
        return
    load = f"{_given(sample.gpu_util_pct, '{:.0f} %')}, memory {_given(sample.memory_util_pct, '{:.0f} %')}"
    full_mib, limit_w = sample.memory_total_mib or gpu.memory_total_mib, sample.power_limit_w or gpu.power_limit_w
    page.row("GPU", load)
    activity = sample.activity or GpuActivity()
    if activity.sm_pct is not None:
        page.row("SMs busy", f"{activity.sm_pct:.0f} %, occupancy {_given(activity.occupancy_pct, '{:.0f} %')}")
        dram = _given(activity.dram_pct, "{:.0f} %")
        page.row("tensor", f"{_given(activity.tensor_pct, '{:.0f} %')}, DRAM bandwidth {dram}")
    page.row("VRAM", f"{units.gib(sample.memory_used_mib)} of {units.gib(full_mib)} GiB")
    page.row("power", f"{units.whole(sample.power_w)} of {units.whole(limit_w)} W")
    page.row("temperature", _given(sample.temperature_c, "{:.0f} °C"))
    page.row("SM clock", f"{units.whole(sample.sm_clock_mhz)} of {units.whole(sample.sm_clock_max_mhz)} MHz")
    page.row("throttled", *_throttle(sample))
    page.row("fan", _given(sample.fan_pct, "{:.0f} %"))
    received, sent = activity.pcie_rx_mib_s, activity.pcie_tx_mib_s
    received = sample.pcie_rx_mib_s if received is None else received
    sent = sample.pcie_tx_mib_s if sent is None else sent
    page.row("PCIe", f"in {units.whole(received)}, out {units.whole(sent)} MiB/s")
    if activity.nvlink_rx_mib_s is not None or activity.nvlink_tx_mib_s is not None:
        linked = f"in {units.whole(activity.nvlink_rx_mib_s)}, out {units.whole(activity.nvlink_tx_mib_s)} MiB/s"
        page.row("NVLink", linked)
    page.row("energy", f"{units.energy(worker.energy_j)} here, {units.energy(sample.energy_j)} total")


def write_identity(page: Page, gpu: Gpu) -> None:
    """What does not change about a GPU."""
    index = str(gpu.index) if gpu.mig_index is None else f"{gpu.index}, MIG instance {gpu.mig_index}"
    persistence = {True: "on", False: "off", None: units.NOT_SUPPORTED}[gpu.persistence]
    page.heading("GPU").row("GPU", gpu.name).row("index", f"{index}, PCI {gpu.pci_bus_id or units.NOT_SUPPORTED}")
    page.row("UUID", gpu.uuid).row("persistence", persistence)
    if gpu.driver is not None:
        page.row("driver", f"{gpu.driver}{f', CUDA {gpu.cuda}' if gpu.cuda is not None else ''}")


def _genesis(worker: Worker) -> str:
    if worker.genesis_version is None and worker.backend is None and worker.device is None:
        return "nothing reported yet"
    version = worker.genesis_version or units.NOT_KNOWN
    return f"{version} on {worker.backend or units.NOT_KNOWN}, {worker.device or units.NOT_KNOWN}"


def _throttle(sample: GpuSample) -> tuple[str, str]:
    if sample.throttle is None:
        return units.NOT_SUPPORTED, "text"
    return (", ".join(sample.throttle), "warn") if sample.throttle else ("no", "text")


def _given(value: float | None, form: str) -> str:
    return units.NOT_SUPPORTED if value is None else form.format(value)
