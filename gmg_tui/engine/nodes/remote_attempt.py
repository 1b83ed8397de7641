"""An attempt on another machine: the node's agent runs it and reports its progress."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.facts import Facts
from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import Life, Outcome, RankActivity, Stop, StopCause, outcome_without_process
from gmg_tui.engine.attempts.failure import outcome_of_failed_preparation
from gmg_tui.engine.nodes.plausible import decode_curves, limit_age, limit_metrics, sanitize, sanitize_curves
from gmg_tui.engine.nodes.states import Assignment, AttemptReport, decode_result, orphan_end_s
from gmg_tui.model import NO_ATTEMPT, Curve, Details, HotSpot, Sign, SpeedFacts, Stacks, WorkerState, units
from gmg_tui.model.attempt import MAX_CHECKPOINTS, merge_checkpoints
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.node import Node
    from gmg_tui.engine.workers.worker import Worker

_END_REPORT_TIMEOUT_S = 9.0
"""Time limit for the report of an attempt's end after SIGKILL; the agent waits 5 s for SIGKILL to take effect."""
_keys = count(1)
_Answer = TypeVar("_Answer", Details, SpeedFacts, Stacks)


class RemoteAttempt:
    """An attempt on a node, as last reported. Losing the node fails a rank's or job's attempt; others may continue.

    Attributes:
        assignment: The assignment for the agent; None until the attempt is prepared.
    """

    def __init__(self, node: Node, worker: Worker) -> None:
        self.slot, self.task = worker.slot, worker.task
        self.assignment: Assignment | None = None
        self._node, self._worker = node, worker
        self.life = Life.PREPARING
        self.end: tuple[WorkerState, str | None] | None = None
        self.stopped: Stop | None = None
        self._preparing: asyncio.Task[torchrun.Rendezvous | None] | None = None
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._report: AttemptReport | None = None
        self._result, self._curves = b"{}", b""
        """As in `SlotReport`."""
        self._load_result: Callable[[], dict[str, Any]] = dict
        self._away = False
        """True while the node is lost but may return."""
        self._orphaning: asyncio.TimerHandle | None = None
        """Timer of a job whose node is lost: it fires once the process must have ended."""
        self._was_lost = False
        """True for a job whose node was lost and came back."""
        self._has_process = False
        self._metric_names = set[str]()
        self._reported_at: dict[tuple[str, int, int], float] = {}
        """Unix times of the first reports of checkpoints (see `_file_of`)."""
        self._assigned_at = 0.0
        """Unix time of the assignment."""
        self._ended_at: float | None = None
        """Unix time of the end; None until known here."""

    # Lifecycle

    async def run(self) -> Outcome:
        """Runs the attempt to its end; cancelling makes the agent kill it."""
        try:
            self._node.assign(self)  # so that the node reports when it is lost
            self._preparing = asyncio.create_task(self._prepare())
            awaited: list[asyncio.Future[Any]] = [self._preparing, self._outcome]
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if self._outcome.done():
                return self._outcome.result()
            try:
                rendezvous = None if self._preparing.cancelled() else self._preparing.result()
            except GmgError as error:
                return outcome_of_failed_preparation(error)
            if self.stopped is not None or (rendezvous is None and self.task.rank is not None):
                return outcome_without_process(self.stopped)
            self._assigned_at = clock.now()
            self.assignment = Assignment(next(_keys), replace(self.task, rendezvous=rendezvous))
            self._node.assign(self)
            if self._node.lost_since is not None:  # it was lost while the ranks waited for each other
                (self.on_node_away if self.task.job is None else self.lose)(f"{self._node.name} is lost")
            return await asyncio.shield(self._outcome)
        finally:
            if self._preparing is not None:
                self._preparing.cancel()
            if self._orphaning is not None:
                self._orphaning.cancel()
            self.life = Life.ENDED
            self._node.dismiss(self)

    async def _prepare(self) -> torchrun.Rendezvous | None:
        if (reason := self._node.gone or self._node.missing_reason(self.slot.name)) is not None:
            self.lose(reason, final=True)
        elif not self._node.available.is_set():
            self._worker.set_wait_reason(f"for {self._node.name}")
            if self._node.lost_since is not None and self.task.job is not None:  # it may be a restart
                self._lose_later(f"{self._node.name} is lost", self._node.lost_since)
            await self._node.available.wait()
            if self._orphaning is not None:
                self._orphaning.cancel()
                self._orphaning = None
        self._worker.set_wait_reason(None)
        rendezvous = await self._worker.rendezvous() if self.task.rank is not None else None
        await self._worker.reserve(self.task.attempt_number(rendezvous))
        return rendezvous

    def _finish(self, outcome: Outcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    # From the node

    def on_node_away(self, reason: str) -> None:
        """Waits for the node, unless it will not be back or others wait for the attempt: its group, its search or a stop.

        A job is lost once its agent must have ended its process: before, that could write the same files as another
        elsewhere. Two processes of one trial do no harm.
        """
        is_job, is_rank, spec = self.task.job is not None, self.task.rank is not None, self._node.spec
        if self.life is Life.ENDED or self._outcome.done():
            return
        if self._node.gone is not None:
            self.lose(reason, final=True)
        elif self.assignment is None or is_rank or self.stopped is not None or (is_job and spec.tune is not None):
            self.lose(reason)
        else:
            self._away, where = True, ""
            if is_job and self._orphaning is None:
                where = f", or elsewhere after {units.span(self._lose_later(reason, clock.now()))}"
            self._worker.set_wait_reason(f"{reason}; continues when it is back{where}")
            self._worker.changed()

    def _lose_later(self, reason: str, lost_at: float) -> float:
        """Loses the attempt once the agent of a node lost at a Unix time must have ended its processes. Returns the seconds."""
        spec, is_rank = self._node.spec, self.task.rank is not None
        wait_s = 0.0 if is_rank or spec.tune is not None else max(0.0, lost_at + orphan_end_s(spec) - clock.now())
        self._orphaning = asyncio.get_running_loop().call_later(wait_s, partial(self.lose, reason))
        return wait_s

    def lose(self, reason: str, *, final: bool = False, replaced: bool = False) -> None:
        """Ends the attempt, whose process has ended or will soon; a job returns to the queue.

        `final` is True if the node will not be back, `replaced` if it is back with a new agent.
        """
        is_job, is_rank, stop = self.task.job is not None, self.task.rank is not None, self.stopped
        if self.life is Life.ENDED or self._outcome.done():
            return
        unready = reason if is_job or final else None
        failure, final = Failure(FailureKind.DEVICE, reason, ""), final and not is_rank
        if self.assignment is None:
            if unready is not None:
                self._finish(Outcome(failure, unready=unready, final=final))
            return
        retry = replaced and not (is_rank or is_job or stop)
        running_s = clock.now() - self._assigned_at if self._has_process else 0.0
        outcome = Outcome(failure, unready=unready, final=final, retry=retry, running_s=running_s)
        if stop is not None:
            outcome = outcome._replace(failure=None, cause=outcome_without_process(stop).cause)
        self._finish(outcome)
        self._worker.on_leader_exit(1)

    def apply_report(self, report: AttemptReport, result: bytes = b"{}", curves: bytes = b"") -> None:
        """Applies a report, unless it is about another attempt; `result` and `curves` are as in `SlotReport`."""
        assignment, displayed, now = self.assignment, self._displayed(), time.monotonic()
        is_over = self._outcome.done() or self._node.lost_since is not None
        if assignment is None or is_over or report.key != assignment.key:
            return
        if report.activity is not None:
            report = structs.replace(report, activity=report.activity.on_clock(now))
        has_started = report.view.newest.pid is not None and not self._has_process
        self._has_process = self._has_process or has_started
        report = structs.replace(report, view=self._correct(report.view))
        self._report, self._away = report, False
        if self._orphaning is not None:
            self._orphaning.cancel()
            self._orphaning, self._was_lost = None, True
        if result and result != self._result and self._has_process:
            self._result, self._load_result = result, cache(partial(decode_result, result))
        self._curves = (self._has_process and curves) or self._curves
        view, newest = report.view, report.view.newest
        if newest.number and self.life is Life.PREPARING:
            self.life = Life.ALIVE
            self._worker.on_prepared()
        if has_started:
            self._worker.on_started()
        if newest.exit_code is not None and self.life is Life.ALIVE:
            self.life = Life.LEADER_GONE
            self._worker.on_leader_exit(newest.exit_code)
        if report.outcome is not None:
            stop, cause = self.stopped or assignment.stop, report.outcome.cause
            if self._was_lost and stop is None and cause is StopCause.COMMAND:  # its agent had given the engine up
                self.lose(f"{self._node.name} was lost")
            else:
                self._finish(self._correct_outcome(report.outcome, stop))
            return
        self._worker.set_wait_reason(view.reason)
        stuck = view.alert("stuck") if self.stopped is None else None
        self._worker.set_stuck(stuck.text if stuck is not None else None)
        if displayed != self._displayed():
            self._worker.changed()

    def _correct_outcome(self, outcome: Outcome, stop: Stop | None) -> Outcome:
        """Returns the reported outcome, corrected like the worker: other nodes' ranks and jobs may depend on it."""
        is_timeout = outcome.cause is StopCause.TIMEOUT and self.task.timeout_s is not None
        if outcome.cause is not None and not is_timeout:
            stopped_by_node = Outcome(Failure(FailureKind.UNKNOWN, f"stopped by {self._node.name}", ""))
            outcome = outcome._replace(cause=stop.cause) if stop is not None else stopped_by_node
        if self._has_process:
            outcome = outcome._replace(unready=None)
        running_s = min(outcome.running_s, clock.now() - self._assigned_at)
        return outcome._replace(running_s=running_s, final=False, retry=False)

    def _correct(self, view: model.Worker) -> model.Worker:
        """Returns the reported worker, corrected by facts that this engine knows for itself, as agents are not trusted.

        The next attempt may run on another node, and a user may repeat this one elsewhere. An attempt adds checkpoints
        to the known ones, and its alerts are no older than the attempt; one without a process has done nothing.
        """
        newest = view.newest
        if self.assignment is not None and (newest.number or self.life is not Life.PREPARING):
            number = self.task.attempt_number(self.assignment.task.rendezvous)
            known, now = self.task.checkpoints, clock.now()
            if not self._has_process:
                newest = structs.replace(NO_ATTEMPT, started=newest.started, ended=newest.ended)
            saved = [
                structs.replace(
                    checkpoint,
                    saved=min(max(checkpoint.saved, self._assigned_at), now),
                    node=self._node.name,
                    reported=self._reported_at.setdefault(_file_of(checkpoint), now),
                )
                for checkpoint in newest.checkpoints
                if checkpoint not in known
            ]
            self._reported_at = {file: self._reported_at[file] for file in map(_file_of, saved)}
            newest = structs.replace(
                newest,
                number=number,
                given=self.task.given,
                env=self.task.given_env,
                checkpoints=(*known, *merge_checkpoints(saved, limit=MAX_CHECKPOINTS // 2)),
                metrics=limit_metrics(newest.metrics, self._metric_names),
                alerts=limit_age(newest.alerts, self._assigned_at),
            )
        else:
            newest = NO_ATTEMPT
        peak_mib, gpu = newest.memory_peak_mib, self.slot.gpu
        if peak_mib is not None and gpu is not None and peak_mib > (gpu.memory_total_mib or peak_mib):
            newest = structs.replace(newest, memory_peak_mib=None)
        return structs.replace(
            view, slot=self.slot.name, newest=newest, alerts=limit_age(view.alerts, self._assigned_at)
        )

    def _displayed(self) -> tuple[object, ...]:
        """Returns the displayed state; any change to it is shown at once."""
        return self.state, self.life, self._report.view.phase if self._report is not None and not self._away else None

    # Commands

    def stop(self, stop: Stop) -> None:
        """Stops the attempt; an attempt that has ended on its own keeps its outcome."""
        if self.life is Life.ENDED:  # its group may still be running
            return
        if self.life is not Life.LEADER_GONE:
            self.stopped = self.stopped or stop
        if self.assignment is None:
            if self._preparing is not None:
                self._preparing.cancel()
            return
        if self.assignment.stop is None or stop.kill:
            self._assign(stop=stop)
            grace_s = 0.0 if stop.kill else torchrun.stop_timeout_s(self._node.spec)
            asyncio.get_running_loop().call_later(grace_s + _END_REPORT_TIMEOUT_S, self._give_up)
        if self._node.lost_since is not None:
            self._finish(Outcome(cause=stop.cause))
        self._worker.changed()

    def _give_up(self) -> None:
        """Ends the attempt if the node has not reported its end in time."""
        if not self._outcome.done():
            self._node.is_overdue = True
            reason = f"{self._node.name} has not reported the attempt's end"
            self._finish(Outcome(Failure(FailureKind.UNKNOWN, reason, "")))

    def skip_waits(self) -> None:
        """Does nothing: the attempt has to wait for its node."""

    def forward_signal(self, number: signal.Signals) -> bool:
        """Passes a signal on to the node if the attempt is alive. Returns True if so."""
        if self.assignment is not None and self.life is Life.ALIVE:
            self._assign(signals=(*self.assignment.signals, number.value))
        return self.life is Life.ALIVE

    def _assign(self, **changes: Any) -> None:
        assert self.assignment is not None
        self.assignment = structs.replace(self.assignment, **changes)
        self._node.assign(self)

    # State

    @property
    def state(self) -> WorkerState:
        """The worker's state according to the attempt."""
        if self.end is not None:
            return self.end[0]
        if self._away:
            return WorkerState.RESTARTING
        if self._report is None:
            return WorkerState.WAITING if self.stopped is None else WorkerState.STOPPING
        state = self._report.view.state
        return WorkerState.STOPPING if state.ended or self._outcome.done() else state

    @property
    def fps_of_group(self) -> bool:
        """True if the attempt reports the rate of its whole group."""
        return self._report is not None and self._report.view.newest.fps_of_group

    @property
    def result(self) -> dict[str, Any]:
        """The values reported by `gmg:result` lines."""
        return self._load_result()

    def record(self) -> model.Attempt:
        """Returns the attempt's record for clients, the store and schedulers."""
        newest = self._report.view.newest if self._report is not None else NO_ATTEMPT
        if self.end is None or not newest.number:
            return newest
        state, reason = self.end
        self._ended_at = self._ended_at or newest.ended or clock.now()
        if self._report is not None and self._report.outcome is None:  # lost: a NaN does not condemn its origin
            newest = structs.replace(newest, continued_from=None)
        return structs.replace(newest, state=state, ended=self._ended_at, reason=reason)

    def activity(self) -> RankActivity:
        """Returns the rank's activity, which its group checks."""
        is_live = self.stopped is None and not self._outcome.done()
        reported = self._report.activity if self._report is not None and is_live else None
        return reported if reported is not None else RankActivity()

    def view(self) -> model.Worker:
        """Returns the worker as clients see it."""
        view = self._report.view if self._report is not None else model.Worker(self.slot.name, 0, self.state)
        if self._away or self._outcome.done():
            view = structs.replace(view, stopping=None, cpu_pct=None, memory_rss_mib=None)
        return structs.replace(view, newest=self.record(), lost_since=self._node.lost_since, alerts=())

    def facts(self, view: model.Worker, now: float) -> Facts:
        """Returns the facts for the attempt's alerts: the alerts that the agent has raised."""
        alerts = self._report.view.alerts if self._report is not None else ()
        return Facts(clock.unix(now), view, signs=tuple(Sign.from_alert(alert) for alert in alerts), from_agent=True)

    async def details(self) -> Details:
        """Returns the attempt's command line and environment, from the agent. Raises `GmgError`."""
        return self._with_slot(await self._node.client.details(self.slot.name))

    def curves_loader(self) -> Callable[[], dict[str, Curve]] | None:
        """Returns a function for a thread that returns all metrics over time as last reported, by name."""
        return partial(decode_curves, self._curves) if self._curves else None

    async def curves(self, name: str, count: int) -> dict[str, Curve]:
        """Returns metrics over time, from the agent, like `Curves.view`. Raises `GmgError`."""
        return sanitize_curves(await self._node.client.curves(self.slot.name, name, count))

    async def speed(self) -> SpeedFacts:
        """Returns the facts about the attempt's speed, from the agent. Raises `GmgError`."""
        return self._with_slot(await self._node.client.speed(self.slot.name))

    async def hot_spot(self) -> HotSpot | None:
        """Returns the script's hot spot, from the agent. Raises `GmgError`."""
        hot_spot = await self._node.client.hot_spot(self.slot.name)
        return None if hot_spot is None else sanitize(hot_spot)

    async def stacks(self) -> Stacks:
        """Returns the Python stacks of the first process, from the agent. Raises `GmgError`."""
        stacks = await self._node.client.stacks(self.slot.name)
        return self._with_slot(stacks[0] if stacks else Stacks("", error="its agent has none"))

    def _with_slot(self, answer: _Answer) -> _Answer:
        """Returns an agent's answer, sanitized and with this slot's name. Raises `GmgError` if it is unusable."""
        return structs.replace(sanitize(answer), slot=self.slot.name)


def _file_of(checkpoint: model.Checkpoint) -> tuple[str, int, int]:
    return checkpoint.path, checkpoint.inode, checkpoint.mtime_ns
