"""The driver, the GPUs, and which of them this shell lets a run use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing

from msgspec import Struct

from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.errors import GmgError
from gmg_tui.gpu import selection, silence
from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu, GpuHealth
from gmg_tui.slurm import allocation
from gmg_tui.units import count


class NvmlView(Struct, frozen=True):
    """NVML's view of this machine."""

    gpus: tuple[Gpu, ...] = ()
    """GPUs and MIG instances."""
    silent: tuple[tuple[int, str], ...] = ()
    """Indices of GPUs that do not answer, each with the reason."""
    driver: str | None = None
    """The driver's version."""
    cuda: str | None = None
    """The newest CUDA that the driver runs."""
    health: tuple[tuple[Gpu, GpuHealth], ...] = ()
    """Of the GPUs that report any."""
    error: str | None = None
    """Why NVML does not answer, and what to do."""

    @property
    def whole(self) -> tuple[Gpu, ...]:
        """The GPUs without their MIG instances."""
        return tuple(gpu for gpu in self.gpus if gpu.mig_index is None)


def ask() -> NvmlView:
    """Query NVML; without persistence mode the driver may take seconds per GPU, and one that hangs never answers."""

    def view() -> NvmlView:
        with closing(Nvml.open()) as nvml:
            gpus = nvml.gpus()
            looked = ((gpu, nvml.look(gpu)) for gpu in gpus if gpu.mig_index is None)
            health = tuple((gpu, found) for gpu, found in looked if found is not None)
            return NvmlView(gpus, nvml.silent, nvml.driver_version(), nvml.cuda_version(), health)

    try:
        return silence.answer_of(view)
    except NvmlUnavailable as error:
        return NvmlView(error=str(error))


def driver(nvml: NvmlView) -> Finding:
    """Whether NVML answers, and the driver's version."""
    if nvml.error is not None:
        return fail("driver", nvml.error, "without GPUs: gmg-tui --cpu N SCRIPT, or gmg-tui demo")
    cuda = f" with CUDA {nvml.cuda}" if nvml.cuda is not None else ""
    return ok("driver", f"NVIDIA {nvml.driver or 'of unknown version'}{cuda}, NVML answers")


def listed(nvml: NvmlView) -> Finding:
    """The GPUs, and which of them do not answer."""
    if not nvml.whole and not nvml.silent:
        return fail("GPUs", "NVML reports none", "see dmesg; start a container with access to the GPUs")
    names = Counter(gpu.name for gpu in nvml.whole)
    kinds = ", ".join(f"{number} x {name}" for name, number in names.items())
    instances = len(nvml.gpus) - len(nvml.whole)
    found = f"{kinds} with {count(instances, 'MIG instance')}" if instances else kinds
    if nvml.silent:
        reasons = "; ".join(f"GPU {index}: {reason}" for index, reason in nvml.silent)
        return (warn if nvml.whole else fail)("GPUs", f"{found or 'none answers'}; {reasons}", None)
    return ok("GPUs", found)


def persistence(nvml: NvmlView) -> Finding:
    """Whether the driver stays loaded on each GPU while it is idle."""
    off = [f"gpu{gpu.index}" for gpu in nvml.whole if gpu.persistence is False]
    unknown = [f"gpu{gpu.index}" for gpu in nvml.whole if gpu.persistence is None]
    if off:
        return warn(
            "persistence",
            f"off on {', '.join(off)}: the driver needs seconds to initialise for each process that starts",
            "sudo nvidia-smi -pm 1, or the service nvidia-persistenced",
        )
    said = f"; {', '.join(unknown)} do not report it" if unknown else ""
    return ok("persistence", f"on for {count(len(nvml.whole) - len(unknown), 'GPU')}{said}")


def visible(nvml: NvmlView, environ: Mapping[str, str]) -> Finding:
    """The GPUs that this shell's `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` leave to a run."""
    given, order = allocation.visible(environ, len(nvml.whole)), environ.get("CUDA_DEVICE_ORDER")
    try:
        slots = selection.slots(nvml.gpus, None, given)
    except GmgError as error:
        return fail("visible GPUs", str(error), None)
    names = ", ".join(slot.name for slot in slots)
    if given is None:
        return ok("visible GPUs", f"{names}; CUDA_VISIBLE_DEVICES is not set")
    outer = environ.get("CUDA_VISIBLE_DEVICES")
    found = f"{names}, as CUDA_VISIBLE_DEVICES={outer}"
    if given != outer:
        found = f"{names}, as Slurm says in SLURM_STEP_GPUS; CUDA_VISIBLE_DEVICES={outer} counts from 0 within the job"
    mixed = len({gpu.name for gpu in nvml.whole}) > 1
    if mixed and order != "PCI_BUS_ID" and any(entry.strip().isdecimal() for entry in given.split(",")):
        return warn(
            "visible GPUs",
            f"{found} selects them in PCI bus order for gmg-tui, while other programs count the fastest first",
            "export CUDA_DEVICE_ORDER=PCI_BUS_ID, or list the GPUs by UUID",
        )
    return ok("visible GPUs", found)
