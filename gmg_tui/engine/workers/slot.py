"""The engine's state of a slot, which outlives its workers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.facts import Facts, Limit
from gmg_tui.diagnosis.kinds import Watch
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.clock import unix
from gmg_tui.engine.output.history import History, Point
from gmg_tui.engine.output.lines import RingBuffer
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.gpu.processes import describe
from gmg_tui.model import Alert, GpuProcess, GpuSample, RunSpec, Sign, Slot, WorkerState
from gmg_tui.model.text import clean

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Attempt
    from gmg_tui.engine.workers.worker import Worker

_MAX_RING_BYTES = 8 << 20
"""Limit for the newest lines of all slots together."""
_MIN_RING_BYTES = 128 << 10


class EngineSlot:
    """A slot with its newest lines, its history, and its worker; number `index` of the session's `count` slots.

    Attributes:
        worker: The current or last worker; None before the first.
        attempt: The newest attempt on this machine, of any worker; None before the first.
        lead: The slot whose worker also uses this one; None if it has its own worker, or none.
        idle_reason: The reason that it has no job; None if it has one, and in a plain run.
        away: The reason that nothing can run on it, such as a lost node; None if it can be used.
        drained: True if no job is left that could start on it; unused in a plain run.
        below_median_pct: Percent by which the worker's rate is below the median on equal GPUs; None if not slow.
        limit: The end of the session's allocation; None if there is none.
        collision: The sign of a file that another worker also writes; None if there is none.
        others: Processes on its GPU outside this session.
    """

    def __init__(self, slot: Slot, index: int, count: int) -> None:
        self.slot, self.index = slot, index
        self.ring = RingBuffer(max_bytes=max(_MIN_RING_BYTES, _MAX_RING_BYTES // count))
        self.history = History()
        self.sample: GpuSample | None = None
        self.worker: Worker | None = None
        self.attempt: LocalAttempt | None = None
        self.lead: EngineSlot | None = None
        self.idle_reason: str | None = None
        self.away: str | None = None
        self.drained = False
        self.below_median_pct: float | None = None
        self.limit: Limit | None = None
        self.collision: Sign | None = None
        self.others: tuple[GpuProcess, ...] = ()
        self._watch = Watch()
        self._watched: tuple[Worker | None, Attempt | None] = None, None
        """The worker and the attempt of the alerts."""
        self._created_at = time.monotonic()

    @property
    def gpu_uuid(self) -> str | None:
        """The UUID of its GPU; None on a CPU slot."""
        return self.slot.gpu.uuid if self.slot.gpu is not None else None

    @property
    def memory(self) -> GpuMemory | None:
        """GPU memory of its newest attempt here; None before the first."""
        return self.attempt.readings.memory if self.attempt is not None else None

    def attach(self, attempt: Attempt | None) -> None:
        """Attaches an attempt that is about to start here, and records the GPU memory in use before it."""
        if isinstance(attempt, LocalAttempt):
            self.attempt = attempt
            attempt.readings.memory.measure(self.sample, frozenset(), live=False)

    def measure(self, sample: GpuSample | None, now: float, sharers: int) -> None:
        """Applies a sample of its GPU at `now` (monotonic seconds), shared by `sharers` live workers."""
        self.sample = sample
        is_live = self.worker is not None and self.worker.state.live
        if self.memory is not None:
            self.memory.shared = sharers > int(is_live)
        if self.attempt is not None:
            self.attempt.measure(sample, now, max(1, sharers))

    def add_to_history(self, moment: float, view: model.Worker) -> None:
        """Adds a point to the history; `moment` is Unix time in seconds, `view` the slot as clients see it."""
        if self.worker is not None:
            sample = self.sample or GpuSample("")
            point = Point(view.current_fps, sample.gpu_util_pct, sample.memory_used_mib, sample.power_w, sample.sm_pct)
            self.history.add(moment, point)

    def view(self) -> model.Worker:
        """Returns the slot as clients see it.

        A slot waiting for a job shows the previous one's last lines and the wait reason.
        """
        worker, lead, reason = self.worker, self.lead, self.idle_reason
        if lead is not None and lead.worker is not None:
            state, since, reason = lead.worker.state, lead.worker.state_since, f"used by {lead.slot.name}'s worker"
        elif worker is not None and (self.drained or self.idle_reason is None or not worker.state.ended):
            return worker.view(self.index)
        else:
            state = WorkerState.FINISHED if self.drained else WorkerState.WAITING
            since = worker.state_since if worker is not None else self._created_at
        return model.Worker(
            slot=self.slot.name,
            index=self.index,
            state=state,
            state_since=unix(since),
            reason=reason,
            log_lines=self.ring.end,
            last_line=clean(self.ring.newest),
            alerts=self.alerts_of(None),
        )

    def alerts_of(self, worker: Worker | None) -> tuple[Alert, ...]:
        """Returns the alerts of a worker's newest attempt, or (None) of the slot while it has no worker."""
        newest = worker.newest if worker is not None else None
        return self._watch.alerts if self._watched == (worker, newest) else ()

    def diagnose(self, view: model.Worker, now: float, worker: Worker | None) -> list[Alert]:
        """Raises the alerts of a worker, or (None) of the slot. Returns those that have cleared, if it is active.

        `view` is the worker or slot as clients see it, `now` is monotonic seconds.
        """
        newest = worker.newest if worker is not None else None
        if self._watched != (worker, newest):
            self._watched, self._watch = (worker, newest), Watch()
        facts = newest.facts(view, now) if newest is not None else Facts(unix(now), view)
        signs = [*facts.signs, *(_signs(worker, view) if worker is not None else ())]
        signs += [self.collision] if self.collision is not None and view.state.live else []
        limits = [limit for limit in (facts.limit, self.limit) if limit is not None]
        raised, cleared = self._watch.update(
            structs.replace(
                facts,
                signs=tuple(signs),
                sample=self.sample,
                below_median_pct=self.below_median_pct,
                limit=min(limits, default=None),
                others=self.others,
                clock_s=facts.now - now,
            )
        )
        if worker is not None:
            for alert in raised:
                worker.respond(alert)
        return cleared if view.state.active else []

    def bare_view(self) -> model.Worker:
        """Returns a view without details, for use when `view` fails."""
        state = self.worker.state if self.worker is not None else WorkerState.WAITING
        return model.Worker(self.slot.name, self.index, state)


def _signs(worker: Worker, view: model.Worker) -> Iterator[Sign]:
    if worker.stuck is not None:
        yield Sign("stuck", worker.stuck, "the stacks show where it waits; r restarts it")
    if worker.race is not None and view.newest.had_progress and view.state is not WorkerState.FAILED:
        yield Sign("cache", f"recovered from a {worker.race} with another worker by restarting")


async def update_others(slots: Iterable[EngineSlot], spec: RunSpec) -> None:
    """Updates the slots' lists of GPU processes outside the session."""
    engine_slots, name = tuple(slots), spec.agent.session if spec.agent is not None else spec.name
    own = {pid for slot in engine_slots if slot.attempt is not None for pid in slot.attempt.pids}
    all_processes = {slot: slot.sample.processes or () if slot.sample is not None else () for slot in engine_slots}
    others = {
        slot: [process for process in processes if not (process.foreign or process.graphics or process.pid in own)]
        for slot, processes in all_processes.items()
    }
    flat = tuple(chain.from_iterable(others.values()))
    described = iter(await in_daemon_thread(describe, flat) if flat else ())
    for slot, processes in others.items():
        slot.others = tuple(process for process in islice(described, len(processes)) if process.session != name)
