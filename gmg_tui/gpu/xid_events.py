"""Hears of Xids through an event set of NVML."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

_MOST = 64
"""Events taken at once; a GPU may report thousands."""


class XidEvents:
    """The Xids of some GPUs from now on. Used by one thread; free it before `nvmlShutdown`."""

    def __init__(self, handles: Mapping[str, Any]) -> None:
        """Begin to listen to the GPUs, given with their handles by UUID; those that report no Xids are left out."""
        self._uuids: dict[int | None, str] = {}
        self._set: Any = None
        with contextlib.suppress(pynvml.NVMLError):
            self._set = pynvml.nvmlEventSetCreate()
        for uuid, handle in handles.items() if self._set is not None else ():
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
                self._uuids[_address(handle)] = uuid
        if not self._uuids:
            self.free()

    def heard(self) -> Iterator[tuple[str, int]]:
        """The Xids since the last time, each with its GPU's UUID. Does not wait.

        Raises `pynvml.NVMLError` when a GPU is lost or NVML is gone.
        """
        for _ in range(_MOST if self._set is not None else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    return
                raise
            uuid = self._uuids.get(_address(event.device))
            if uuid is not None:
                yield uuid, int(event.eventData)

    def free(self) -> None:
        """Stop listening."""
        if self._set is not None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._set)
        self._set = None


def _address(handle: Any) -> int | None:
    """A handle's value, by which two of the same GPU are equal."""
    import ctypes

    return ctypes.cast(handle, ctypes.c_void_p).value
