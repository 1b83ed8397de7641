"""Looks up a GPU's NVML index anew for each attempt, as the attempt's own process will count."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.gpu import fresh_indices, silence
from gmg_tui.gpu.driver import Driver
from gmg_tui.gpu.helper import NoAnswerError
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

FRESH_S = 30.0
"""How long an enumeration of the GPUs counts as that of a process that starts now, unless something has failed since."""
WAITS = "for the NVIDIA driver to answer"


class DriverSilentError(NvmlUnavailable):
    """The driver has not answered for long."""


class GpuIndices:
    """The current NVML indices of a session's GPUs.

    NVML counts the GPUs of the moment when it was initialised, and so does CUDA: once a GPU has left the bus, the
    engine's own NVML counts it still, while the processes that start from then on do not, and take other GPUs for
    those behind it. So a helper process is asked, about 50 ms, unless NVML was initialised or a helper asked a moment
    ago and nothing has failed since. A start of many workers needs none, and attempts that start together share one.

    `nvml`, which has just been initialised and asked for its GPUs, is None where there are only CPU slots. `changed` is
    called when the GPUs are counted differently than before.
    """

    def __init__(self, nvml: Driver | None, changed: Callable[[], None] = lambda: None) -> None:
        self._nvml = nvml
        self._changed = changed
        self._fresh_until = time.monotonic() + FRESH_S
        self._asked: dict[str, int] | None = None
        """What the last helper said; None before the first, and NVML's own indices hold."""
        self._asking: asyncio.Task[None] | None = None
        self._pending: dict[str, asyncio.Task[int]] = {}
        """What NVML has been asked and not answered, by UUID: a driver that hangs for hours keeps a thread for each."""

    async def of(self, gpu: Gpu, say: Callable[[str], None]) -> int:
        """The index of a GPU, or of the GPU that a MIG instance is on; `say` is told when the driver is waited for.

        Raises `NvmlUnavailable` if the GPU or the driver does not answer.
        """
        nvml, uuid = self._nvml, gpu.parent_uuid or gpu.uuid
        if nvml is None:
            return gpu.index
        index = await _answered(asyncio.shield(self._own_index(nvml, uuid)), say)
        if nvml.fixed_indices:
            return index
        if self._asking is None and (nvml.in_trouble or time.monotonic() >= self._fresh_until):
            self._fresh_until = time.monotonic() + FRESH_S
            self._asking = asyncio.create_task(self._ask())
        if self._asking is not None:
            await _answered(asyncio.shield(self._asking), say)
        if self._asked is None:
            return index
        if uuid not in self._asked:
            raise NvmlUnavailable(f"{uuid}: a process that starts now does not find this GPU; `dmesg` may say why")
        return self._asked[uuid]

    def doubt(self) -> None:
        """An attempt has failed, maybe because a GPU has: the next look-up asks a fresh process."""
        self._fresh_until = 0.0

    def _own_index(self, nvml: Driver, uuid: str) -> asyncio.Task[int]:
        """The index by the engine's own NVML."""

        def forget(task: asyncio.Task[int]) -> None:
            del self._pending[uuid]
            if not task.cancelled():
                task.exception()  # an answer that nobody waits for any more is no fault

        if uuid not in self._pending:
            self._pending[uuid] = asyncio.create_task(in_daemon_thread(nvml.index_of, uuid))
            self._pending[uuid].add_done_callback(forget)
        return self._pending[uuid]

    async def _ask(self) -> None:
        try:
            before = self._asked if self._asked is not None or self._nvml is None else self._nvml.indices
            self._asked = await fresh_indices.ask(silence.GIVE_UP_S)
            if self._asked != before:
                self._changed()
        except NoAnswerError as error:
            _log.warning("the GPUs are counted as at the last time: %s", error)
        finally:
            self._asking = None


async def _answered(asking: Awaitable[_T], say: Callable[[str], None]) -> _T:
    """What the driver answers. Raises `DriverSilentError`."""
    task = asyncio.ensure_future(asking)
    try:
        async with asyncio.timeout(silence.GIVE_UP_S) as patience:
            answered, _ = await asyncio.wait([task], timeout=silence.LATE_S)
            if not answered:
                say(WAITS)
            return await task
    except TimeoutError as error:
        if not patience.expired():
            raise
        raise DriverSilentError(silence.gave_up(silence.GIVE_UP_S)) from error
    finally:
        task.cancel()
