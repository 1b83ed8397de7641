"""What the engine asks of the GPUs, whoever answers: NVML, or simulated GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gmg_tui.model import Gpu, GpuHealth, GpuSample


class Driver(Protocol):
    """The interface of `nvml.Nvml`, where each member is described."""

    error: str | None
    silent: tuple[tuple[int, str], ...]
    indices: dict[str, int]
    fixed_indices: bool
    """Whether every process counts the GPUs in the same way at all times, so that none needs to be asked for it."""

    @property
    def in_trouble(self) -> bool:
        """Whether a GPU, or the driver as a whole, has not answered lately."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs in the order of their indices."""
        ...

    def index_of(self, uuid: str) -> int:
        """The current index of a GPU. Raises `NvmlUnavailable`."""
        ...

    def driver_version(self) -> str | None:
        """The driver's version; None if unknown."""
        ...

    def hear(self, gpus: Iterable[Gpu]) -> bool:
        """Take the Xids of these GPUs since the last time; whether there were any."""
        ...

    def look(self, gpu: Gpu) -> GpuHealth | None:
        """Read the health of a GPU, which its samples have from then on; None where nothing is known."""
        ...

    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample:
        """A sample of `gpu`; trouble is in it, never raised."""
        ...
