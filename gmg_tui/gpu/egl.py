"""Which EGL device is which card, so that a worker draws on the card that it computes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui.model import Gpu

_HELPER = Path(__file__).with_name("egl_probe.py")
_REAP_S = 2.0
"""How long a killed helper is waited for; one that sits in the driver may take its time to die."""


class EglDevice(Struct, frozen=True):
    """What one EGL device says of itself."""

    cuda: int | None = None
    """CUDA ordinal in PCI bus order, with all cards visible."""
    pci: str | None = None
    """PCI address as sysfs writes it, `0000:1b:00.0`."""


class EglMap(Struct, frozen=True):
    """The EGL devices in EGL's order, or why they are not known."""

    devices: tuple[EglDevice, ...] = ()
    error: str | None = None

    def index_of(self, gpu: Gpu) -> tuple[int | None, str]:
        """The EGL index of `gpu`.

        Returns:
            The value for `EGL_DEVICE_ID` and how it was found; or None and the reason, in one line.
        """
        if gpu.mig_index is not None:
            return None, "a MIG instance has no graphics"
        if self.error:
            return None, self.error
        for index, device in enumerate(self.devices):
            # A node with the PCI address of another card refutes the ordinal.
            if device.cuda == gpu.index and _same_address(device.pci, gpu.pci_bus_id) is not False:
                return index, f"EGL device {index} has CUDA ordinal {gpu.index}"
        for index, device in enumerate(self.devices):
            if _same_address(device.pci, gpu.pci_bus_id):
                return index, f"EGL device {index} has PCI address {device.pci}"
        return None, f"none of {len(self.devices)} EGL devices is this card"


async def probe(timeout_s: float = 10.0) -> EglMap:
    """Ask EGL in a helper process, which may crash or hang without harm.

    Args:
        timeout_s: How long the helper may take, seconds; it is killed then.
    """
    # Run by its path: -P keeps this folder, whose `select.py` is not the standard library's, out of the import path.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(_HELPER),
        env=_environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return EglMap(error=f"EGL did not answer within {timeout_s:g} s")
    finally:
        await _end(process)
    return _read(output, process.returncode or 0)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return kept | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            await process.wait()


def _read(output: bytes, code: int) -> EglMap:
    if code < 0:
        return EglMap(error=f"EGL crashed the process that asked it ({_signal_name(-code)})")
    try:
        # A driver may have printed before.
        return msgspec.json.decode(output.strip().rpartition(b"\n")[2], type=EglMap)
    except msgspec.DecodeError:
        return EglMap(error=f"the process that asked EGL gave no answer (exit code {code})")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _same_address(one: str | None, other: str | None) -> bool | None:
    """Whether two PCI addresses are the same; None when one is not known."""
    if one is None or other is None:
        return None
    return _numbers(one) == _numbers(other)


def _numbers(address: str) -> tuple[int, str] | str:
    """An address without the ways to write it: NVML has `00000000:1B:00.0`, sysfs `0000:1b:00.0`."""
    domain, colon, rest = address.lower().partition(":")
    try:
        return (int(domain, 16), rest) if colon else address
    except ValueError:
        return address
