"""The slots of a session, and the NVML handle that found them."""

from __future__ import annotations

import os
from typing import Self

from msgspec import structs

from gmg_tui.gpu import select
from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu, RunSpec, Slot, SweepSpec


class Hardware:
    """Where a session runs.

    Args:
        slots: All slots that there may be work on.
        nvml: What knows their cards; None for CPU slots.
        allowed: In a sweep, for each group the names of the slots that its jobs may use.
    """

    def __init__(self, slots: tuple[Slot, ...], nvml: Nvml | None, allowed: tuple[frozenset[str], ...] = ()) -> None:
        self.slots = slots
        self.nvml = nvml
        self.allowed = allowed

    @classmethod
    def find(cls, spec: RunSpec) -> Self:
        """The slots that `spec` asks for.

        A sweep has those of all cards that `CUDA_VISIBLE_DEVICES` allows, so that a card can be added while it runs.

        Raises:
            GmgError: There is no card, or not the cards asked for.
        """
        groups = spec.sweep.groups if spec.sweep is not None else ()
        if spec.cpu is not None:
            slots = select.cpu_slots(spec.cpu)
            names = frozenset(slot.name for slot in slots)
            return cls(slots, None, tuple(names for _ in groups))
        try:
            nvml = Nvml.open()
            cards = nvml.cards()
        except NvmlUnavailable as error:
            raise select.no_gpu(str(error)) from error
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if spec.sweep is None:
            return cls(select.slots(cards, spec.gpus, visible), nvml)
        whole = select.slots(cards, None, visible)
        allowed = tuple(frozenset(slot.name for slot in select.slots(cards, group.gpus, visible)) for group in groups)
        return cls(*_shared_out(spec.sweep, whole, nvml, allowed))

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards of the slots, each once."""
        return tuple({slot.gpu.uuid: slot.gpu for slot in self.slots if slot.gpu is not None}.values())


def _shared_out(
    sweep: SweepSpec, whole: tuple[Slot, ...], nvml: Nvml, allowed: tuple[frozenset[str], ...]
) -> tuple[tuple[Slot, ...], Nvml, tuple[frozenset[str], ...]]:
    """A card has as many slots as jobs may run on it at once: `gpu0`, or `gpu0-1`, `gpu0-2` … where that is not one."""
    most = max(group.per_gpu for group in sweep.groups)
    if most == 1:
        return whole, nvml, allowed
    slots = tuple(
        structs.replace(slot, name=f"{slot.name}-{number}") for slot in whole for number in range(1, most + 1)
    )
    shared = tuple(
        frozenset(f"{name}-{number}" for name in names for number in range(1, group.per_gpu + 1))
        for group, names in zip(sweep.groups, allowed, strict=True)
    )
    return slots, nvml, shared
