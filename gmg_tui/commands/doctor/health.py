"""Whether a GPU is broken or on its way there, and whether programs share GPUs through MPS."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.commands.doctor.gpus import NvmlView
from gmg_tui.gpu.mps import pipes as mps_pipes
from gmg_tui.model import Severity
from gmg_tui.units import count


def gpus(nvml: NvmlView) -> Finding:
    """The worst of each GPU: errors of its memory, its links. Xids from before are in `dmesg` alone."""
    worst = [(gpu, health.troubles[0]) for gpu, health in nvml.health if health.troubles]
    if not worst:
        reported = [health for _, health in nvml.health if health.ecc_uncorrected is not None]
        if not reported:
            return ok("GPU health", "no GPU reports ECC errors; nothing else is wrong")
        return ok("GPU health", f"no uncorrected ECC error on {count(len(reported), 'GPU')}, links at full speed")
    found = "; ".join(f"gpu{gpu.index}: {trouble.text}" for gpu, trouble in worst)
    fatal = [trouble for _, trouble in worst if trouble.severity is Severity.FATAL]
    return (fail if fatal else warn)("GPU health", found, (fatal or [worst[0][1]])[0].advice)


def mps(environ: Mapping[str, str]) -> Finding | None:
    """That MPS runs; None where it does not."""
    pipes = mps_pipes(environ)
    if pipes is None:
        return None
    return warn(
        "MPS",
        f"{pipes} has the pipes of its daemon: programs share each GPU, and one that crashes may end the others",
        "echo quit | nvidia-cuda-mps-control, unless several workers are to share a GPU",
    )
