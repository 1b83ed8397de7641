"""Maps GPUs to EGL devices, so that a worker renders on its own GPU."""

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gmg_tui.model import Gpu

_PROGRAM = Path(__file__).with_name("egl_probe.py")


class EglDevice(Struct, frozen=True):
    """One EGL device."""

    cuda: int | None = None
    """CUDA ordinal in PCI bus order, with all GPUs visible."""
    pci: str | None = None
    """PCI address in the form of sysfs, `0000:1b:00.0`."""


class EglMap(Struct, frozen=True):
    """The EGL devices in EGL's order, or the reason why they are unknown."""

    devices: tuple[EglDevice, ...] = ()
    error: str | None = None

    def index_of(self, gpu: Gpu) -> tuple[int | None, str]:
        """Returns the EGL index of `gpu`, None if unknown, and the evidence or the reason."""
        if gpu.mig_index is not None:
            return None, "MIG instances have no graphics"
        if self.error:
            return None, self.error
        for index, device in enumerate(self.devices):
            # The ordinal is wrong if the device has another GPU's PCI address.
            if device.cuda == gpu.index and _same_address(device.pci, gpu.pci_bus_id) is not False:
                return index, f"EGL device {index} has CUDA ordinal {gpu.index}"
        for index, device in enumerate(self.devices):
            if _same_address(device.pci, gpu.pci_bus_id):
                return index, f"EGL device {index} has PCI address {device.pci}"
        return None, f"none of {len(self.devices)} EGL devices matches this GPU"


class EglProbe:
    """Probes this machine's EGL devices once; await it for the map."""

    def __init__(self) -> None:
        self._task: asyncio.Task[EglMap] | None = None

    def __await__(self) -> Generator[Any, None, EglMap]:
        return asyncio.shield(self.begin()).__await__()

    def begin(self) -> asyncio.Task[EglMap]:
        """Starts the probe unless it has been started. Returns its task."""
        if self._task is None:
            self._task = asyncio.create_task(probe())
        return self._task

    def cancel(self) -> None:
        """Stops probing."""
        if self._task is not None:
            self._task.cancel()


async def probe(timeout_s: float = 10.0) -> EglMap:
    """Asks EGL in a helper process, which a driver may crash, and which is killed after `timeout_s`. Never raises."""
    environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    # -P keeps this folder out of the import path: its modules may shadow the standard library's.
    command = (sys.executable, "-P", "-S", str(_PROGRAM))
    null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            stdin=null,
            stdout=pipe,
            stderr=null,
            start_new_session=True,
        )
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        return EglMap(error=f"cannot ask EGL: {getattr(error, 'strerror', error)}")
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return EglMap(error=f"EGL did not answer within {timeout_s:g} s")
    finally:
        if process.returncode is None:
            process.kill()
    code = process.returncode or 0
    if code < 0:
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        return EglMap(error=f"EGL crashed its helper process ({name})")
    try:
        # A driver may have printed lines first.
        return msgspec.json.decode(output.strip().rpartition(b"\n")[2], type=EglMap)
    except msgspec.DecodeError:
        return EglMap(error=f"EGL's helper process gave an unreadable answer (exit code {code})")


def _same_address(first: str | None, second: str | None) -> bool | None:
    """True if two PCI addresses are the same; None if either is unknown.

    NVML writes `00000000:1B:00.0`, sysfs `0000:1b:00.0`.
    """
    if first is None or second is None:
        return None
    return first.lower().lstrip("0") == second.lower().lstrip("0")
