"""Maps GPUs to EGL devices, so that a worker renders on the GPU that it computes on."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gmg_tui.gpu import helper
from gmg_tui.model import Gpu

_HELPER = Path(__file__).with_name("egl_probe.py")


class EglDevice(Struct, frozen=True):
    """One EGL device."""

    cuda: int | None = None
    """CUDA ordinal in PCI bus order, with all GPUs visible."""
    pci: str | None = None
    """PCI address as sysfs writes it, `0000:1b:00.0`."""


class EglMap(Struct, frozen=True):
    """The EGL devices in EGL's order, or why they are unknown."""

    devices: tuple[EglDevice, ...] = ()
    error: str | None = None
    transient: bool = False
    """Whether the error may be gone later: too many open files, a time-out."""

    def index_of(self, gpu: Gpu, ordinal: int | None = None) -> tuple[int | None, str]:
        """The EGL index of `gpu`, for `EGL_DEVICE_ID`, and how it was found; or None and the reason, in one line.

        `ordinal` is its NVML index when EGL was asked, if that is not the one that it was found with.
        """
        ordinal = gpu.index if ordinal is None else ordinal
        if gpu.mig_index is not None:
            return None, "a MIG instance has no graphics"
        if self.error:
            return None, self.error
        for index, device in enumerate(self.devices):
            # A node with the PCI address of another GPU refutes the ordinal.
            if device.cuda == ordinal and _same_address(device.pci, gpu.pci_bus_id) is not False:
                return index, f"EGL device {index} has CUDA ordinal {ordinal}"
        for index, device in enumerate(self.devices):
            if _same_address(device.pci, gpu.pci_bus_id):
                return index, f"EGL device {index} has PCI address {device.pci}"
        return None, f"none of {len(self.devices)} EGL devices is this GPU"


class EglProbe:
    """The mapping of this machine, to be awaited: probed once, and again where it may be another.

    That is so later after a transient error, and once the GPUs are counted differently (`renew`).

    Args:
        retry_s: How long a transient error stands, seconds.
    """

    def __init__(self, retry_s: float = 60.0) -> None:
        self._retry_s = retry_s
        self._task: asyncio.Task[EglMap] | None = None
        self._probed_at = 0.0

    def __await__(self) -> Generator[Any, None, EglMap]:
        return asyncio.shield(self.begin()).__await__()

    def begin(self) -> asyncio.Task[EglMap]:
        """Start the probe, where it is due. Returns the newest one."""
        task = self._task
        if task is None or (task.done() and task.result().transient and self._old):
            self._task = task = asyncio.create_task(self._probe())
        return task

    def renew(self) -> None:
        """The GPUs of processes that start now are others: whoever asks from now on is told of those."""
        self._task = None  # not cancelled: others may still wait for it

    @property
    def _old(self) -> bool:
        return time.monotonic() - self._probed_at >= self._retry_s

    async def _probe(self) -> EglMap:
        found = await probe()
        self._probed_at = time.monotonic()
        return found

    def cancel(self) -> None:
        """Stop probing."""
        if self._task is not None:
            self._task.cancel()


async def probe(timeout_s: float = 10.0) -> EglMap:
    """Ask EGL in a helper process, which is killed after `timeout_s`."""
    visible = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        line = await helper.ask(_HELPER, "EGL", visible | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, timeout_s)
        return msgspec.json.decode(line, type=EglMap)
    except helper.NoAnswerError as error:
        return EglMap(error=str(error), transient=error.transient)
    except msgspec.DecodeError:
        return EglMap(error="the process that asked EGL gave no answer that can be read")


def _same_address(one: str | None, other: str | None) -> bool | None:
    """Whether two PCI addresses are the same; None when one is not known.

    NVML writes `00000000:1B:00.0`, sysfs `0000:1b:00.0`.
    """
    if one is None or other is None:
        return None
    return one.lower().lstrip("0") == other.lower().lstrip("0")
