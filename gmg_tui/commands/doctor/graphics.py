"""Which EGL device is which GPU: a worker with cameras should render on the GPU it computes on."""

from __future__ import annotations

from gmg_tui.commands.doctor.finding import Finding, ok, warn
from gmg_tui.commands.doctor.gpus import NvmlView
from gmg_tui.gpu.egl import EglMap
from gmg_tui.units import count

_ADVICE = "install the driver's EGL library (libEGL.so.1, libEGL_nvidia.so.0); workers without cameras do not need it"


def mapping(found: EglMap, nvml: NvmlView) -> Finding:
    """Whether each GPU has its EGL device."""
    if found.error is not None:
        return warn("EGL", found.error, _ADVICE)
    whole = [gpu for gpu in nvml.whole if not gpu.mig]
    if not whole:
        return ok("EGL", f"{count(len(found.devices), 'device')}")
    indices = {f"gpu{gpu.index}": found.index_of(gpu)[0] for gpu in whole}
    lost = [name for name, index in indices.items() if index is None]
    if lost:
        text = f"none of {count(len(found.devices), 'EGL device')} is {', '.join(lost)}"
        return warn("EGL", f"{text}: workers there render on the first device that works", _ADVICE)
    return ok("EGL", ", ".join(f"{name} is EGL device {index}" for name, index in indices.items()))
