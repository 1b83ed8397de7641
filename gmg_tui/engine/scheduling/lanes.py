"""Which slots of a queue are free for the next job, and what the others wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gmg_tui.engine.scheduling import admission
from gmg_tui.engine.scheduling.benched_gpus import Bench
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuSample, JobRecord, Lane


class Lanes:
    """The slots of a queue; `allowed` has the names of those that each batch's jobs may use.

    Attributes:
        jobs: Numbers of the jobs that occupy slots, by slot.
        bench: The GPUs on which nothing is started any more.
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
        self._slot_states = slot_states
        self._allowed = allowed
        self._queue = queue
        self._said: dict[str, bool] = {}
        """Slots that the user has enabled or disabled."""
        self._samples: Mapping[str, GpuSample] = {}
        self._nvml_error: str | None = None

    def take_samples(self, samples: Mapping[str, GpuSample], error: str | None) -> None:
        """Take the latest samples, by UUID, or why there are none."""
        self._samples, self._nvml_error = samples, error

    def sample(self, slot_state: SlotState) -> GpuSample | None:
        """The latest sample of a slot's GPU."""
        return self._samples.get(slot_state.gpu_uuid or "")

    @property
    def stranded(self) -> bool:
        """Whether jobs wait, and every slot that they may use is benched."""
        used = [one for name, one in self._slot_states.items() if self.used(name) and self._queue.head(name)]
        return bool(used) and all(self.bench.why(one.gpu_uuid) for one in used)

    def used(self, slot: str) -> bool:
        """Whether jobs of the current batch may start on a slot."""
        return self._said.get(slot, slot in self._allowed[self._queue.batch])

    def use(self, slot: str, *, used: bool) -> None:
        """Enable a slot, and its GPU's others, or disable them. Raises `GmgError` for an unknown slot."""
        slot_state = self._slot_states.get(slot)
        if slot_state is None:
            raise GmgError(f"no slot {slot}; there are {', '.join(self._slot_states)}", 1)
        uuid = slot_state.gpu_uuid
        if used and uuid is not None:
            self.bench.release(uuid)
        for name, other in self._slot_states.items():
            if name == slot or (uuid is not None and other.gpu_uuid == uuid):
                self._said[name] = used

    def open(self) -> Iterator[SlotState]:
        """The slots on which a job could start now, were there one for them: the last one's memory is released."""
        for name, slot_state in self._slot_states.items():
            if name not in self.jobs and self.used(name) and self._why_closed(slot_state) is None:
                memory, shared = slot_state.memory, bool(self.neighbours(slot_state))
                if memory is None or memory.awaited(shared=shared) is None:
                    yield slot_state

    def next_for(self, slot_state: SlotState) -> JobRecord | None:
        """The job that can start on a slot now."""
        name = slot_state.slot.name
        free = name not in self.jobs and self.used(name) and self.why_idle(slot_state) is None
        return self._queue.head(name) if free else None

    def why_idle(self, slot_state: SlotState) -> str | None:
        """Why the next job does not start on an idle slot; None if it can."""
        if self.ending:
            return "the session is being stopped"
        head = self._queue.head(slot_state.slot.name)
        if head is None:
            return self._why_no_job()
        closed = self._why_closed(slot_state)
        if closed is not None or slot_state.slot.gpu is None:
            return closed
        return admission.why_not(
            self._queue.batches[head.batch],
            self.sample(slot_state),
            self._nvml_error,
            [other.worker for other in self.neighbours(slot_state) if other.worker is not None],
            slot_state.memory,
        )

    def _why_no_job(self) -> str:
        """Why no job in the queue is for an idle slot."""
        if not self._queue.waiting:
            return "no job is left"
        return "for the jobs of the previous preset" if self._queue.between else "no job is left for this slot"

    def _why_closed(self, slot_state: SlotState) -> str | None:
        """Why no job at all starts on a slot; None if one may."""
        benched = self.bench.why(slot_state.gpu_uuid)
        if benched is not None:
            return f"benched: {benched}"
        unready = self.unready.get(slot_state.slot.name)
        return f"for a while: {unready}" if unready is not None else None

    def neighbours(self, slot_state: SlotState) -> list[SlotState]:
        """The other slots of the same GPU that jobs occupy."""
        uuid = slot_state.gpu_uuid
        others = (self._slot_states[name] for name in self.jobs if name != slot_state.slot.name)
        return [other for other in others if uuid is not None and other.gpu_uuid == uuid]

    def update(self) -> None:
        """Determine of each slot whether it is displayed and, if it is idle, what it waits for."""
        for name, slot_state in self._slot_states.items():
            slot_state.shown = name in self.jobs or self.used(name)
            slot_state.over = self.ending or not self._queue.waiting
            if name not in self.jobs:
                slot_state.waits = self.why_idle(slot_state)

    def benched(self) -> dict[str, str]:
        """The slots whose GPU is benched, and why."""
        return {name: why for name, one in self._slot_states.items() if (why := self.bench.why(one.gpu_uuid))}

    def views(self) -> tuple[Lane, ...]:
        """All slots, for a screen."""
        benched = self.benched()
        return tuple(
            Lane(name, self.used(name) and name not in benched, self.jobs.get(name), one.waits, benched.get(name))
            for name, one in self._slot_states.items()
        )
