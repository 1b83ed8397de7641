"""SM activity by a GPU's own counters (GPM, from Hopper on), which is DCGM's `SM_ACTIVE` (nvml.h, nvmlGpm*).

`nvmlDeviceGetUtilizationRates` is the share of time with at least one running kernel: one thread can make it 100 %.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pynvml

from gmg_tui.machine.gpu.driver import FATAL, UNSUPPORTED, plausible
from gmg_tui.machine.gpu.nvml_metrics import MAX_PCT

MIN_SAMPLE_GAP_S = 0.9
"""Interval of samples: NVML recommends about a second (nvml.h, nvmlGpmMetricsGet)."""
_MAX_REPORTED_PCT = 150.0
"""GPM may report a little over 100 % (github.com/NVIDIA/DCGM/issues/152)."""


class Gpm:
    """The counters of one GPU or MIG instance, for one thread. Free them before `nvmlShutdown`.

    Args:
        handle: The handle of the GPU, or of an instance's GPU.
        instance: The ID of the GPU instance; None for a whole GPU.
    """

    def __init__(self, handle: Any, instance: int | None = None) -> None:
        self._handle = handle
        self._instance = instance
        self._samples: list[Any] = []
        self._taken_at: float | None = None
        self._newest: float | None = None
        self._get: Any = None
        self._off = False
        if not self._answered(self._begin):
            self.free()

    def read(self) -> float | None:
        """Returns the percentage of busy SMs between the last two samples; None before the second, or if unsupported.

        Raises `pynvml.NVMLError` if the GPU or NVML is gone (`FATAL`).
        """
        now = time.monotonic()
        if not self._off and (self._taken_at is None or now - self._taken_at >= MIN_SAMPLE_GAP_S):
            self._taken_at = now if self._answered(self._measure) else None
        return self._newest

    def free(self) -> None:
        """Frees the memory, and ends reading."""
        self._off, self._newest = True, None
        for sample in self._samples:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)
        self._samples.clear()

    def _answered(self, ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except pynvml.NVMLError as error:
            if error.value in FATAL:
                raise
            if error.value in UNSUPPORTED or error.value == pynvml.NVML_ERROR_NO_PERMISSION:
                self.free()
            self._newest = None
            return False

    def _begin(self) -> bool:
        if not pynvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            return False
        self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._get = pynvml.c_nvmlGpmMetricsGet_t()  # 19 KB
        self._get.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._get.numMetrics = 1
        self._get.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        return True

    def _measure(self) -> bool:
        older, newer = self._samples
        if self._instance is None:
            pynvml.nvmlGpmSampleGet(self._handle, older)
        else:
            pynvml.nvmlGpmMigSampleGet(self._handle, self._instance, older)
        self._samples.reverse()
        if self._taken_at is not None:
            self._get.sample1, self._get.sample2 = newer, older
            pynvml.nvmlGpmMetricsGet(self._get)
            metric = self._get.metrics[0]
            value = metric.value if metric.nvmlReturn == pynvml.NVML_SUCCESS else None
            value = plausible(value, _MAX_REPORTED_PCT)
            self._newest = None if value is None else min(value, MAX_PCT)
        return True
