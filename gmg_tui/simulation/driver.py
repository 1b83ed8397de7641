"""Simulated GPUs with the interface of `gmg_tui.machine.gpu.nvml.Nvml`, under the load of the simulated workers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui.machine.gpu.driver import NvmlUnavailable
from gmg_tui.machine.processes import command_line
from gmg_tui.model import Gpu, GpuHealth, GpuProcess, GpuSample
from gmg_tui.simulation import SLOW_CARD

NAME = "Simulated 16GB"
TOTAL_MIB = 16376
LIMIT_W = 175.0
_IDLE_W = 18.0
_RESERVED_MIB = 280.0
"""Memory reserved by the driver."""
_COOL_C, _C_PER_W = 34.0, 0.25
_CLOCK_MHZ, _CLOCK_MAX_MHZ, _CLOCK_IDLE_MHZ = 2040.0, 2100.0, 210.0
_UUID = "GPU-simulated-"


class _Use(Struct):
    """A worker's report of its load."""

    index: int
    mib: float
    util_pct: float


class SimulatedNvml:
    """Simulates `count` GPUs with the load that live workers report in `folder`. Usable in any thread."""

    def __init__(self, count: int, folder: Path | None = None) -> None:
        self.error: str | None = None
        self._folder = folder
        self._gpus = tuple(
            Gpu(
                index=index,
                uuid=f"{_UUID}{index}",
                name=NAME,
                pci_bus_id=f"00000000:{index + 1:02X}:00.0",
                memory_total_mib=TOTAL_MIB,
                power_limit_w=LIMIT_W,
                persistence=True,
            )
            for index in range(count)
        )
        self._indices = {gpu.uuid: gpu.index for gpu in self._gpus}
        self._energy_j = [0.0] * count
        self._read_at = [time.monotonic()] * count

    def close(self) -> None:
        """Does nothing."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Returns the GPUs by index."""
        return self._gpus

    def index_of(self, uuid: str) -> int:
        """Returns the index of a GPU. Raises `NvmlUnavailable` if there is none with that UUID."""
        if uuid not in self._indices:
            raise NvmlUnavailable(f"{uuid}: no such simulated GPU")
        return self._indices[uuid]

    def poll_xids(self, gpus: Iterable[Gpu]) -> bool:
        """Returns False: simulated GPUs have no Xids."""
        return False

    def check_health(self, gpu: Gpu) -> GpuHealth | None:
        """Returns None: simulated GPUs report no health."""
        return None

    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample:
        """Returns a sample of `gpu`, whatever `slow` and `activity`."""
        del slow, activity
        uses = self._uses(gpu.index)
        throttled = gpu.index == SLOW_CARD
        # Processes share the GPU's time.
        util = min(100.0, sum(use.util_pct for _, use in uses))
        used = min(float(TOTAL_MIB), _RESERVED_MIB + sum(use.mib for _, use in uses))
        now = time.monotonic()
        power = _IDLE_W + (LIMIT_W - _IDLE_W) * (util / 100.0) * (0.97 + 0.02 * math.sin(now / 3.0 + gpu.index))
        temperature = _COOL_C + (12.0 if throttled else 0.0) + _C_PER_W * power + 0.7 * gpu.index % 3
        self._energy_j[gpu.index] += power * (now - self._read_at[gpu.index])
        self._read_at[gpu.index] = now
        hot = throttled and util > 50.0
        clock = _CLOCK_IDLE_MHZ if util < 1.0 else _CLOCK_MHZ / (1.09 if hot else 1.0)
        return GpuSample(
            uuid=gpu.uuid,
            gpu_util_pct=round(util),
            memory_util_pct=round(util * 0.45),
            memory_used_mib=used,
            memory_total_mib=float(TOTAL_MIB),
            memory_free_mib=TOTAL_MIB - used,
            temperature_c=round(temperature),
            power_w=round(power, 1),
            power_limit_w=LIMIT_W,
            sm_clock_mhz=round(clock),
            sm_clock_max_mhz=_CLOCK_MAX_MHZ,
            throttle=("thermal",) if hot else (),
            fan_pct=round(min(100.0, max(30.0, 1.3 * (temperature - 20.0)))),
            energy_j=round(self._energy_j[gpu.index], 1),
            processes=tuple(GpuProcess(pid=pid, memory_mib=use.mib) for pid, use in uses),
        )

    def _uses(self, index: int) -> list[tuple[int, _Use]]:
        """Returns the PIDs and loads of the live workers on a GPU, by PID."""
        uses: list[tuple[int, _Use]] = []
        for file in self._folder.glob("[0-9]*") if self._folder is not None else ():
            with suppress(OSError, ValueError, msgspec.MsgspecError):
                use = msgspec.json.decode(file.read_bytes(), type=_Use)
                # A zombie has no command line.
                if use.index == index and command_line(int(file.name)):
                    uses.append((int(file.name), use))
        return sorted(uses, key=lambda pair: pair[0])
