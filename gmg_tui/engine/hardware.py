"""A session's slots, the driver of their GPUs, and the GPUs' newest samples."""

import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from msgspec import structs

from gmg_tui import simulation
from gmg_tui.machine import slurm as allocation
from gmg_tui.machine.gpu import selection
from gmg_tui.machine.gpu.driver import LATE_S, NO_ANSWER, SILENT_S, Driver, call_driver
from gmg_tui.machine.gpu.free import FreeGpus, Leases, Pause
from gmg_tui.machine.gpu.nvml import NvmlUnavailable, open_nvml
from gmg_tui.model import Gpu, GpuSample, RunSpec, Slot
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun
from gmg_tui.simulation.driver import SimulatedNvml


@dataclass(frozen=True)
class Hardware:
    """A session's slots and GPUs."""

    slots: tuple[Slot, ...]
    """The slots that can run workers."""
    nvml: Driver | None
    """The driver of the slots' GPUs; None for CPU slots."""
    warnings: tuple[str, ...] = ()
    """Warnings about the choice of slots."""
    idle: tuple[str, ...] = ()
    """Names of chosen slots that no group uses."""
    leases: Leases = field(default_factory=Leases)
    """The leases of the session's GPUs."""
    awaited: FreeGpus | None = None
    """Source of the GPUs that were in use at the start of a sweep; None if there were none."""
    wants_free: bool = False
    """True if the user asked for GPUs that nobody else uses."""

    @classmethod
    def find(cls, spec: RunSpec, pause: Pause) -> Self:
        """Finds the hardware for `spec`; `pause` is called while GPUs are in use.

        Raises `GmgError` if there are no such GPUs, they do not become free in time, or no group fits.
        """
        if spec.cpu is not None:
            own_ranks = spec.sweep is None and torchrun.is_torchrun(spec.script, module=spec.module)
            slots, idle = group_slots(selection.cpu_slots(1 if own_ranks else spec.cpu), spec)
            return cls(slots, None, idle=idle)
        nvml, gpus, visible = _driver(spec)
        chosen, leases, awaited = selection.slots(gpus, spec.gpus, visible), Leases(), None
        if selection.wants_free(spec.gpus):
            chosen, awaited = _free_slots(chosen, spec, nvml, leases, pause)
        slots, idle = group_slots(chosen, spec)
        leases.release(*(slot.gpu.uuid for slot in chosen if slot.gpu is not None and slot not in slots))
        warning = selection.warning(gpus, spec.gpus, visible)
        if spec.sweep is not None and spec.sweep.per_gpu > 1:
            numbers = range(1, spec.sweep.per_gpu + 1)
            slots = tuple(structs.replace(slot, name=f"{slot.name}-{number}") for slot in slots for number in numbers)
        if not selection.wants_free(spec.gpus) and spec.simulate is None:
            for slot in slots:
                leases.acquire(slot.gpu.uuid if slot.gpu is not None else "", shared=True)
        warnings = () if warning is None else (warning,)
        return cls(slots, nvml, warnings, idle, leases, awaited, selection.wants_free(spec.gpus))

    def on_node(self, node: str) -> Self:
        """Returns the hardware with the node's name in those of the slots: `n1/gpu0`."""
        return replace(
            self, slots=tuple(structs.replace(slot, name=f"{node}/{slot.name}", node=node) for slot in self.slots)
        )

    def update_leases(self, needed: Set[str | None]) -> Set[str]:
        """Releases the leases of GPUs that are not `needed` (UUIDs), and acquires those of the others.

        Returns the GPUs that another session has taken, if the user asked for GPUs that nobody else uses.
        """
        if self.nvml is None or isinstance(self.nvml, SimulatedNvml):
            return frozenset()
        uuids = {gpu.uuid for gpu in self.gpus}
        self.leases.release(*(uuids - needed))
        taken = {uuid for uuid in uuids & needed if not self.leases.acquire(uuid, shared=not self.wants_free)}
        return taken if self.wants_free else frozenset()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of the slots, each once."""
        return tuple({slot.gpu.uuid: slot.gpu for slot in self.slots if slot.gpu is not None}.values())


def _driver(spec: RunSpec) -> tuple[Driver, tuple[Gpu, ...], str | None]:
    """Returns the driver, its GPUs, and the environment's selection of them (None: all). Raises `GmgError`."""
    if spec.simulate is not None:
        simulated = SimulatedNvml(spec.simulate, Path(spec.folder, simulation.FOLDER))
        return simulated, simulated.gpus(), None
    try:
        nvml, gpus = open_nvml()
    except NvmlUnavailable as error:
        raise selection.no_gpu_error(str(error)) from error
    return nvml, gpus, allocation.visible_gpus(os.environ, len({gpu.index for gpu in gpus}))


def _free_slots(
    slots: tuple[Slot, ...], spec: RunSpec, nvml: Driver, leases: Leases, pause: Pause
) -> tuple[tuple[Slot, ...], FreeGpus | None]:
    """Waits until enough GPUs are free. Returns their slots, and a source of the rest; None if no more are needed.

    A sweep that may wait gets all slots once one GPU is free; the source acquires the other GPUs. Raises `GmgError`.
    """
    count, wait_s = selection.number_of_free(spec.gpus or ""), spec.wait_s or 0.0
    if spec.simulate is not None:
        return slots[:count], None

    def read(slot: Slot) -> GpuSample:
        gpu = slot.gpu
        assert gpu is not None
        try:
            return call_driver(lambda: nvml.read(gpu, slow=True))
        except NvmlUnavailable as error:
            return GpuSample(gpu.uuid, error=str(error))

    free = FreeGpus(slots, count, spec.free_mib, leases, read)
    grows = wait_s > 0 and spec.sweep is not None and spec.tune is None
    taken = free.wait(1 if grows else count or 1, wait_s, pause)
    return (slots, free) if grows and not free.complete else (taken, None)


def group_slots(slots: tuple[Slot, ...], spec: RunSpec) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """Returns the slots that a plain run uses, and the names of the others. Raises `GmgError` if no group fits."""
    size = spec.ddp.size if spec.ddp is not None and spec.sweep is None else None
    if size is None:
        return slots, ()
    used = len(slots) // size * size
    if not used:
        raise GmgError(f"--ddp {size}: a group of {size} needs {size} slots, but there are {len(slots)}")
    return slots[:used], tuple(slot.name for slot in slots[used:])


_LATE_INTERVALS = 2.0
_SILENT_INTERVALS = 3.0
"""Sampling intervals after which a sample counts as late, and a GPU as silent."""


class GpuSamples:
    """The newest sample of each GPU, expected every `interval_s`. All times are monotonic seconds."""

    def __init__(self, uuids: Iterable[str], interval_s: float, now: float) -> None:
        self._late_s = max(LATE_S, _LATE_INTERVALS * interval_s)
        self._silent_s = max(SILENT_S, _SILENT_INTERVALS * interval_s)
        self._read_at = dict.fromkeys(uuids, now)
        self.newest: dict[str, GpuSample] = {}
        """The newest samples by UUID; `expire` replaces old ones with an error."""

    def update(self, samples: Iterable[GpuSample], now: float) -> None:
        """Applies the sampler's newest samples."""
        for sample in samples:
            self._read_at[sample.uuid] = now - (sample.age_s or 0.0)
            self.newest[sample.uuid] = structs.replace(sample, age_s=None)

    def expire(self, now: float) -> bool:
        """Replaces old samples with an error, except those of lost GPUs. Returns True if a sample has changed."""
        before = dict(self.newest)
        for uuid, read_at in self._read_at.items():
            sample = before.get(uuid)
            if now - read_at >= self._silent_s and (sample is None or not sample.lost):
                self.newest[uuid] = GpuSample(uuid=uuid, error=NO_ANSWER)
        return self.newest != before

    def current(self, now: float) -> Iterator[GpuSample]:
        """Yields the samples; late ones with their age, unless NVML reported an error."""
        for uuid, sample in self.newest.items():
            age_s = now - self._read_at[uuid]
            is_late = age_s >= self._late_s and sample.error in (None, NO_ANSWER)
            yield structs.replace(sample, age_s=age_s) if is_late else sample
