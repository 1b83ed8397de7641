"""What is known of a worker: its state, its attempts and its figures at this moment."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque

from gmg_tui import units
from gmg_tui.engine.attempts import attempt_view
from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.launch import Launcher
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.output.log_writer import Log
from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.workers.member import Alone, Member
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.slot_worker import KeptMemory, SlotWorker
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.model import (
    Attempt,
    AttemptMetrics,
    AttemptReport,
    Fps,
    GpuSample,
    Phase,
    Progress,
    Rank,
    Settings,
    Slot,
    WorkerState,
)

_KEPT_ATTEMPTS = 200


_NOTHING = Blocks(0, 0, ())


class WorkerStatus(SlotWorker):
    """What is known of a worker whose processes run here; `Worker` runs its attempts."""

    def __init__(
        self,
        slot: Slot,
        launcher: Launcher,
        task: Task,
        log: Log,
        ring: RingBuffer,
        member: Member | None,
    ) -> None:
        self.slot = slot
        self.task = task
        self.args = task.args
        """Before placeholders are filled in."""
        self.env = dict(task.env)
        """Before placeholders are filled in."""
        self.log = log
        self.ring = ring
        self.attempt: RunningAttempt | None = None
        self.past: deque[tuple[Attempt, Settings]] = deque(maxlen=_KEPT_ATTEMPTS)
        self.before: AttemptMetrics | None = None
        self.reason: str | None = None
        self.advice: str | None = None
        self.stuck: str | None = None
        self.sample: GpuSample | None = None
        self.memory_kept: str | None = None
        self.misplaced: str | None = None
        """Set when NVML sees this worker on another GPU."""
        self.concluded = asyncio.Event()
        self.dump: str | None = None
        self.unready: str | None = None
        self.failure: Failure | None = None
        self.out_dir: str | None = None
        self._launcher = launcher
        self._state = WorkerState.WAITING
        self.state_since = time.monotonic()
        self._said = (WorkerState.STARTING, Phase.IMPORTING)
        self._member: Member = member or Alone(RestartPolicy(task))
        self._restart_policy = self._member.policy
        self.carried = False

    @abstractmethod
    def _changed(self) -> None:
        """Something that is displayed has changed."""

    @property
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows the script's output."""
        if self._state is WorkerState.STARTING and self.attempt is not None:
            return WorkerState.RUNNING if self.carried else self.attempt.reader.state
        return self._state

    @property
    def rank(self) -> Rank | None:
        """Its place in its group; None where it is no rank."""
        return self._member.rank

    @property
    def restart_at(self) -> float | None:
        """When the next attempt starts automatically, monotonic seconds; None when none does."""
        return self._restart_policy.at

    @property
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""
        if self.attempt is None or not self.state.live:
            return Phase.NONE
        return Phase.RUNNING if self.carried else self.attempt.reader.phase

    def _enter(self, state: WorkerState, reason: str | None = None, advice: str | None = None) -> None:
        self._state = state
        self.state_since = time.monotonic()
        self.reason, self.advice = reason, advice
        if state.ended:
            self.concluded.set()
        else:
            self.concluded.clear()
        self._changed()

    def _heard(self) -> None:
        """The script has printed something that is displayed; only a new state or phase is worth an early snapshot."""
        if self.attempt is None:
            return
        said = (self.attempt.reader.state, self.attempt.reader.phase)
        if said == self._said:
            return
        if said[0] is not self._said[0] and self._state is WorkerState.STARTING and not self.carried:
            self.state_since = time.monotonic()
        self._said = said
        self._launcher.gate.heard(self.slot.name, self.phase)
        if self._state is WorkerState.STARTING:
            self.attempt.held.heard(self.phase)
        self._changed()

    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""
        self.sample = sample
        if self.attempt is not None:
            self.attempt.measure(sample, self.state, now, max(1, sharers))

    @property
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still says so."""
        if self.attempt is None or self.state is not WorkerState.RUNNING:
            return None
        reader = self.attempt.reader
        return self.attempt.fps if reader.fps_silent_s(time.monotonic()) is None else None

    @property
    def fps_of_group(self) -> bool:
        """Whether its attempt tells the rate of its whole group."""
        return self.attempt is not None and self.attempt.reader.fps_of_group

    @property
    def progress(self) -> Progress | None:
        """How far its attempt is, if that says so."""
        return self.attempt.reader.progress if self.attempt is not None else None

    @property
    def first_started(self) -> float | None:
        """When the first of its attempts that are kept has started, Unix seconds; None before."""
        if self.past:
            return self.past[0][0].started
        return self.attempt.started if self.attempt is not None else None

    @property
    def memory(self) -> KeptMemory | None:
        """The GPU memory of its attempt; None if none has run."""
        return self.attempt.memory if self.attempt is not None else None

    def reported(self) -> AttemptReport | None:
        """All about its newest attempt at this moment; None before the first."""
        return attempt_view.report(self.attempt) if self.attempt is not None else None

    def blocks(self, mark: int) -> Blocks:
        """The blocks of its loop that were closed since `mark`; none before the first attempt."""
        return self.attempt.reader.blocks(mark) if self.attempt is not None else _NOTHING

    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""
        return attempt_view.seen(self.attempt, lives=self.state.live) if self.attempt is not None else RankSeen()

    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come."""
        if self.attempt is not None and self.state.live:
            self.attempt.settle()

    def stick(self, why: str | None) -> None:
        """From now on it counts as stuck, for what was observed, or (None) not."""
        was_stuck, self.stuck = self.stuck, why
        if (was_stuck is None) != (why is None):
            self._changed()

    def run_with_group(self) -> None:
        """Another rank reports for all: this one runs too, whatever it prints."""
        if self.carried or self.reports_for_all or self._state is not WorkerState.STARTING or self.attempt is None:
            return
        ran, self.carried = self.attempt.reader.state is WorkerState.RUNNING, True
        self._launcher.gate.heard(self.slot.name, Phase.RUNNING)
        if not ran:
            self.state_since = time.monotonic()
            self._changed()

    def _seen_idle(self, attempt: RunningAttempt, now: float) -> str:
        util = self.sample.gpu_util_pct if self.sample is not None else None
        return attempt.activity.idleness(now) + (f", GPU {units.whole(util)} %" if util is not None else "")

    @property
    def attempt_started(self) -> int | None:
        """The number of its attempt once that has a process; None before."""
        return self.attempt.number if self.attempt is not None and self.attempt.process.started else None

    @property
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes at the last scan."""
        return self.attempt.activity.pids if self.attempt is not None and self.state.live else frozenset()
