"""Asks NVML for the index of each GPU, and prints one line of JSON; a program of its own.

A process counts the GPUs that are there when it initialises NVML or CUDA, and goes on counting them so; once one has
left the bus, a process that starts later gives those behind it other numbers. So a fresh process asks. Uses the
standard library alone.

The line: `{"indices": {"GPU-…": 0, …}}`, without the GPUs that do not identify themselves, or `{"error": 9}`, an
nvmlReturn_t (nvml.h).
"""

from __future__ import annotations

import ctypes
import json

_UUID_BYTES = 96
"""NVML_DEVICE_UUID_V2_BUFFER_SIZE."""


def main() -> None:
    """Print what NVML says."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    count = ctypes.c_uint()
    code = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code:
        print(json.dumps({"error": code}))
        return
    indices = {}
    for index in range(count.value):
        handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(_UUID_BYTES)
        if not nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) and not nvml.nvmlDeviceGetUUID(
            handle, uuid, _UUID_BYTES
        ):
            indices[uuid.value.decode()] = index
    print(json.dumps({"indices": indices}))


if __name__ == "__main__":
    main()
