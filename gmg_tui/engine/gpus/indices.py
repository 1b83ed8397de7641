"""Looks up a GPU's NVML index anew for each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.gpu import silence
from gmg_tui.gpu.driver import Driver
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu

WAITS = "for the NVIDIA driver to answer"


class DriverSilentError(NvmlUnavailable):
    """The driver has not answered for long."""


class GpuIndices:
    """The current NVML indices of a session's GPUs; `nvml` is None where there are only CPU slots."""

    def __init__(self, nvml: Driver | None) -> None:
        self._nvml = nvml
        self._pending: dict[str, asyncio.Task[int]] = {}
        """What NVML has been asked and not answered, by UUID: a driver that hangs for hours keeps a thread for each."""

    async def of(self, gpu: Gpu, report: Callable[[str], None]) -> int:
        """The index of a GPU, or of the GPU that a MIG instance is on; `report` gets a line while the driver is waited for.

        Raises `NvmlUnavailable` if the GPU or the driver does not answer.
        """
        if self._nvml is None:
            return gpu.index
        asking = self._ask(self._nvml, gpu.parent_uuid or gpu.uuid)
        answered, _ = await asyncio.wait([asking], timeout=silence.LATE_S)
        if not answered:
            report(WAITS)
            answered, _ = await asyncio.wait([asking], timeout=silence.GIVE_UP_S - silence.LATE_S)
        if not answered:
            raise DriverSilentError(silence.gave_up(silence.GIVE_UP_S))
        return asking.result()

    def _ask(self, nvml: Driver, uuid: str) -> asyncio.Task[int]:
        def forget(task: asyncio.Task[int]) -> None:
            del self._pending[uuid]
            if not task.cancelled():
                task.exception()  # an answer that nobody waits for any more is no fault

        if uuid not in self._pending:
            self._pending[uuid] = asyncio.create_task(in_daemon_thread(nvml.index_of, uuid))
            self._pending[uuid].add_done_callback(forget)
        return self._pending[uuid]
