"""A session as lines of text: output, changes, ends of jobs and trials, and throughput."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import takewhile

from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.machine import slurm as allocation
from gmg_tui.model import (
    Alert,
    JobRecord,
    RankGroup,
    Session,
    Severity,
    Snapshot,
    Trial,
    TrialState,
    TuneSpec,
    Tuning,
    Worker,
    WorkerState,
    fps_per_watt,
    total_fps,
    units,
)
from gmg_tui.model.alert import urgent
from gmg_tui.results import tuning_text
from gmg_tui.scripts.genesis.output import line_patterns
from gmg_tui.session.protocol import Lines

_AMOUNT = re.compile(r"[\d:.]+")
"""Amounts; their changes are not reported."""
_LOST = re.compile(r"^(\S+: lost since [\d:]+).*")
"""The start of the note on a lost node, before its countdown."""
_MIN_STATUS_GAP_S = 5.0
_WAITING_STATES = frozenset({WorkerState.WAITING, WorkerState.RESTARTING, WorkerState.STOPPING})


class Reporter:
    """Turns an engine's messages into lines, each once.

    Progress lines of workers are left out in favour of the status line.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._next_line: Counter[str] = Counter()
        self._before: dict[str, Worker | RankGroup] = {}
        """Last reported state of each worker and group."""
        self._alerts_before: dict[str, dict[str, str]] = {}
        """Last reported alerts of each worker (with its job) and group: texts by kind, without amounts."""
        self._reported: set[tuple[str, str]] = set()
        self.jobs_reported = 0
        """Number of reported jobs that are still ended; retried jobs no longer count."""
        self._status = ""
        self._status_time = float("-inf")
        self._step = ""
        self._trials: dict[int, TrialState] = {}
        """Last reported state of each trial."""

    def line(self, slot: str, text: str) -> str:
        """Returns a line about a slot or a group."""
        return f"{slot:<{self._width}}   {text}"

    def output(self, message: Lines) -> Iterator[str]:
        """Yields a worker's lines, prefixed with its slot, after a line about any that were skipped."""
        yield from self._skipped_lines(message.slot, message.first)
        self._next_line[message.slot] = message.first + len(message.lines)
        for line in message.lines:
            if not line_patterns.is_progress_only(line):
                yield f"{message.slot:<{self._width}} │ {line}"

    def missed(self, snapshot: Snapshot) -> Iterator[str]:
        """Yields a line for each worker whose last lines were not printed."""
        for worker in snapshot.workers:
            yield from self._skipped_lines(worker.slot, worker.log_lines)

    def _skipped_lines(self, slot: str, up_to: int) -> Iterator[str]:
        missing = up_to - self._next_line[slot]
        if missing > 0:
            self._next_line[slot] = up_to
            file = f"{slot}.log" if self._session.spec.sweep is None else ""  # each job of a sweep has its own
            yield f"{slot:<{self._width}} │ … {units.count(missing, 'line')} left out; all are in logs/{file}"

    def events(self, snapshot: Snapshot) -> Iterator[str]:
        """Yields the changes of workers, groups, GPUs and the session since the previous snapshot.

        A group's changes are reported once, not for each rank. In a sweep only problems of workers are reported: jobs
        have their own lines.
        """
        if snapshot.queue is not None:
            self.jobs_reported = min(self.jobs_reported, snapshot.queue.done)
        ranks = {slot for group in snapshot.groups for slot in group.slots}
        for worker in snapshot.workers:
            if worker.slot not in ranks and worker.lost_since is None:  # else the note on its node says so
                yield from self._changes(worker.slot, worker, snapshot)
            whose = worker.slot if worker.job is None else f"{worker.slot} {worker.job}"
            own = (alert for alert in worker.alerts if alert.kind != "stuck" or worker.slot not in ranks)
            yield from self._alerts(worker.slot, whose, own, is_over=worker.state.ended)
        for group in snapshot.groups:
            yield from self._changes(group.id, group, snapshot)
            yield from self._alerts(group.id, group.id, group.alerts, is_over=group.state.ended)
        for slot, why in (snapshot.queue.benched if snapshot.queue is not None else {}).items():
            yield from self._once(slot, why, self.line(slot, f"benched: {why}"))
        name, simulated = self._session.spec.name, self._session.spec.simulate
        notes = [f"simulated: {units.count(simulated, 'GPU')}, and what runs on them"] if simulated is not None else []
        notes += [alert.text for alert in snapshot.alerts]
        for note in (*notes, *([snapshot.nvml_error] if snapshot.nvml_error else [])):
            yield from self._once("", _LOST.sub(r"\1", note), f"{name}: {note}")

    def trials(self, tuning: Tuning) -> Iterator[str]:
        """Yields ends of trials, the step, and starts of trials since the last call, but none from before a resume."""
        spec, trials = tuning.spec, tuning.trials[tuning.earlier :]
        yield from (line for trial in trials if trial.state.ended for line in self._trial_changes(trial, spec))
        if tuning.step != self._step:
            self._step = tuning.step
            left = "" if tuning.ended else units.time_left(tuning.eta_s)
            yield f"{spec.variable}: {tuning.step}{f' (about {left})' if left else ''}"
        yield from (line for trial in trials if not trial.state.ended for line in self._trial_changes(trial, spec))

    def _trial_changes(self, trial: Trial, spec: TuneSpec) -> Iterator[str]:
        before = self._trials.get(trial.number, TrialState.WAITING)
        self._trials[trial.number] = trial.state
        about = f"trial {trial.number}: {spec.variable}={trial.value:,}"
        if before not in (trial.state, TrialState.RUNNING) and trial.state not in (
            TrialState.WAITING,
            TrialState.SKIPPED,
        ):
            yield self.line(trial.slot, f"{about} starts ({trial.kind.value})")
        if trial.state.ended and before is not trial.state:
            yield self.line(trial.slot, f"{about} {_trial_end(trial, spec)}")

    def job_ends(self, jobs: Iterable[JobRecord], total: int) -> Iterator[str]:
        """Yields the ends of `jobs`, the queue from position `jobs_reported`."""
        for job in takewhile(lambda job: job.state.ended, jobs):
            self.jobs_reported += 1
            if job.ended is not None and job.ended < self._session.started:
                continue  # before the session was resumed
            after = f" after {units.span(job.elapsed_s)}" if job.elapsed_s is not None else ""
            tries = f" in {job.last.number} attempts" if job.last.number > 1 else ""
            rate = f" at {units.fps(job.last.rate)} FPS" if job.last.rate is not None else ""
            reason = f": {job.reason}" if job.reason else ""
            what = f"job {job.number}/{total} {job.name} {job.state.value}{after}{tries}{rate}{reason}"
            yield self.line(job.slot or "", what)

    def _changes(self, name: str, now: Worker | RankGroup, snapshot: Snapshot) -> Iterator[str]:
        """Yields the changes of a worker or a group since its last report."""
        before = self._before.get(name)
        if before is not None and before.job != now.job:
            before = None
        self._before[name] = now
        waits = now.state is WorkerState.WAITING and now.job is not None and now.reason is not None
        is_problem = isinstance(now, RankGroup) or waits or now.state is WorkerState.RESTARTING
        if (is_problem or snapshot.queue is None) and (before is None or _identity(before) != _identity(now)):
            yield self.line(name, _state(now, snapshot.time))

    def _alerts(self, name: str, whose: str, alerts: Iterable[Alert], *, is_over: bool) -> Iterator[str]:
        """Yields new alerts and the ends of earlier ones; a changed amount is not reported."""
        before = self._alerts_before.get(whose, {})
        now = {alert.kind: alert for alert in alerts if alert.kind != "node"}
        texts = self._alerts_before[whose] = {kind: _AMOUNT.sub("", alert.text) for kind, alert in now.items()}
        for kind, alert in now.items():
            if kind not in before or (kind == "gpu" and before[kind] != texts[kind]):
                advice = f"; {alert.advice}" if alert.advice else ""
                text = f"⚠ {alert.headline}" if urgent([alert]) else alert.text
                line = self.line(name, f"{text}{advice}")
                # Information is often the same for all workers.
                yield from [line] if urgent([alert]) else self._once("", alert.text, line)
        for kind in before if not is_over else ():
            if kind not in now and KINDS[kind].severity is not Severity.INFO:
                yield self.line(name, f"no longer {kind}")

    def _once(self, whose: str, text: str, line: str) -> Iterator[str]:
        if (whose, text) not in self._reported:
            self._reported.add((whose, text))
            yield line

    def status(self, snapshot: Snapshot) -> str | None:
        """Returns the line with totals and states; None if not due, or if only the time has changed."""
        text = "  ".join(self._totals(snapshot))
        if 0 <= snapshot.time - self._status_time < _MIN_STATUS_GAP_S or text == self._status:
            return None
        self._status, self._status_time = text, snapshot.time
        left = units.time_left(snapshot.queue.eta_s, units.clock) if snapshot.queue is not None else ""
        job = allocation.remaining_time(snapshot.allocation, snapshot.time)
        return f"{text}  {units.clock(snapshot.elapsed_s)}{f'  {left}' if left else ''}{f'  {job.text}' if job is not None else ''}"

    def _totals(self, snapshot: Snapshot) -> Iterator[str]:
        yield self._session.spec.name
        if self._session.spec.simulate is not None:
            yield "simulated"
        yield f"Σ {units.fps(total_fps(snapshot.counted))} FPS"
        per_watt = fps_per_watt(self._session, snapshot)
        if per_watt is not None:
            yield f"{units.short(per_watt)} FPS/W"
        if snapshot.queue is not None:
            yield snapshot.queue.progress(snapshot.tuning)
        else:
            yield units.tally(worker.state_word for worker in snapshot.workers)
            progress = [each for worker in snapshot.workers if (each := worker.newest.progress) is not None]
            done = [each.done / each.total for each in progress if each.total]
            if done:
                yield f"{units.whole(100 * min(done))} % done"
        stuck = sum(worker.stuck for worker in snapshot.workers)
        if stuck:
            yield f"⚠ {stuck} stuck"
        if alerting := sum(bool(urgent(worker.alerts)) and not worker.stuck for worker in snapshot.workers):
            yield f"⚠ {units.count(alerting, 'alert')}"
        late = [sample for sample in snapshot.samples if sample.age_s is not None]
        yield from [sample.error for sample in late if sample.error][:1] or (["GPU metrics are late"] if late else [])


def _trial_end(trial: Trial, spec: TuneSpec) -> str:
    """Returns the end of a trial: `measured 5,696,782 FPS ±0.9 %, 3.6 GiB`, `failed: CUDA out of memory`."""
    if trial.state is not TrialState.MEASURED:
        return f"{trial.state.value}: {trial.reason or 'unknown reason'}"
    memory = "" if trial.memory_mib is None else f", {units.mib(trial.memory_mib)}"
    reason = f" ({trial.reason})" if trial.reason else ""
    return f"measured {tuning_text.rate(trial.rate, spec)}{tuning_text.margin(trial)}{memory}{reason}"


def _identity(of: Worker | RankGroup) -> Hashable:
    """Returns the parts of a state whose changes are reported."""
    waits_for = _AMOUNT.sub("", of.reason or "") if of.state in _WAITING_STATES else ""
    if isinstance(of, RankGroup):  # while it restarts, its ranks begin their next attempt one after another
        return of.state, of.state is WorkerState.RESTARTING or of.restarts, of.waits_for, waits_for
    return of.state, of.attempt, of.signal_sent, waits_for


def _state(of: Worker | RankGroup, now: float) -> str:
    """Returns the state of a worker or a group as one line."""
    if isinstance(of, RankGroup):
        whole, attempt, after = f" {units.count(len(of.slots), 'rank')}", of.restarts + 1, ""
        waits = f"{'rank' if len(of.waits_for) == 1 else 'ranks'} {', '.join(map(str, of.waits_for))}"
        reason = f" for {waits}" if of.waits_for else f": {of.reason}" if of.reason else ""
    else:
        whole, attempt, reason = "", of.attempt, f": {of.reason}" if of.reason else ""
        after = f" after {units.span(of.newest.elapsed_s(of.state_since))}" if of.attempt else ""
    match of.state:
        case WorkerState.STARTING:
            return f"starting{whole}" + (f", attempt {attempt}" if attempt > 1 else "")
        case WorkerState.RESTARTING:
            left = "" if of.restart_at is None else f" in {units.span(max(0.0, of.restart_at - now))}"
            number = f", attempt {attempt + 1}" if isinstance(of, Worker) else ""
            return f"restarting{left}{number}{reason}"
        case WorkerState.STOPPING:
            if isinstance(of, RankGroup):
                return f"stopping{whole}"
            return (
                f"stopping: {of.stopping}" if of.stopping else f"stopping{reason.replace(': for ', ': waiting for ')}"
            )
        case WorkerState.COMPILING if isinstance(of, Worker) and of.phase_usual_s is not None:
            return f"compiling{after}; this took {units.span(of.phase_usual_s)} last time"
        case WorkerState.WAITING:
            return f"waiting{reason}"
        case _:
            return f"{of.state}{after}{reason}"
