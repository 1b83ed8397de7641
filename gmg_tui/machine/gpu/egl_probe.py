"""A program that asks EGL for its devices and prints one line of JSON.

The line is `{"devices": [{"cuda": 3, "pci": "0000:1b:00.0"}, …]}` in EGL's order, with null for unknown values, or
`{"error": "…"}`. EGL numbers devices differently from CUDA, adds software devices, and ignores `CUDA_VISIBLE_DEVICES`, but
its CUDA ordinals are relative to that variable. So this runs as a separate process, with the variable unset; a driver may
crash it. Uses the standard library only.
"""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EGL_CUDA_DEVICE_NV = 0x323A
_EGL_DRM_DEVICE_FILE_EXT = 0x3233
_MAX_DEVICES = 256


def devices() -> list[dict[str, int | str | None]]:
    """Returns all devices in EGL's order, queried as Genesis does (pyrender/platforms/egl.py).

    Raises `OSError` if libEGL or its device extensions are missing.
    """
    library = ctypes.CDLL("libEGL.so.1")
    library.eglGetProcAddress.restype = ctypes.c_void_p
    library.eglGetProcAddress.argtypes = [ctypes.c_char_p]

    def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        address = library.eglGetProcAddress(name.encode())
        if not address:
            raise OSError(f"libEGL has no {name}")
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    integer, pointer = ctypes.c_int32, ctypes.c_void_p
    query_devices = function("eglQueryDevicesEXT", ctypes.c_uint, integer, pointer, ctypes.POINTER(integer))
    size = ctypes.POINTER(ctypes.c_ssize_t)
    query_attribute = function("eglQueryDeviceAttribEXT", ctypes.c_uint, pointer, integer, size)
    query_string = function("eglQueryDeviceStringEXT", ctypes.c_char_p, pointer, integer)
    handles, count = (pointer * _MAX_DEVICES)(), integer()
    if not query_devices(_MAX_DEVICES, handles, ctypes.byref(count)):
        return []
    devices: list[dict[str, int | str | None]] = []
    for handle in filter(None, handles[: count.value]):
        ordinal = ctypes.c_ssize_t(-1)  # stays -1 for devices of other vendors
        query_attribute(handle, _EGL_CUDA_DEVICE_NV, ctypes.byref(ordinal))
        node = query_string(handle, _EGL_DRM_DEVICE_FILE_EXT)
        address = pci_address(node.decode("utf-8", "replace")) if node else None
        devices.append({"cuda": ordinal.value if ordinal.value >= 0 else None, "pci": address})
    return devices


def pci_address(drm_file: str, sys: Path = Path("/sys")) -> str | None:
    """Returns the PCI address of a DRM node such as `/dev/dri/card1`; None if unknown."""
    try:
        return (sys / "class" / "drm" / Path(drm_file).name / "device").resolve(strict=True).name
    except OSError:
        return None


if __name__ == "__main__":
    try:
        print(json.dumps({"devices": devices()}))
    except OSError as error:
        print(json.dumps({"error": str(error)}))
