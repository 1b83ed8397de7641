"""Asks EGL which of its devices is which GPU, and prints one line of JSON; a program of its own.

EGL numbers its devices unlike CUDA, adds software devices, and ignores `CUDA_VISIBLE_DEVICES`, while the CUDA ordinal that
it gives for a device is relative to that variable of the asking process. So one fresh process asks, with
the variable unset. A driver that crashes takes this process with it and nothing else. Uses the standard library alone.

The line: `{"devices": [{"cuda": 3, "pci": "0000:1b:00.0"}, …]}` in EGL's order, null for what a device does not say, or
`{"error": "…"}`.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EGL_CUDA_DEVICE_NV = 0x323A
_EGL_DRM_DEVICE_FILE_EXT = 0x3233
_MAX_DEVICES = 256


class _Egl:
    """The device functions of libEGL."""

    def __init__(self) -> None:
        """Load the library. Raises `OSError` if there is no libEGL, or it lacks the device extensions."""
        library = ctypes.CDLL("libEGL.so.1")
        self._address = library.eglGetProcAddress
        self._address.restype = ctypes.c_void_p
        self._address.argtypes = [ctypes.c_char_p]
        integer, pointer = ctypes.c_int32, ctypes.c_void_p
        count, attribute = ctypes.POINTER(integer), ctypes.POINTER(ctypes.c_ssize_t)
        self._query_devices = self._function("eglQueryDevicesEXT", ctypes.c_uint, integer, pointer, count)
        self._query_attribute = self._function("eglQueryDeviceAttribEXT", ctypes.c_uint, pointer, integer, attribute)
        self._query_string = self._function("eglQueryDeviceStringEXT", ctypes.c_char_p, pointer, integer)

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        address = self._address(name.encode())
        if not address:
            raise OSError(f"libEGL has no {name}")
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    def devices(self) -> list[int]:
        """The handles of all devices, in EGL's order, as Genesis asks for them (pyrender/platforms/egl.py)."""
        found = (ctypes.c_void_p * _MAX_DEVICES)()
        count = ctypes.c_int32()
        if not self._query_devices(_MAX_DEVICES, found, ctypes.byref(count)):
            return []
        return [handle for handle in found[: count.value] if handle]

    def cuda_ordinal(self, device: int) -> int | None:
        """The CUDA ordinal of `device`; None when it is no NVIDIA GPU."""
        value = ctypes.c_ssize_t(-1)
        known = self._query_attribute(device, _EGL_CUDA_DEVICE_NV, ctypes.byref(value))
        return value.value if known and value.value >= 0 else None

    def drm_file(self, device: int) -> str | None:
        """The device's node such as `/dev/dri/card1`; None when it has none."""
        name = self._query_string(device, _EGL_DRM_DEVICE_FILE_EXT)
        return name.decode("utf-8", "replace") if name else None


def pci_address(drm_file: str | None, sys: Path = Path("/sys")) -> str | None:
    """The PCI address of a DRM node, such as `0000:1b:00.0`; None when sysfs does not say."""
    if drm_file is None:
        return None
    try:
        return (sys / "class" / "drm" / Path(drm_file).name / "device").resolve(strict=True).name
    except OSError:
        return None


def main() -> None:
    """Print what EGL says."""
    try:
        egl = _Egl()
        found = [
            {"cuda": egl.cuda_ordinal(device), "pci": pci_address(egl.drm_file(device))} for device in egl.devices()
        ]
        print(json.dumps({"devices": found}))
    except OSError as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
