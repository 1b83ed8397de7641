"""A queue's slots: their states, the next job and its slots, and the reasons slots are idle."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import Outcome
from gmg_tui.engine.scheduling.allotment import Allotment, allot, suffices
from gmg_tui.engine.scheduling.card import Card
from gmg_tui.engine.scheduling.packing import free_mib, peak_mib, shortage
from gmg_tui.engine.workers.restart_policy import HEALTHY_S
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.model import JobRecord, WorkerState, units
from gmg_tui.model.errors import GmgError

MAX_EARLY_FAILURES = 3
"""Suspect a GPU after this many early failures in a row."""
_RETRY_S = 1800.0
"""Seconds for which a GPU is benched that may be all right: for failures of jobs, or because none could start."""
_UNREADY_PAUSE_S, _MAX_UNREADY_PAUSE_S = 5.0, 300.0
"""Pause for the slots of a GPU on which no job can start, as on a lost node; doubled while no job ends there.

After the longest pause, in all 10 minutes, it is benched.
"""
_MAX_FAILURE_PAUSE_S = 30.0
"""Maximum pause of a slot after early failures, which may be the jobs' own fault."""
_MAX_LOSSES = 3
LOST_GPU_GRACE_S = 60.0
"""Bench a GPU that is lost for this long."""


class SlotBoard:
    """The slots of a queue.

    Attributes:
        jobs: Numbers of the jobs that occupy slots, by slot.
        ending: True once no more jobs may start.
        taken: UUIDs of GPUs that another session took while no job was left for them.
    """

    def __init__(self, slots: Mapping[str, EngineSlot], queue: JobQueue) -> None:
        self.slots, self.queue = slots, queue
        self.jobs: dict[str, int] = {}
        self.ending = False
        self.taken: Set[str] = frozenset()
        self._cards = {engine_slot.gpu_uuid or name: Card() for name, engine_slot in slots.items()}
        self._requeued: dict[int, Card] = {}
        """Requeued jobs, each with the GPU it failed on: a job that fails on two GPUs stays failed."""
        self._held: dict[int, tuple[float, float, str]] = {}
        """Jobs that lost their slots: the seconds to hold each back, until when in monotonic seconds, and the reason."""
        self._losses = Counter[int]()
        """Number of failures on lost or crowded GPUs, and of losses with nodes soon after the start, by job."""
        self._witnesses: dict[int, Card] = {}
        """Requeued jobs that have not ended, each with the suspected GPU."""
        self._allotment = Allotment()
        self._nvml_error: str | None = None
        self._reported: dict[str, str] = {}
        """The benched slots at the last call of `newly_benched`, with the reasons."""

    # State

    def _card(self, engine_slot: EngineSlot) -> Card:
        return self._cards[engine_slot.gpu_uuid or engine_slot.slot.name]

    def used(self, slot: str) -> bool:
        """Returns True if the slot is enabled."""
        return not self._card(self.slots[slot]).disabled

    def use(self, slot: str, *, used: bool) -> None:
        """Enables or disables a slot, with all others on its GPU. Raises `GmgError` for an unknown slot."""
        if slot not in self.slots:
            raise GmgError(f"no slot {slot}; there are {', '.join(self.slots)}", 1)
        card = self._card(self.slots[slot])
        card.disabled = not used
        if used:
            card.benched, card.retry_at, card.lost_since = None, math.inf, None
            card.pause_s = card.paused_until = 0.0
            card.failed.clear()
            self._clear_suspicion(card)
            self._requeued = {job: other for job, other in self._requeued.items() if other is not card}

    def pause(self, slot: str, reason: str, *, was_healthy: bool = False, whole_node: bool = False) -> None:
        """Pauses a GPU on which no job can start or get further, longer each time; benches it once that does not help.

        `whole_node` also applies it to the GPUs of the machine's other idle slots.
        """
        paused, now = [self.slots[slot]], time.monotonic()
        if whole_node:
            node = self.slots[slot].slot.node
            paused += [other for name, other in self.slots.items() if other.slot.node == node and name not in self.jobs]
        for card in map(self._card, paused):
            if now < card.paused_until or card.benched is not None:
                continue
            if card.pause_s >= _MAX_UNREADY_PAUSE_S and not was_healthy:
                card.benched = f"no job can start there: {reason}; tried again after {units.span(_RETRY_S)}"
                card.retry_at = now + _RETRY_S
            longer_s = 0.0 if was_healthy else 2 * card.pause_s
            card.pause_s = min(max(_UNREADY_PAUSE_S, longer_s), _MAX_UNREADY_PAUSE_S)
            card.unready, card.paused_until = reason, now + card.pause_s

    def may_repeat(self, worker: Worker) -> bool:
        """Returns True if a job that could not start or was lost may run again.

        If it was soon lost with its node, or lacked memory beside others, a few times only: it may be the cause.
        """
        job, outcome = worker.task.job or 0, worker.outcome or Outcome()
        if outcome.unready is not None and not 0.0 < outcome.running_s < HEALTHY_S:
            return True
        self._losses[job] += 1
        if self._losses[job] <= _MAX_LOSSES:
            return True
        self._losses.clear()  # others may have been lost because of it
        return False

    def hold(self, job: int, reason: str, *, was_healthy: bool = False) -> float:
        """Holds a job back that did not start or lost its slots, longer each time. Returns the seconds; the first time 0.

        From the second time on, it comes after all others, which show whether its slot is the cause.
        """
        last_s = self._held[job][0] if job in self._held else None
        longer_s = min(max(4 * _UNREADY_PAUSE_S, 2 * (last_s or 0.0)), _MAX_UNREADY_PAUSE_S)
        hold_s = 0.0 if last_s is None or was_healthy else longer_s
        self.hold_back(job, hold_s, reason)
        return hold_s

    def hold_back(self, job: int, hold_s: float, reason: str) -> None:
        """Holds a job back for `hold_s` seconds."""
        self._held[job] = hold_s, time.monotonic() + hold_s, reason

    def _held_s(self, job: int) -> float:
        """Returns the seconds for which a job is still held back; not positive if it is not."""
        return self._held[job][1] - time.monotonic() if job in self._held else 0.0

    def set_awaited(self, reasons: Mapping[str, str]) -> bool:
        """Closes the slots of GPUs used by others (`reasons` by UUID), opens the rest. Returns True if any changed."""
        before = [card.awaited for card in self._cards.values()]
        for uuid, card in self._cards.items():
            card.awaited = reasons.get(uuid)
        return before != [card.awaited for card in self._cards.values()]

    def bench_awaited(self, waited_s: float) -> None:
        """Benches the GPUs that others are still using."""
        for card in self._cards.values():
            if card.awaited is not None:
                card.benched, card.awaited = f"not free after {units.span(waited_s)}: {card.awaited}", None

    def needed(self) -> set[str | None]:
        """Returns the UUIDs of GPUs that are running jobs or may run some; None stands for CPU slots."""
        slots = self.slots.items()
        return {
            slot.gpu_uuid for name, slot in slots if name in self.jobs or not (slot.drained or self._card(slot).blocked)
        }

    @property
    def lanes(self) -> int:
        """Number of slots that are not closed to jobs."""
        return sum(not self._card(engine_slot).blocked for engine_slot in self.slots.values())

    def benched(self) -> dict[str, str]:
        """Returns the slots of benched GPUs, with the reason."""
        reasons = {name: self._card(engine_slot).benched for name, engine_slot in self.slots.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @property
    def stranded(self) -> bool:
        """True if all waiting jobs need benched slots."""
        used, benched = [name for name in self.slots if self.used(name)], self.benched()
        open_slots = [name for name in used if name not in benched]
        needs = list(self.queue.requirements)
        return any(suffices(used, *need) for need in needs) and not any(suffices(open_slots, *need) for need in needs)

    # Benching

    def newly_benched(self) -> dict[str, str]:
        """Returns the slots benched since the last call, with the reasons."""
        before, self._reported = self._reported, self.benched()
        return {name: reason for name, reason in self._reported.items() if name not in before}

    def check_gpus(self, nvml_error: str | None, now: float) -> None:
        """Benches GPUs whose newest samples show a fatal error or too long a loss; `now` is monotonic."""
        self._nvml_error = nvml_error
        for engine_slot in self.slots.values():
            card, sample = self._card(engine_slot), engine_slot.sample
            if sample is None:
                continue
            fatal = sample.health.fatal if sample.health is not None else None
            if fatal is not None and card.fatal != fatal.text:
                card.fatal, card.retry_at = fatal.text, math.inf
                card.benched = card.benched or f"{fatal.text}; {fatal.advice}"
            card.lost_since = None if not sample.lost else now if card.lost_since is None else card.lost_since
            if card.benched is None and card.lost_since is not None and now - card.lost_since >= LOST_GPU_GRACE_S:
                card.benched = f"lost: {sample.error or 'the driver cannot reach it'}"

    def judge(self, engine_slot: EngineSlot, worker: Worker) -> tuple[int, ...]:
        """Judges a slot's GPU by how a job ended. Returns the jobs to requeue, the worker's own last, if any."""
        self._held.pop(worker.task.job or 0, None)
        failure, attempt, job, sample = worker.failure, worker.attempt, worker.task.job, engine_slot.sample
        self._count_early_failure(engine_slot, worker)
        if engine_slot.gpu_uuid is None or worker.state is WorkerState.STOPPED or attempt is None or job is None:
            return ()
        if failure is not None and sample is not None and sample.lost:
            self._losses[job] += 1
            return (job,) if self._losses[job] <= _MAX_LOSSES else ()
        computed = _has_computed(worker)
        self._resolve_suspicion(job, computed=computed)
        if computed:
            self._card(engine_slot).failed.clear()
            return ()
        if failure is None or not failure.suspect or job in self._requeued:
            return ()
        return self._suspect(engine_slot, job, failure.reason)

    def _count_early_failure(self, engine_slot: EngineSlot, worker: Worker) -> None:
        """Pauses a slot after a few early failures in a row while others get further: it would soon fail all jobs."""
        card, is_early = self._card(engine_slot), worker.failure is not None and not _has_computed(worker)
        card.early_failures = card.early_failures + 1 if is_early else 0
        card.pause_s = min(card.pause_s, _MAX_FAILURE_PAUSE_S / 2) if is_early else 0.0  # doubled below
        if card.early_failures < MAX_EARLY_FAILURES or worker.attempt is None:
            return
        far_s = 1.0 + 2 * worker.attempt.elapsed_s(clock.now())
        others = (slot.worker for slot in self.slots.values() if self._card(slot) is not card)
        if any(other is not None and _has_computed(other, far_s) for other in others):
            self.pause(engine_slot.slot.name, f"{card.early_failures} jobs in a row failed early there")

    def review(self, workers: Iterable[Worker]) -> None:
        """Benches a suspected GPU once one of its failed jobs computes on another; enables others again in time."""
        for card in self._cards.values():
            if time.monotonic() >= card.retry_at:
                card.benched, card.retry_at = None, math.inf
        for worker in workers:
            job = worker.task.job or 0
            if job in self._witnesses and _has_computed(worker):
                self._resolve_suspicion(job, computed=True)

    def _suspect(self, engine_slot: EngineSlot, job: int, reason: str) -> tuple[int, ...]:
        """Counts an early failure, perhaps the GPU's fault. Returns the same as `judge`.

        A job's output cannot prove that a GPU is broken: after a few failures in a row, the jobs rerun on another GPU, if any.
        """
        card = self._card(engine_slot)
        card.failed = [*(other for other in card.failed if other != job), job]
        width = self.queue.records[job].width
        if len(card.failed) < MAX_EARLY_FAILURES or self._alternatives(card) < width:
            return ()
        failed, card.failed = tuple(card.failed), []
        card.suspected = f"{units.count(len(failed), 'job')} in a row failed there: {reason}"
        self._requeued |= dict.fromkeys(failed, card)
        self._witnesses |= dict.fromkeys(failed, card)
        return failed

    def _alternatives(self, card: Card) -> int:
        """Returns the number of usable slots of other GPUs."""
        return sum(self._card(engine_slot) is not card for engine_slot in self._usable().values())

    def _resolve_suspicion(self, job: int, *, computed: bool) -> None:
        """Ends the suspicion of a GPU: benches it if a job that failed on it has `computed` on another GPU."""
        card = self._witnesses.get(job)
        if card is not None:
            if computed and card.benched is None:
                card.benched = f"{card.suspected}; tried again after {units.span(_RETRY_S)}"
                card.retry_at = time.monotonic() + _RETRY_S
            self._clear_suspicion(card)

    def _clear_suspicion(self, card: Card) -> None:
        card.suspected = None
        self._witnesses = {job: other for job, other in self._witnesses.items() if other is not card}

    # The next job

    def next(self) -> Allotment:
        """Returns the next job and its slots, or the slots reserved for the first job that cannot start yet."""
        usable = self._usable()
        # Last those that could not start their last job: it may be the same one.
        ready = sorted(self.ready_slots(), key=lambda engine_slot: self._card(engine_slot).pause_s > 0)
        free = [engine_slot.slot.name for engine_slot in ready]
        for card in [card for card in self._cards.values() if card.suspected is not None]:
            records = [self.queue.records[job] for job, other in self._witnesses.items() if other is card]
            if not any(job.width <= self._alternatives(card) and not job.state.ended for job in records):
                self._clear_suspicion(card)  # its jobs were skipped, or no other GPU is left: no proof is possible
        late = {job for job, (hold_s, *_) in self._held.items() if hold_s > 0}
        jobs = () if self.ending else self.queue.next_jobs(late)
        self._allotment = allot(jobs, free, list(usable), self._may_run)
        return self._allotment

    def _may_run(self, job: JobRecord, slot: str) -> bool:
        """Returns False if the job is held back, if memory is short, or if the GPU is suspected.

        A job that failed on another suspect shows whether this one works.
        """
        if self._held_s(job.number) > 0:
            return False
        card, witnessed = self._card(self.slots[slot]), self._witnesses.get(job.number)
        is_suspected = card is witnessed or (card.suspected is not None and witnessed is None)
        return not is_suspected and self._shortage(job, slot) is None

    def _shortage(self, job: JobRecord, slot: str) -> str | None:
        """Describes the shortage of memory for a job on a slot; None if it may fit."""
        if peak_mib(job, slot) is None:
            return None
        uuid, slots = self.slots[slot].gpu_uuid, self.slots
        running = [
            (slots[name], peak_mib(self.queue.records[number], name))
            for name, number in self.jobs.items()
            if name != slot and slots[name].gpu_uuid == uuid
        ]
        return shortage(job, free_mib(slots[slot], running))

    def ready_slots(self) -> Iterator[EngineSlot]:
        """Yields the slots ready for a job."""
        for name, engine_slot in self._usable().items():
            if name not in self.jobs and self._wait_reason(engine_slot) is None:
                yield engine_slot

    def _usable(self) -> dict[str, EngineSlot]:
        """Returns the slots that can run jobs, now or later."""
        return {name: slot for name, slot in self.slots.items() if self.used(name) and not self._closed_reason(slot)}

    def _closed_reason(self, engine_slot: EngineSlot) -> str | None:
        """Returns the reason that a slot is closed to all jobs; None if it is open."""
        card = self._card(engine_slot)
        if card.benched is not None:
            return f"benched: {card.benched}"
        if card.awaited is not None:
            return card.awaited
        if engine_slot.gpu_uuid in self.taken:
            return "for its GPU: another session has taken it while no job was left for it"
        if engine_slot.away is not None:
            return f"for its node: {engine_slot.away}"
        return f"for a while: {card.unready}" if time.monotonic() < card.paused_until else None

    def _wait_reason(self, engine_slot: EngineSlot) -> str | None:
        """Returns the slot's own wait reason; None if a job can start."""
        if engine_slot.slot.gpu is None:
            return None
        if self._nvml_error is not None:
            return f"for NVML: {self._nvml_error}"
        sample = engine_slot.sample
        if sample is not None and sample.lost:
            return f"for its GPU: {sample.error or 'it is lost'}"
        if (memory := engine_slot.memory) is None:
            return None
        others = (self.slots[name].gpu_uuid for name in self.jobs if name != engine_slot.slot.name)
        memory.shared = engine_slot.gpu_uuid in others
        return memory.wait_reason()

    # For clients

    def _idle_reason(self, engine_slot: EngineSlot) -> str:
        """Returns the reason that no job starts on an idle slot."""
        name, reserved = engine_slot.slot.name, self._allotment
        if self.ending:
            return "the session is being stopped"
        if not self.used(name):
            return "not used"
        widths = [width for width, only in self.queue.requirements if only in (None, name)]
        if not widths:
            return "no job is left for this slot" if self.queue.waiting else "no job is left"
        awaited = self._closed_reason(engine_slot) or self._wait_reason(engine_slot)
        if awaited is not None:
            return awaited
        if (suspected := self._card(engine_slot).suspected) is not None:
            return f"{suspected}; they rerun on another GPU to find out whether this one is broken"
        if reserved.missing and name in reserved.slots:
            return f"reserved for job {reserved.job}, which needs {units.count(reserved.missing, 'more slot')}"
        first = next(job for job in self.queue.next_jobs() if job.only in (None, name))
        if (waits := self.wait_reason(first.number)) is not None:
            return f"job {first.number} waits {waits}"
        return f"the waiting jobs need {units.count(min(widths), 'slot')} at once"

    def wait_reason(self, number: int) -> str | None:
        """Returns the wait reason of a job that is held back, has reserved slots or fits on no free GPU; None for others."""
        reserved, record = self._allotment, self.queue.records[number]
        if (held_s := self._held_s(number)) > 0:
            return f"for {units.span(held_s)}: {self._held[number][2]}"
        if not reserved.missing or reserved.job != number:
            waits = record.state is WorkerState.WAITING
            idle = [name for name in self._usable() if name not in self.jobs and record.only in (None, name)]
            short = [self._shortage(record, name) for name in idle] if waits else []
            return f"for memory: it needs {short[0]}" if short and None not in short else None
        verb = "is" if len(reserved.slots) == 1 else "are"
        held = f"; {' and '.join(reserved.slots)} {verb} reserved for it" if reserved.slots else ""
        return f"for {units.count(reserved.missing, 'more slot')}{held}"

    def update(self) -> None:
        """Updates the reasons that slots are idle."""
        for name, engine_slot in self.slots.items():
            engine_slot.drained = name not in self.jobs and (self.ending or not self.queue.waiting)
            if name not in self.jobs:
                engine_slot.idle_reason = self._idle_reason(engine_slot)


def _has_computed(worker: Worker, min_s: float = math.inf) -> bool:
    """True if a worker got further than a broken GPU would allow, or is alive after `min_s` seconds."""
    attempt, now = worker.attempt, clock.now()
    lasts = attempt is not None and (attempt.has_worked(now) or (worker.state.live and attempt.elapsed_s(now) >= min_s))
    return worker.state is WorkerState.FINISHED or lasts
