"""The slots of a session, and the NVML handle that listed them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from msgspec import structs

from gmg_tui import simulation
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.gpu import selection, silence
from gmg_tui.gpu.driver import Driver
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu, RunSpec, Slot, SweepSpec
from gmg_tui.simulation.driver import SimulatedNvml
from gmg_tui.slurm import allocation


@dataclass(frozen=True)
class Hardware:
    """Where a session runs."""

    slots: tuple[Slot, ...]
    """All slots that may get work."""
    nvml: Driver | None
    """Knows their GPUs; None for CPU slots."""
    allowed: tuple[frozenset[str], ...] = ()
    """In a sweep, for each batch the names of the slots that its jobs may use."""
    warnings: tuple[str, ...] = ()
    """What the user should know of the choice, a line each."""
    idle: tuple[str, ...] = ()
    """The names of chosen slots that no group takes."""

    @classmethod
    def find(cls, spec: RunSpec) -> Self:
        """The slots that `spec` asks for.

        A sweep gets those of all GPUs that `CUDA_VISIBLE_DEVICES` allows, so that a GPU can be added while it runs.

        Raises:
            GmgError: There is no GPU, or not the requested ones.
        """
        batches = spec.sweep.batches if spec.sweep is not None else ()
        if spec.cpu is not None:
            own_ranks = spec.sweep is None and torchrun.starts(spec.script, module=spec.module)
            slots, idle = grouped(selection.cpu_slots(1 if own_ranks else spec.cpu), spec)
            names = frozenset(slot.name for slot in slots)
            return cls(slots, None, tuple(names for _ in batches), idle=idle)
        nvml, gpus, visible = _driver(spec)
        if spec.sweep is None:
            chosen, idle = grouped(selection.slots(gpus, spec.gpus, visible), spec)
            return cls(chosen, nvml, idle=idle)
        whole = selection.slots(gpus, None, visible)
        allowed = tuple(
            frozenset(slot.name for slot in selection.slots(gpus, batch.gpus, visible)) for batch in batches
        )
        return cls(*_with_shares(spec.sweep, whole, nvml, allowed))

    def on_node(self, node: str) -> Self:
        """The same, with the slots' names as a session of several machines has them: `n1/gpu0`."""
        return replace(
            self,
            slots=tuple(structs.replace(slot, name=f"{node}/{slot.name}", node=node) for slot in self.slots),
            allowed=tuple(frozenset(f"{node}/{name}" for name in names) for names in self.allowed),
        )

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of the slots, each once."""
        return tuple({slot.gpu.uuid: slot.gpu for slot in self.slots if slot.gpu is not None}.values())


def _driver(spec: RunSpec) -> tuple[Driver, tuple[Gpu, ...], str | None]:
    """Who answers for the GPUs, which there are, and which of them the environment allows (None: all).

    Raises `GmgError`.
    """
    if spec.simulate is not None:
        simulated = SimulatedNvml(spec.simulate, Path(spec.folder, simulation.FOLDER))
        return simulated, simulated.gpus(), None
    try:
        nvml, gpus = silence.open_nvml()
    except NvmlUnavailable as error:
        raise selection.no_gpu(str(error)) from error
    return nvml, gpus, allocation.visible(os.environ, sum(gpu.mig_index is None for gpu in gpus))


def grouped(slots: tuple[Slot, ...], spec: RunSpec) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """The slots that groups take in a plain run, and the names of the others. Raises `GmgError` if they take none."""
    size = spec.ddp.size if spec.ddp is not None and spec.sweep is None else None
    if size is None:
        return slots, ()
    taken = len(slots) // size * size
    if not taken:
        raise GmgError(f"--ddp {size}: a group of {size} needs as many slots, and there are {len(slots)}")
    return slots[:taken], tuple(slot.name for slot in slots[taken:])


def _with_shares(
    sweep: SweepSpec, whole: tuple[Slot, ...], nvml: Driver, allowed: tuple[frozenset[str], ...]
) -> tuple[tuple[Slot, ...], Driver, tuple[frozenset[str], ...]]:
    """A GPU has as many slots as jobs may run on it at once: `gpu0`, or `gpu0-1`, `gpu0-2` … for more than one."""
    most = max(batch.per_gpu for batch in sweep.batches)
    if most == 1:
        return whole, nvml, allowed
    slots = tuple(
        structs.replace(slot, name=name) for slot in whole for name in selection.shares(slot.name, most, most)
    )
    shared = tuple(
        frozenset(share for name in names for share in selection.shares(name, batch.per_gpu, most))
        for batch, names in zip(sweep.batches, allowed, strict=True)
    )
    return slots, nvml, shared
