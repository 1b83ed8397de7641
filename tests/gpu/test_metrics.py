"""NVML's figures in the units that their names promise, from answers of a driver."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml

from gmg_tui.gpu import metrics
from gmg_tui.gpu.driver import Asker
from gmg_tui.model import GpuSample

ANSWERS: dict[Callable[..., Any], Any] = {
    pynvml.nvmlDeviceGetUtilizationRates: SimpleNamespace(gpu=97, memory=41),
    pynvml.nvmlDeviceGetMemoryInfo: SimpleNamespace(used=30 << 30, total=80 << 30, free=50 << 30),
    pynvml.nvmlDeviceGetTemperature: 61,
    pynvml.nvmlDeviceGetPowerUsage: 612_500,
    pynvml.nvmlDeviceGetEnforcedPowerLimit: 700_000,
    pynvml.nvmlDeviceGetTotalEnergyConsumption: 5_000,
    pynvml.nvmlDeviceGetClockInfo: 1755,
    pynvml.nvmlDeviceGetMaxClockInfo: 1980,
    pynvml.nvmlDeviceGetFanSpeed: 40,
    pynvml.nvmlDeviceGetPcieThroughput: 2048,
}


class Answers(Asker):
    """A GPU whose driver gives these answers, and None for all other queries."""

    def __init__(self, answers: dict[Callable[..., Any], Any]) -> None:
        super().__init__(None)
        self._answers = answers

    def __call__(self, question: Callable[..., Any], *_: object) -> Any:
        return self._answers.get(question)


def test_metrics_have_the_units_of_their_names() -> None:
    sample = metrics.fast(Answers(ANSWERS), GpuSample("GPU-1"))
    assert (sample.gpu_util_pct, sample.memory_util_pct, sample.temperature_c) == (97, 41, 61)
    assert (sample.memory_used_mib, sample.memory_total_mib, sample.memory_free_mib) == (30720, 81920, 51200)
    assert (sample.power_w, sample.energy_j, sample.sm_clock_mhz) == (612.5, 5, 1755)
    rare = metrics.slow(Answers(ANSWERS), "GPU-1")
    assert (rare.power_limit_w, rare.sm_clock_max_mhz, rare.fan_pct) == (700, 1980, 40)
    assert (rare.pcie_rx_mib_s, rare.pcie_tx_mib_s) == (2, 2)


def test_metrics_that_the_driver_does_not_support_are_none() -> None:
    assert metrics.fast(Answers({}), GpuSample("GPU-1")) == GpuSample("GPU-1")
