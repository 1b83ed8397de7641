"""The board of a queue's slots: the state of each, which job starts next and where, and what idle slots wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.engine.scheduling.benched_gpus import Bench
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuSample, JobRecord, Lane, WorkerState


class Allotment(NamedTuple):
    """The job that starts now or, where it needs more slots than are free, the one that these are kept for."""

    job: int | None = None
    """Its number; None where no job can start, nor are slots kept for one."""
    slots: tuple[str, ...] = ()
    """Its slots in their order; those that are free and kept for it, where some are missing."""
    missing: int = 0
    """How many more it needs."""


def allot(jobs: Iterable[JobRecord], free: Sequence[str], usable: Sequence[str]) -> Allotment:
    """The first waiting job that can start: first come, first served.

    A job that needs several slots at once keeps those that are free until it has enough; smaller jobs behind it would
    otherwise take each slot as it becomes free, and it would wait forever.

    Args:
        jobs: Those that wait, the next first.
        free: The slots on which a job could start now.
        usable: All slots on which jobs may start sooner or later, the free ones among them.
    """
    refused: set[tuple[int, str | None]] = set()
    for job in jobs:
        kind = job.gpus, job.only
        if kind in refused:
            continue
        fit = [slot for slot in free if job.only in (None, slot)]
        if len(fit) >= job.gpus:
            return Allotment(job.number, tuple(fit[: job.gpus]))
        refused.add(kind)
        if job.only is None and 1 < job.gpus <= len(usable):
            return Allotment(job.number, tuple(free), job.gpus - len(free))
        if not free:
            break
    return Allotment()


class SlotBoard:
    """The slots of a queue; `allowed` has the names of those that each batch's jobs may use.

    Attributes:
        slot_states: All slots, by name.
        queue: The jobs.
        jobs: Numbers of the jobs that occupy slots, by slot.
        bench: The GPUs in quarantine.
        unready: Slots where nothing can be started for a while, and why.
        ending: Whether no job starts any more.
    """

    def __init__(
        self, slot_states: Mapping[str, SlotState], allowed: tuple[frozenset[str], ...], queue: JobQueue
    ) -> None:
        self.jobs: dict[str, int] = {}
        self.bench = Bench()
        self.unready: dict[str, str] = {}
        self.ending = False
        self._allotment = Allotment()
        """The last one that was made."""
        self.slot_states, self._allowed, self.queue = slot_states, allowed, queue
        self._enabled: dict[str, bool] = {}
        """Slots that the user has enabled or disabled."""
        self._samples: Mapping[str, GpuSample] = {}
        self._nvml_error: str | None = None

    # State

    def used(self, slot: str) -> bool:
        """Whether jobs of the current batch may start on a slot."""
        return self._enabled.get(slot, slot in self._allowed[self.queue.batch])

    def use(self, slot: str, *, used: bool) -> None:
        """Enable a slot, and its GPU's others, or disable them. Raises `GmgError` for an unknown slot."""
        slot_state = self.slot_states.get(slot)
        if slot_state is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self.slot_states)}", 1)
        uuid = slot_state.gpu_uuid
        if used and uuid is not None:
            self.bench.release(uuid)
        for name, other in self.slot_states.items():
            if name == slot or (uuid is not None and other.gpu_uuid == uuid):
                self._enabled[name] = used

    def take_samples(self, samples: Mapping[str, GpuSample], error: str | None) -> None:
        """Take the latest samples, by UUID, or why there are none."""
        self._samples, self._nvml_error = samples, error

    def sample(self, slot_state: SlotState) -> GpuSample | None:
        """The latest sample of a slot's GPU."""
        return self._samples.get(slot_state.gpu_uuid or "")

    def neighbours(self, slot_state: SlotState) -> list[SlotState]:
        """The other slots of the same GPU that jobs occupy."""
        uuid = slot_state.gpu_uuid
        others = (self.slot_states[name] for name in self.jobs if name != slot_state.slot.name)
        return [other for other in others if uuid is not None and other.gpu_uuid == uuid]

    def benched(self) -> dict[str, str]:
        """The slots whose GPU is benched, and why."""
        return {
            name: why for name, slot_state in self.slot_states.items() if (why := self.bench.why(slot_state.gpu_uuid))
        }

    @property
    def stranded(self) -> bool:
        """Whether jobs wait, none of which can ever start because slots that they may use are benched."""
        used = [name for name in self.slot_states if self.used(name)]
        left = [name for name in used if name not in self.benched()]
        kinds = list(self.queue.kinds)
        return any(_enough(used, *kind) for kind in kinds) and not any(_enough(left, *kind) for kind in kinds)

    # The next job

    def next(self) -> Allotment:
        """The job that can start now, and where, or what is kept for the first one that cannot."""
        usable = [state for state in self.slot_states.values() if self._usable(state)]
        free = [
            state.slot.name for state in usable if state.slot.name not in self.jobs and self._awaited(state) is None
        ]
        names = [state.slot.name for state in usable]
        self._allotment = Allotment() if self.ending else allot(self.queue.next_jobs(), free, names)
        return self._allotment

    def open(self) -> Iterator[SlotState]:
        """The slots on which a job could start now, were there one for them: the last one's memory is released."""
        for name, slot_state in self.slot_states.items():
            if name not in self.jobs and self._usable(slot_state) and self._memory_awaited(slot_state) is None:
                yield slot_state

    def _usable(self, slot_state: SlotState) -> bool:
        """Whether jobs may start on a slot now or once something has happened that is sure to."""
        return self.used(slot_state.slot.name) and self._why_closed(slot_state) is None

    def _why_closed(self, slot_state: SlotState) -> str | None:
        """Why no job at all starts on a slot; None if one may."""
        benched = self.bench.why(slot_state.gpu_uuid)
        if benched is not None:
            return f"benched: {benched}"
        if slot_state.away is not None:
            return f"for its node: {slot_state.away}"
        unready = self.unready.get(slot_state.slot.name)
        return f"for a while: {unready}" if unready is not None else None

    def _memory_awaited(self, slot_state: SlotState) -> str | None:
        """That the memory of the last job is not released yet; None where it is."""
        memory = slot_state.memory
        return memory.awaited(shared=bool(self.neighbours(slot_state))) if memory is not None else None

    def _awaited(self, slot_state: SlotState) -> str | None:
        """What has to happen before a job of the current batch starts on a slot, whatever the job needs; None for nothing."""
        if slot_state.slot.gpu is None:
            return None
        if self._nvml_error is not None:
            return f"for NVML: {self._nvml_error}"
        sample = self.sample(slot_state)
        if sample is not None and sample.lost:
            return f"for its GPU: {sample.error or 'it is lost'}"
        least_mib = self.queue.batches[self.queue.batch].min_free_mib
        awaited = self._memory_awaited(slot_state)
        if awaited is not None or least_mib is None:
            return awaited
        starting = [other.slot.name for other in self.neighbours(slot_state) if _starts(other)]
        if starting:
            return f"for the job on {starting[0]} to take its memory"
        free_mib = sample.memory_free_mib if sample is not None else None
        if free_mib is None:
            return "for the GPU to report how much of its memory is free"
        too_little = f"for {units.mib(least_mib)} of free VRAM ({units.mib(max(0.0, free_mib))} free; the list of its"
        return f"{too_little} processes shows what is taken)" if free_mib < least_mib else None

    # For screens

    def why_idle(self, slot_state: SlotState) -> str:
        """Why no job starts on an idle slot."""
        name = slot_state.slot.name
        if self.ending:
            return "the session is being stopped"
        if not any(only in (None, name) for _, only in self.queue.kinds):
            if not self.queue.waiting:
                return "no job is left"
            waits = any(self.queue.next_jobs())
            return "no job is left for this slot" if waits else "for the jobs of the previous preset"
        awaited, kept = self._why_closed(slot_state) or self._awaited(slot_state), self._allotment
        if awaited is not None:
            return awaited
        if kept.missing and name in kept.slots:
            return f"kept for job {kept.job}, which needs {units.count(kept.missing, 'more slot')}"
        least = min(gpus for gpus, only in self.queue.kinds if only in (None, name))
        return f"the jobs that wait need {units.count(least, 'slot')} at once"

    def why_waits(self, number: int) -> str | None:
        """What the job waits for that slots are kept for, in one line; None for any other."""
        kept = self._allotment
        if not kept.missing or kept.job != number:
            return None
        verb = "is" if len(kept.slots) == 1 else "are"
        reserved = f"; {' and '.join(kept.slots)} {verb} kept for it" if kept.slots else ""
        return f"for {units.count(kept.missing, 'more slot')}{reserved}"

    def update(self) -> None:
        """Determine of each slot whether it is displayed and, if it is idle, what it waits for."""
        for name, slot_state in self.slot_states.items():
            occupied = name in self.jobs
            slot_state.displayed = occupied or self.used(name)
            slot_state.over = not occupied and (self.ending or not self.queue.waiting)
            if not occupied:
                slot_state.waits = self.why_idle(slot_state)

    def views(self) -> tuple[Lane, ...]:
        """All slots."""
        benched = self.benched()
        return tuple(
            Lane(
                name, self.used(name) and name not in benched, self.jobs.get(name), slot_state.waits, benched.get(name)
            )
            for name, slot_state in self.slot_states.items()
        )


def _enough(slots: Sequence[str], gpus: int, only: str | None) -> bool:
    """Whether these are enough for a job that needs `gpus` slots, or the one that it must have."""
    return sum(only in (None, name) for name in slots) >= gpus


def _starts(slot_state: SlotState) -> bool:
    """Whether the job on a slot has begun and does not run yet: it may still take its memory."""
    worker = slot_state.worker
    return worker is not None and not worker.state.ended and worker.state is not WorkerState.RUNNING
