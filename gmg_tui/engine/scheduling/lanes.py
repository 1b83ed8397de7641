"""Which slots of a queue are free for the next job, and what the others wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gmg_tui import units
from gmg_tui.engine.scheduling import admission
from gmg_tui.engine.scheduling.allotment import Allotment, Reservation, allot
from gmg_tui.engine.scheduling.benched_gpus import Bench
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuSample, Lane


class Lanes:
    """The slots of a queue; `allowed` has the names of those that each batch's jobs may use.

    Attributes:
        jobs: Numbers of the jobs that occupy slots, by slot.
        bench: The GPUs on which nothing is started any more.
        unready: Slots where nothing can be started for a while, and why.
        ending: Whether no job starts any more.
        reservation: The slots that are kept for a job which needs more than are free.
    """

    def __init__(
        self, slot_states: Mapping[str, SlotState], allowed: tuple[frozenset[str], ...], queue: JobQueue
    ) -> None:
        self.jobs: dict[str, int] = {}
        self.bench = Bench()
        self.unready: dict[str, str] = {}
        self.ending = False
        self.reservation: Reservation | None = None
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
        """Whether jobs wait, none of which can ever start because slots that they may use are benched."""
        used = {name: one for name, one in self._slot_states.items() if self.used(name)}
        left = [name for name, one in used.items() if self.bench.why(one.gpu_uuid) is None]
        if len(left) == len(used):
            return False
        kinds = list(self._queue.kinds)
        return any(_enough(used, *kind) for kind in kinds) and not any(_enough(left, *kind) for kind in kinds)

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

    def next(self, occupied_s: Mapping[int, float]) -> Allotment:
        """The job that can start now, and where; `occupied_s` is how long those that run have had their slots."""
        usable = [name for name in self._usable() if name not in self.unready and not self._slot_states[name].away]
        free = [name for name in usable if name not in self.jobs and self._why_not(self._slot_states[name]) is None]
        left = self._queue.left_s(occupied_s)
        left_s = {name: left[number] for name, number in self.jobs.items() if number in left}
        found = Allotment()
        if not self.ending:
            found = allot(self._queue.next_jobs(), free, usable, left_s, self._queue.longest_s)
        self.reservation = found.reservation
        return found

    def _usable(self) -> list[str]:
        """The slots on which jobs may start sooner or later."""
        states = self._slot_states.items()
        return [name for name, one in states if self.used(name) and self.bench.why(one.gpu_uuid) is None]

    def why_idle(self, slot_state: SlotState) -> str:
        """Why no job starts on an idle slot."""
        name = slot_state.slot.name
        if self.ending:
            return "the session is being stopped"
        if not any(only in (None, name) for _, only in self._queue.kinds):
            return self._why_no_job()
        return self._why_not(slot_state) or self._why_left(name)

    def _why_not(self, slot_state: SlotState) -> str | None:
        """Why no job of the current batch starts on an idle slot, whatever it needs otherwise; None if one may."""
        closed = self._why_closed(slot_state)
        if closed is not None or slot_state.slot.gpu is None:
            return closed
        return admission.why_not(
            self._queue.batches[self._queue.batch],
            self.sample(slot_state),
            self._nvml_error,
            [other.worker for other in self.neighbours(slot_state) if other.worker is not None],
            slot_state.memory,
        )

    def _why_left(self, slot: str) -> str:
        """Why a slot on which a job could start has none."""
        kept = self.reservation
        if kept is not None and slot in kept.held:
            return f"kept for job {kept.job}, which waits for {' and '.join(kept.missing)} too"
        least = min(gpus for gpus, only in self._queue.kinds if only in (None, slot))
        return f"the jobs that wait need {units.count(least, 'slot')} at once"

    def why_waits(self, number: int) -> str | None:
        """What the job waits for that slots are kept for, in one line; None for any other."""
        kept = self.reservation
        if kept is None or kept.job != number:
            return None
        held = f"; {' and '.join(kept.held)} {'is' if len(kept.held) == 1 else 'are'} kept for it" if kept.held else ""
        return f"for {' and '.join(kept.missing)}{held}"

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
        if slot_state.away is not None:
            return f"for its node: {slot_state.away}"
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
            slot_state.over = (self.ending or not self._queue.waiting) and name not in self.jobs
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


def _enough(slots: Iterable[str], gpus: int, only: str | None) -> bool:
    """Whether these are enough for a job that needs `gpus` slots, or the one that it must have."""
    return sum(only in (None, name) for name in slots) >= gpus
