"""The Xids of a GPU as NVML reports them; `xids` has what each means."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pynvml

from gmg_tui.machine.gpu.driver import UNSUPPORTED

_MAX_EVENTS = 64
"""Events taken at once; a GPU may report thousands."""


class XidEvents:
    """The Xids of one GPU from now on: an event set of NVML fails as a whole when one of its GPUs is lost.

    Used by one thread; free it before `nvmlShutdown`.
    """

    def __init__(self, handle: Any) -> None:
        """Raises `pynvml.NVMLError` if the GPU does not answer."""
        self._set = pynvml.nvmlEventSetCreate()
        self._is_supported = True
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError as error:
            if error.value not in UNSUPPORTED:
                self.free()
                raise
            self._is_supported = False

    def new(self) -> Iterator[int]:
        """Yields the Xids since the last time. Does not wait. Raises `pynvml.NVMLError` if GPU or NVML are gone."""
        for _ in range(_MAX_EVENTS if self._is_supported else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    return
                raise
            yield int(event.eventData)

    def free(self) -> None:
        """Stops listening."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)
