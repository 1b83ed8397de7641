"""A group: the ranks of one job, one worker each, started, stopped and restarted together, as by torchrun."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Report, Task
from gmg_tui.engine.clock import unix
from gmg_tui.engine.workers.restart_policy import RestartPolicy
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import AlertAction, Rank, RankGroup, WorkerState
from gmg_tui.scripts import checkpoints
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Rendezvous
from gmg_tui.session import RANKS

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace

_log = logging.getLogger(__name__)

_MAX_PORT_CONFLICTS = 8
"""The group fails after this many port conflicts in a row, within about two minutes: others may take all ports for a while."""
_MAX_CAUSES = 4
"""Maximum ranks named in the reason that a group is stuck."""
_MIN_CHECK_GAP_S = 2.0
"""A gap between checks above this and half of `--stuck-after` restarts the watch: the engine was suspended."""
_MAX_PROGRESS_GAP_FACTOR = 3.0
_OUTPUT_FACTOR = 10.0
"""Factor of the limit for a group that prints or steps without progress, as in an evaluation."""
"""Multiple of the longest recent interval between progress reports before which no group is stuck."""
_STATE_PRECEDENCE = (
    *("stopping", "restarting", "waiting", "starting", "building"),
    *("compiling", "running", "failed", "stopped", "finished"),
)
"""States by precedence: the group's state is the first that a rank has."""


@dataclass
class _Attempt:
    ready_ranks: set[int] = field(default_factory=set)
    address: tuple[str, int] | None = None
    """The address and port of the rendezvous; None until all ranks are ready."""
    ending: bool = False
    """True once its ranks are being ended."""
    fault: Failure | None = None
    """The fault of all ranks together that ended it, such as that they were stuck; None otherwise."""
    failed: list[int] = field(default_factory=list)
    """The failed ranks, in the order of failure."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def cause(self) -> tuple[int, Failure] | None:
        """The rank that failed first, and its failure; ranks that merely lost a peer come last."""
        outcomes = [(rank, self.outcomes[rank].failure) for rank in self.failed if rank in self.outcomes]
        failed = [(rank, failure) for rank, failure in outcomes if failure is not None]
        causes = (pair for pair in failed if pair[1].kind is not FailureKind.PEER)
        return next(causes, failed[0] if failed else None)

    def failure_of(self, rank: int) -> Failure | None:
        """Returns the failure of a rank or its group, once all ranks have ended; None without one."""
        if self.cause is None:
            return self.fault
        first, failure = self.cause
        if first == rank:
            return failure
        return Failure(FailureKind.GROUP, f"ended with the group: rank {first}: {failure.reason}", failure.advice)


class Group:
    """The ranks of one job. They start each attempt together; once all have ended, the next one is decided.

    Attributes:
        id: The name: `g0`, `g1` …
        slots: The ranks' slots, by rank.
        policy: Decides when the next attempt is due.
        stuck: The reason that the group counts as stuck; None if it does not.
    """

    def __init__(self, name: str, slots: Iterable[str], task: Task, workplace: Workplace) -> None:
        self.id = name
        self.slots = tuple(slots)
        self.workers: list[Worker] = []
        self.policy = RestartPolicy(workplace.spec)
        self._due = [asyncio.Event() for _ in self.slots]
        """One event for each rank, set while the rank may begin the attempt and has not."""
        self.stuck: str | None = None
        self._task, self._workplace, self._session = task, workplace, workplace.session
        self._attempt = _Attempt()
        self._attempts = self._port_conflicts = 0
        """Numbers of attempts started, and of port conflicts in a row."""
        self._change = asyncio.Event()
        self._checked_at = self._watched_since = 0.0
        """Times of the last check, and of the first after the last gap, monotonic seconds."""

    # Lifecycle of an attempt

    async def run(self) -> None:
        """Begins an attempt whenever one is due, until cancelled."""
        while True:
            await self.policy.wait_until_due()
            self._attempt, self.stuck = _Attempt(), None
            records = [record for worker in self.workers if (record := worker.attempt) is not None]
            saved = checkpoints.before_nan(*records) if records else self._task.checkpoints
            for worker, due in zip(self.workers, self._due, strict=True):
                worker.task = replace(worker.task, checkpoints=saved)
                due.set()
            await self._attempt.ended.wait()
            # The ranks' last alerts may request another attempt.
            while any(worker.outcome is None for worker in self.workers):
                await self._change.wait()

    def rank(self, number: int) -> Rank:
        """Returns the rank with this number."""
        return Rank(self.id, number, len(self.slots))

    async def wait_until_due(self, rank: int) -> None:
        """Waits until a rank may begin the next attempt."""
        self._notify()
        await self._due[rank].wait()
        self._due[rank].clear()

    def pending(self, rank: int) -> bool:
        """Returns True if another attempt of a rank follows."""
        return self._due[rank].is_set() or self.policy.pending

    @property
    def all_run_attempt(self) -> bool:
        """True if all ranks have begun the attempt, and none has ended or is ending."""
        return not self._attempt.ending and all(worker.runs_attempt for worker in self.workers)

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def end(self, fault: str | None = None) -> None:
        """Ends the attempt on all ranks; `fault` is what is wrong with all ranks together, if that ends it."""
        attempt = self._attempt
        if fault is not None:
            attempt.fault = Failure(FailureKind.GROUP, f"the group {fault}", "")
        if not attempt.ending:
            attempt.ending = True
            for worker in self.workers:
                worker.end_with_group()
            self._notify()

    def fail(self, rank: int) -> None:
        """Ends the other ranks, after a rank has failed or the user has stopped it."""
        if rank not in self._attempt.failed:
            self._attempt.failed.append(rank)
        self.end()

    async def rendezvous(self, rank: int, report: Report) -> Rendezvous | None:
        """Waits until all ranks are ready. Returns a rank's rendezvous; None if the attempt is ending."""
        attempt = self._attempt
        attempt.ready_ranks.add(rank)
        if not self._other_ranks(attempt.ready_ranks) and not attempt.ending:
            self._attempts += 1
            self.policy.clear_request()
            attempt.address = await self._workplace.rendezvous_address(self.slots)
        self._notify()
        while attempt.address is None and not attempt.ending:
            absent = self._other_ranks(attempt.ready_ranks)
            report(f"for {self._describe_ranks(absent)}" if absent else None)
            await self._change.wait()
        report(None)
        return None if attempt.ending or attempt.address is None else self._rendezvous(rank, *attempt.address)

    def _rendezvous(self, rank: int, address: str, port: int) -> Rendezvous:
        session, ddp = self._session, self._session.spec.ddp
        number = self._task.first_attempt + self._attempts - 1
        nodes = [slot.rpartition("/")[0] for slot in self.slots]
        distinct_nodes = list(dict.fromkeys(nodes))
        virtual = ddp is not None and ddp.virtual_local_rank
        local = nodes[:rank].count(nodes[rank]), nodes.count(nodes[rank])
        node_ranks = *local, distinct_nodes.index(nodes[rank]), len(distinct_nodes)
        limits = self._attempts - 1, session.spec.max_restarts
        run_id, error_file = f"{session.id}-{self.id}", f"{RANKS}/{self.id}-{number}-rank{rank}/error.json"
        return Rendezvous(
            rank, len(self.slots), port, *limits, run_id, error_file, address, *node_ranks, virtual_local_rank=virtual
        )

    async def conclude(self, rank: int, outcome: Outcome, report: Report) -> Failure | None:
        """Waits until all ranks have ended. Returns the failure of this rank or its group; None without one."""
        attempt = self._attempt
        if outcome.failure is not None or outcome.by_user:
            self.fail(rank)
        attempt.outcomes[rank] = outcome
        if not self._other_ranks(attempt.outcomes):
            self._decide_next()
            attempt.ended.set()
        self._notify()
        while not attempt.ended.is_set():
            report(f"for {self._describe_ranks(self._other_ranks(attempt.outcomes))} to end")
            await self._change.wait()
        report(None)
        return attempt.failure_of(rank)

    def _decide_next(self) -> None:
        """Decides whether another attempt follows, once all ranks have ended."""
        attempt, outcomes = self._attempt, self._attempt.outcomes.values()
        failure = attempt.cause[1] if attempt.cause is not None else attempt.fault
        by_user = any(outcome.by_user for outcome in outcomes)
        is_unready = any(outcome.unready is not None for outcome in outcomes)
        is_port_taken = failure is not None and failure.kind is FailureKind.PORT
        self._port_conflicts = self._port_conflicts + 1 if is_port_taken else 0
        if is_port_taken and self._port_conflicts < _MAX_PORT_CONFLICTS and not by_user:
            _log.info("%s: its port was taken; trying another", self.id)
            self.policy.retry(self._port_conflicts - 1)
        elif self._task.job is not None and is_unready:
            _log.info("%s: no attempt follows: a rank could not be prepared", self.id)
        elif not by_user:
            had_progress = any(outcome.had_progress for outcome in outcomes)
            running_s = max(outcome.running_s for outcome in outcomes)
            self.policy.schedule(failure, had_progress=had_progress, running_s=running_s, is_unready=is_unready)

    def _other_ranks(self, ranks: Iterable[int]) -> list[int]:
        return sorted(set(range(len(self.slots))).difference(ranks))

    def _describe_ranks(self, ranks: Iterable[int]) -> str:
        names = [f"{rank} ({self.slots[rank]})" for rank in ranks]
        return ("rank " if len(names) == 1 else "ranks ") + ", ".join(names)

    # Once a second

    def check(self, now: float) -> None:
        """Checks at `now` (monotonic seconds) whether the group is stuck; `--on stuck=restart` replaces its attempt."""
        if now - self._checked_at > max(_MIN_CHECK_GAP_S, self._session.spec.stuck_after_s / 2):
            self._watched_since = now
        self._checked_at, workers = now, self.workers
        if any(worker.state is WorkerState.RUNNING and worker.fps_of_group for worker in workers):
            for worker in workers:  # the others print nothing
                worker.follow_rank0()
        self.stuck, restarts = self._stuck_reason(now), self._session.spec.on.get("stuck") is AlertAction.RESTART
        for worker in workers:
            worker.stuck = self.stuck
        running_s = max(worker.running_s for worker in workers)
        if self.stuck is not None and restarts and self.policy.replace(running_s=running_s):
            self.end(f"was stuck: {self.stuck}")
        elif not self._attempt.ending and (difference := self._differing_origins()) is not None:
            self.end(difference)

    def _differing_origins(self) -> str | None:
        """Describes checkpoints that differ between the ranks, as while a disk is away on one node; None if they do not."""
        records = [worker.attempt for worker in self.workers if worker.activity().has_process]
        started = [record for record in records if record is not None]
        if len(started) < len(self.workers) or len({record.number for record in started}) > 1:
            return None
        origins = [record.continued_from or "the beginning" for record in started]
        if (other := next((rank for rank, origin in enumerate(origins) if origin != origins[0]), None)) is None:
            return None
        name = self._describe_ranks([other])
        return f"does not continue from one checkpoint: rank 0 from {origins[0]}, {name} from {origins[other]}"

    def _stuck_reason(self, now: float) -> str | None:
        """Returns the reason that the group is stuck; None if it is not, or while a rank is starting or ending.

        A deadlocked collective looks busy, with the GPU and a CPU core at 100 %: only the lack of progress shows it.
        """
        ranks = [worker.activity() for worker in self.workers]
        is_same_attempt = len({activity.attempt for activity in ranks}) == 1
        if self._attempt.ending or not is_same_attempt or not all(activity.has_process for activity in ranks):
            return None
        running = [activity for activity in ranks if activity.leader_runs]
        stuck_after_s, start = self._session.spec.stuck_after_s, self._watched_since
        silent_s = _silent_s(running, stuck_after_s, start, now) if running else None
        if silent_s is None:
            return None
        stopped = [rank for rank, activity in enumerate(ranks) if activity.leader_runs and activity.stopped]
        causes = [f"{self._describe_ranks([rank])} is {ranks[rank].stopped:.200}; " for rank in stopped[:_MAX_CAUSES]]
        return f"{''.join(causes)}no rank has made progress for {silent_s:.0f} s"

    # For clients

    @property
    def state(self) -> WorkerState:
        """The first state by precedence, not counting ended ranks unless all are; running if one reports for all."""
        states = [self.workers[rank].state for rank in self._other_ranks(self._attempt.outcomes)]
        states = states or [worker.state for worker in self.workers]
        runs = self._reports_for_all and WorkerState.RUNNING in states and WorkerState.STOPPING not in states
        return WorkerState.RUNNING if runs else min(states, key=_STATE_PRECEDENCE.index)

    @property
    def cause(self) -> str | None:
        """The first failure of the current or last attempt, with its rank; None if there is none."""
        cause, fault = self._attempt.cause, self._attempt.fault
        if cause is None:
            return fault.reason if fault is not None else None
        return f"rank {cause[0]}: {cause[1].reason}"

    def view(self) -> RankGroup:
        """Returns the group as clients see it."""
        state, workers, attempt, due_at = self.state, self.workers, self._attempt, self.policy.due_at
        since = max(worker.state_since for worker in workers if worker.state is state)
        is_waiting = bool(attempt.ready_ranks) and attempt.address is None and not attempt.ending
        reports_for_all, views = self._reports_for_all, [worker.view(rank) for rank, worker in enumerate(workers)]
        # A rate of the whole group must not be added to others.
        rates = [view.current_fps for view in views if view.newest.fps_of_group == reports_for_all]
        known_rates = [rate for rate in rates if rate is not None]
        return RankGroup(
            id=self.id,
            slots=self.slots,
            state=state,
            state_since=unix(since),
            job=self._task.job,
            restarts=max(0, self._attempts - 1),
            restart_at=unix(due_at) if due_at is not None else None,
            fps=sum(known_rates) if known_rates and state is WorkerState.RUNNING else None,
            progress=next((view.newest.progress for view in views if view.newest.progress is not None), None),
            waits_for=tuple(self._other_ranks(attempt.ready_ranks)) if is_waiting else (),
            alerts=tuple(alert for alert in workers[0].alerts if alert.kind == "stuck"),
            reason=self.cause if state in (WorkerState.FAILED, WorkerState.RESTARTING, WorkerState.STOPPING) else None,
            advice=next((worker.advice for worker in workers if worker.advice), None),
        )

    @property
    def _reports_for_all(self) -> bool:
        """True if one rank reports the rate of all ranks; the others print nothing."""
        return any(worker.fps_of_group for worker in self.workers)


def _silent_s(ranks: Sequence[RankActivity], stuck_after_s: float, start: float, now: float) -> float | None:
    """Returns the seconds without progress on any rank, from `start` at the earliest; None if below the limit."""
    last = max((activity.progress_at for activity in ranks if activity.progress_at is not None), default=None)
    if last is not None and not any(_is_rebuilding(activity, last) for activity in ranks):
        silent_s = now - max(last, start)
        limit_s = max(stuck_after_s, _MAX_PROGRESS_GAP_FACTOR * max(activity.progress_every_s for activity in ranks))
        limit_s *= _OUTPUT_FACTOR if min(activity.silence_s for activity in ranks) < stuck_after_s else 1.0
    else:  # ranks may wait for each other at the start, and the first report may take long
        silent_s = min(now - start, *(activity.idle_s for activity in ranks))
        limit_s = stuck_after_s
    return silent_s if silent_s >= limit_s else None


def _is_rebuilding(activity: RankActivity, last: float) -> bool:
    """Returns True if a rank has begun another scene since its own last report or, without one, the group's."""
    return not activity.in_running and (activity.progress_at is not None or activity.phase_started > last)
