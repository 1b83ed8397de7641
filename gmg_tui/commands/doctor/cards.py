"""The driver, the cards, and which of them this shell lets a run have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing

from msgspec import Struct

from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.errors import GmgError
from gmg_tui.gpu import select
from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu
from gmg_tui.units import count


class Cards(Struct, frozen=True):
    """What NVML says of this machine."""

    gpus: tuple[Gpu, ...] = ()
    """Cards and MIG instances."""
    silent: tuple[tuple[int, str], ...] = ()
    """Indices of cards that do not answer, each with the reason."""
    driver: str | None = None
    """The driver's version."""
    error: str | None = None
    """Why NVML does not answer, with what to do."""

    @property
    def whole(self) -> tuple[Gpu, ...]:
        """The cards without their instances."""
        return tuple(gpu for gpu in self.gpus if gpu.mig_index is None)


def ask() -> Cards:
    """Ask NVML; without persistence mode the driver may take seconds for each card."""
    try:
        with closing(Nvml.open()) as nvml:
            gpus = nvml.cards()
            return Cards(gpus, nvml.silent, nvml.driver_version())
    except NvmlUnavailable as error:
        return Cards(error=str(error))


def driver(cards: Cards) -> Finding:
    """Whether NVML answers, and which driver it is."""
    if cards.error is not None:
        return fail("driver", cards.error, "without GPUs: gmg-tui --cpu N SCRIPT, or gmg-tui demo")
    return ok("driver", f"NVIDIA {cards.driver or 'of unknown version'}, NVML answers")


def listed(cards: Cards) -> Finding:
    """Which cards there are, and which do not answer."""
    if not cards.whole and not cards.silent:
        return fail("cards", "NVML shows none", "see dmesg; in a container, start it with its GPUs")
    names = Counter(gpu.name for gpu in cards.whole)
    kinds = ", ".join(f"{number} x {name}" for name, number in names.items())
    instances = len(cards.gpus) - len(cards.whole)
    found = f"{kinds} with {count(instances, 'MIG instance')}" if instances else kinds
    if cards.silent:
        reasons = "; ".join(f"GPU {index}: {reason}" for index, reason in cards.silent)
        return (warn if cards.whole else fail)("cards", f"{found or 'none answers'}; {reasons}", None)
    return ok("cards", found)


def persistence(cards: Cards) -> Finding:
    """Whether the driver stays awake on each card when nobody uses it."""
    off = [f"gpu{gpu.index}" for gpu in cards.whole if gpu.persistence is False]
    unknown = [f"gpu{gpu.index}" for gpu in cards.whole if gpu.persistence is None]
    if off:
        return warn(
            "persistence",
            f"off on {', '.join(off)}: the driver wakes up for each process that starts, for seconds",
            "sudo nvidia-smi -pm 1, or the service nvidia-persistenced",
        )
    said = f"; {', '.join(unknown)} do not say" if unknown else ""
    return ok("persistence", f"on for {count(len(cards.whole) - len(unknown), 'card')}{said}")


def visible(cards: Cards, environ: Mapping[str, str]) -> Finding:
    """Which cards `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` of this shell leave to a run."""
    given, order = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER")
    try:
        slots = select.slots(cards.gpus, None, given)
    except GmgError as error:
        return fail("visible cards", str(error), None)
    names = ", ".join(slot.name for slot in slots)
    if given is None:
        return ok("visible cards", f"{names}; CUDA_VISIBLE_DEVICES is not set")
    found = f"{names}, as CUDA_VISIBLE_DEVICES={given}"
    mixed = len({gpu.name for gpu in cards.whole}) > 1
    if mixed and order != "PCI_BUS_ID" and any(entry.strip().isdecimal() for entry in given.split(",")):
        return warn(
            "visible cards",
            f"{found} counts them for gmg-tui, in PCI bus order; other programs count the fastest first",
            "export CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the cards by UUID",
        )
    return ok("visible cards", found)
