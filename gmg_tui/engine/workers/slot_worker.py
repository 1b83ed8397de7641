"""A worker as the engine's other parts know it, wherever its processes run."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from typing import Protocol

from gmg_tui import model
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.output.history import Point
from gmg_tui.genesis.output.failures import Failure
from gmg_tui.genesis.output.stretches import Blocks
from gmg_tui.model import (
    AttemptReport,
    Details,
    Fps,
    GpuSample,
    Phase,
    Progress,
    Rank,
    Slot,
    Stacks,
    WorkerState,
)


class KeptMemory(Protocol):
    """The memory of its GPU that an attempt may still hold after its end."""

    def awaited(self, *, shared: bool = False) -> str | None:
        """What the next attempt has to wait for, in one line; None if nothing.

        With `shared`, other workers of this session use the GPU.
        """

    def still_taken(self, *, shared: bool = False) -> str | None:
        """The warning for an attempt that starts now; None if all is released."""


class SlotWorker(ABC):
    """A job on a slot: what schedulers decide by, what is recorded and shown, and the commands that it takes.

    Attributes:
        args: Before placeholders are filled in.
        env: Before placeholders are filled in.
        state_since: When the state began, monotonic seconds.
        stuck: What was observed, when it counts as stuck.
        sample: The latest sample of its GPU.
        memory_kept: Set when an attempt was started before the GPU's memory had been released.
        dump: Set when torch's flight recorder has written what it knows: where, and how it is read.
        unready: Why an attempt could not be prepared, for reasons outside the script.
        failure: Why its last attempt failed by itself.
        out_dir: The job's own folder, absolute, once it exists.
        carried: Whether it runs because its group does, for which another rank reports.
        concluded: Set while it has ended: no process is left, and none follows unless the user asks for one.
    """

    slot: Slot
    task: Task
    args: tuple[str, ...]
    env: dict[str, str]
    state_since: float
    reason: str | None
    advice: str | None
    stuck: str | None
    sample: GpuSample | None
    memory_kept: str | None
    dump: str | None
    unready: str | None
    failure: Failure | None
    out_dir: str | None
    carried: bool
    concluded: asyncio.Event

    # Life and commands

    @abstractmethod
    async def run(self) -> None:
        """Run attempts until cancelled; a running attempt is killed then."""

    @abstractmethod
    def restart(self) -> None:
        """Stop the process gracefully, if there is one, then start the next attempt.

        An attempt that waits starts at once, and one that is held goes on.
        """

    @abstractmethod
    def edit(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        """Restart with other arguments and environment."""

    @abstractmethod
    def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the process, gracefully or at once, and start no other; `reason` says why if it was not the user."""

    @abstractmethod
    def end_with_group(self) -> None:
        """End its process, as another rank of its group has failed."""

    @abstractmethod
    def pass_on(self, number: signal.Signals) -> bool:
        """Send a signal to its first process, if that listens to it; whether it does."""

    @abstractmethod
    def stick(self, why: str | None) -> None:
        """From now on it counts as stuck, for what was observed, or (None) not."""

    @abstractmethod
    def run_with_group(self) -> None:
        """Another rank reports for all: this one runs too, whatever it prints."""

    # Look

    @abstractmethod
    def measure(self, sample: GpuSample | None, now: float, sharers: int = 1) -> None:
        """Take a sample of its GPU at `now` (monotonic seconds), on which `sharers` workers are live."""

    @abstractmethod
    def settle(self) -> None:
        """Write unfinished lines to the log file as far as they have come."""

    @property
    @abstractmethod
    def state(self) -> WorkerState:
        """The state; while a process runs undisturbed it follows the script's output."""

    @property
    @abstractmethod
    def rank(self) -> Rank | None:
        """Its place in its group; None where it is no rank."""

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """The script's phase; `NONE` without a process."""

    @property
    @abstractmethod
    def fps(self) -> Fps | None:
        """Its FPS at this moment; None unless it is running, and still says so."""

    @property
    @abstractmethod
    def fps_of_group(self) -> bool:
        """Whether its attempt tells the rate of its whole group."""

    @property
    @abstractmethod
    def progress(self) -> Progress | None:
        """How far its attempt is, if that says so."""

    @property
    @abstractmethod
    def attempt_started(self) -> int | None:
        """The number of its attempt once that has a process; None before."""

    @property
    @abstractmethod
    def first_started(self) -> float | None:
        """When the first of its attempts that are kept has started, Unix seconds; None before."""

    @property
    @abstractmethod
    def pids(self) -> frozenset[int]:
        """The PIDs of its processes at the last scan, as its GPU's samples name them."""

    @property
    @abstractmethod
    def memory(self) -> KeptMemory | None:
        """The GPU memory of its attempt; None if none has run."""

    @abstractmethod
    def reported(self) -> AttemptReport | None:
        """All about its newest attempt at this moment; None before the first."""

    @abstractmethod
    def blocks(self, mark: int) -> Blocks:
        """The blocks of its loop that were closed since `mark`; none before the first attempt."""

    @abstractmethod
    def seen(self) -> RankSeen:
        """What the watch of its group sees of it."""

    @abstractmethod
    def view(self, index: int, now: float) -> model.Worker:
        """What clients see of it; `index` is its slot's number, `now` monotonic seconds."""

    @abstractmethod
    async def details(self) -> Details:
        """What a details screen shows of it. Raises `GmgError` where that cannot be had."""

    @abstractmethod
    async def stacks(self) -> Stacks:
        """The Python stacks of its process, or why there are none."""

    @property
    def point(self) -> Point:
        """Its metrics at this moment, for the history."""
        return Point.of(self.fps, self.sample)

    @property
    def reports_for_all(self) -> bool:
        """Whether it runs, and tells what its whole group does."""
        return self.fps_of_group and self.state is WorkerState.RUNNING


class Watcher(Protocol):
    """Is told what happens to workers."""

    def changed(self, worker: SlotWorker) -> None:
        """Something that is displayed has changed."""

    def began(self, worker: SlotWorker) -> None:
        """The worker's attempt has started its process."""

    def ended(self, worker: SlotWorker) -> None:
        """The worker's attempt has ended; the attempt's record says how."""
