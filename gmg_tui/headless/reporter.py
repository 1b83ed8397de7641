"""Reports a session as lines of text: the workers' output, changes, ended jobs and trials, and a status line."""

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
"""An amount; a text in which only amounts have changed is not reported again."""
_LOST = re.compile(r"^(\S+: lost since [\d:]+).*")
"""The note on a lost node; the group captures all but the reason, which may change."""
_MIN_STATUS_INTERVAL_S = 5.0
_MAX_REPORTED = 1000
"""Maximum number of notes to remember as reported."""
_WAITING_STATES = frozenset({WorkerState.WAITING, WorkerState.RESTARTING, WorkerState.STOPPING})


class Reporter:
    """Turns an engine's messages into lines. Reports each change once, and workers' progress only in the status line."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._width = max((len(slot.name) for slot in session.slots), default=0)
        self._next_line: Counter[str] = Counter()
        """The number of the next output line to print, by slot."""
        self._last_states: dict[str, Worker | RankGroup] = {}
        """The last reported state of each worker and group."""
        self._last_alerts: dict[str, dict[str, str]] = {}
        """The last reported alerts of each worker and job, and of each group: texts without amounts, by kind."""
        self._reported: dict[tuple[str, str], None] = {}
        """The subjects and texts of notes that are reported only once."""
        self.jobs_reported = 0
        """The number of jobs reported, not counting those restarted since."""
        self._status = ""
        self._status_time = float("-inf")
        self._tuning_step = ""
        self._trial_states: dict[int, TrialState] = {}
        """The last reported state of each trial."""

    def _line(self, name: str, text: str) -> str:
        """Returns a line about a slot or a group."""
        return f"{name:<{self._width}}   {text}"

    def report_output(self, message: Lines) -> Iterator[str]:
        """Yields a worker's lines, prefixed with its slot, after a line that reports any skipped ones."""
        yield from self._skipped_lines(message.slot, message.first)
        self._next_line[message.slot] = message.first + len(message.lines)
        for line in message.lines:
            if not line_patterns.is_progress_only(line):
                yield f"{message.slot:<{self._width}} │ {line}"

    def report_skipped(self, snapshot: Snapshot) -> Iterator[str]:
        """Yields a line for each worker whose last lines were not printed."""
        for worker in snapshot.workers:
            yield from self._skipped_lines(worker.slot, worker.log_lines)

    def _skipped_lines(self, slot: str, next_line: int) -> Iterator[str]:
        skipped = next_line - self._next_line[slot]
        if skipped > 0:
            self._next_line[slot] = next_line
            file = f"{slot}.log" if self._session.spec.sweep is None else ""  # each job of a sweep has its own log
            yield f"{slot:<{self._width}} │ … {units.count(skipped, 'line')} left out; all are in logs/{file}"

    def report_changes(self, snapshot: Snapshot) -> Iterator[str]:
        """Yields a line for each change of a worker, group, GPU or the session since the previous snapshot.

        Reports a change of a group once, not for each rank, and in a sweep only problems of workers, as `report_jobs`
        reports the jobs.
        """
        if snapshot.queue is not None:
            self.jobs_reported = min(self.jobs_reported, snapshot.queue.done)
        ranks = {slot for group in snapshot.groups for slot in group.slots}
        for worker in snapshot.workers:
            if worker.slot not in ranks and worker.lost_since is None:  # a note reports a lost node
                yield from self._state_changes(worker.slot, worker, snapshot)
            if snapshot.queue is not None and worker.job is None and (reason := worker.reason or "").startswith("for "):
                yield from self._once(
                    worker.slot, _AMOUNT.sub("", reason), self._line(worker.slot, f"waiting {reason}")
                )
            key = worker.slot if worker.job is None else f"{worker.slot} {worker.job}"
            alerts = (alert for alert in worker.alerts if alert.kind != "stuck" or worker.slot not in ranks)
            yield from self._alert_changes(worker.slot, key, alerts, ended=worker.state.ended)
        for group in snapshot.groups:
            yield from self._state_changes(group.id, group, snapshot)
            yield from self._alert_changes(group.id, group.id, group.alerts, ended=group.state.ended)
        for slot, reason in (snapshot.queue.benched if snapshot.queue is not None else {}).items():
            yield from self._once(slot, reason, self._line(slot, f"benched: {reason}"))
        name, simulated = self._session.spec.name, self._session.spec.simulate
        notes = [f"simulated: {units.count(simulated, 'GPU')} and their workers"] if simulated is not None else []
        notes += [alert.text for alert in snapshot.alerts]
        for note in (*notes, *([snapshot.nvml_error] if snapshot.nvml_error else [])):
            yield from self._once("", _LOST.sub(r"\1", note), f"{name}: {note}")

    def report_trials(self, tuning: Tuning) -> Iterator[str]:
        """Yields a line for each trial that has ended, for a new step, then for each trial that has started.

        Omits trials from before a resume.
        """
        spec, trials = tuning.spec, tuning.trials[tuning.earlier :]
        yield from (line for trial in trials if trial.state.ended for line in self._trial_changes(trial, spec))
        if tuning.step != self._tuning_step:
            self._tuning_step = tuning.step
            time_left = "" if tuning.ended else units.time_left(tuning.eta_s)
            yield f"{spec.variable}: {tuning.step}{f' (about {time_left})' if time_left else ''}"
        yield from (line for trial in trials if not trial.state.ended for line in self._trial_changes(trial, spec))

    def _trial_changes(self, trial: Trial, spec: TuneSpec) -> Iterator[str]:
        last = self._trial_states.get(trial.number, TrialState.WAITING)
        self._trial_states[trial.number] = trial.state
        subject = f"trial {trial.number}: {spec.variable}={trial.value:,}"
        if last not in (trial.state, TrialState.RUNNING) and trial.state not in (
            TrialState.WAITING,
            TrialState.SKIPPED,
        ):
            yield self._line(trial.slot, f"{subject} starts ({trial.kind.value})")
        if trial.state.ended and last is not trial.state:
            yield self._line(trial.slot, f"{subject} {_trial_end(trial, spec)}")

    def report_jobs(self, jobs: Iterable[JobRecord], total: int) -> Iterator[str]:
        """Yields a line for each ended job at the start of `jobs`, the queue from position `jobs_reported`.

        Jobs that ended before a resume are counted but not reported.
        """
        for job in takewhile(lambda job: job.state.ended, jobs):
            self.jobs_reported += 1
            if job.ended is not None and job.ended < self._session.started:
                continue
            after = f" after {units.span(job.elapsed_s)}" if job.elapsed_s is not None else ""
            tries = f" in {job.last.number} attempts" if job.last.number > 1 else ""
            rate = f" at {units.fps(job.last.rate)} FPS" if job.last.rate is not None else ""
            reason = f": {job.reason}" if job.reason else ""
            text = f"job {job.number}/{total} {job.name} {job.state.value}{after}{tries}{rate}{reason}"
            yield self._line(job.slot or "", text)

    def _state_changes(self, name: str, subject: Worker | RankGroup, snapshot: Snapshot) -> Iterator[str]:
        """Yields a line if the state of a worker or group has changed.

        In a sweep, reports only groups, and workers that are waiting or restarting.
        """
        last = self._last_states.get(name)
        if last is not None and last.job != subject.job:
            last = None
        self._last_states[name] = subject
        is_held = subject.state is WorkerState.WAITING and subject.job is not None and subject.reason is not None
        is_stalled = is_held or subject.state is WorkerState.RESTARTING
        is_reported = snapshot.queue is None or isinstance(subject, RankGroup) or is_stalled
        if is_reported and (last is None or _identity(last) != _identity(subject)):
            yield self._line(name, _state_text(subject, snapshot.time))

    def _alert_changes(self, name: str, key: str, alerts: Iterable[Alert], *, ended: bool) -> Iterator[str]:
        """Yields a line for each new alert and, unless the worker or group has ended, for each that no longer holds.

        `key` identifies the worker and job, or the group.
        """
        last = self._last_alerts.get(key, {})
        current = {alert.kind: alert for alert in alerts if alert.kind != "node"}
        texts = self._last_alerts[key] = {kind: _AMOUNT.sub("", alert.text) for kind, alert in current.items()}
        for kind, alert in current.items():
            if kind not in last or (kind == "gpu" and last[kind] != texts[kind]):
                advice = f"; {alert.advice}" if alert.advice else ""
                text = f"⚠ {alert.headline}" if urgent([alert]) else alert.text
                line = self._line(name, f"{text}{advice}")
                # Information is often the same for all workers.
                yield from [line] if urgent([alert]) else self._once("", alert.text, line)
        for kind in last if not ended else ():
            if kind not in current and KINDS[kind].severity is not Severity.INFO:
                yield self._line(name, f"alert cleared: {kind}")

    def _once(self, subject: str, text: str, line: str) -> Iterator[str]:
        """Yields the line unless the text was already reported for the subject."""
        if (subject, text) not in self._reported:
            self._reported[subject, text] = None
            if len(self._reported) > _MAX_REPORTED:
                del self._reported[next(iter(self._reported))]
            yield line

    def status_line(self, snapshot: Snapshot) -> str | None:
        """Returns the line with totals and states; None if it is not due, or if only the time has changed."""
        text = "  ".join(self._totals(snapshot))
        if 0 <= snapshot.time - self._status_time < _MIN_STATUS_INTERVAL_S or text == self._status:
            return None
        self._status, self._status_time = text, snapshot.time
        jobs_left = units.time_left(snapshot.queue.eta_s, units.clock) if snapshot.queue is not None else ""
        slurm_left = allocation.remaining_time(snapshot.allocation, snapshot.time)
        texts = (text, units.clock(snapshot.elapsed_s), jobs_left, slurm_left.text if slurm_left is not None else "")
        return "  ".join(filter(None, texts))

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
            known = [progress for worker in snapshot.workers if (progress := worker.newest.progress) is not None]
            shares = [progress.done / progress.total for progress in known if progress.total]
            if shares:
                yield f"{units.rounded(100 * min(shares))} % done"
        stuck = sum(worker.stuck for worker in snapshot.workers)
        if stuck:
            yield f"⚠ {stuck} stuck"
        if alerting := sum(bool(urgent(worker.alerts)) and not worker.stuck for worker in snapshot.workers):
            yield f"⚠ {units.count(alerting, 'alert')}"
        late_samples = [sample for sample in snapshot.samples if sample.age_s is not None]
        yield from [sample.error for sample in late_samples if sample.error][:1] or (
            ["GPU metrics are late"] if late_samples else []
        )


def _trial_end(trial: Trial, spec: TuneSpec) -> str:
    """Returns the outcome of a trial: `measured 5,696,782 FPS ±0.9 %, 3.6 GiB`, `failed: CUDA out of memory`."""
    if trial.state is not TrialState.MEASURED:
        return f"{trial.state.value}: {trial.reason or 'unknown reason'}"
    memory = "" if trial.memory_mib is None else f", {units.mib(trial.memory_mib)}"
    reason = f" ({trial.reason})" if trial.reason else ""
    return f"measured {tuning_text.rate(trial.rate, spec)}{tuning_text.margin(trial)}{memory}{reason}"


def _identity(subject: Worker | RankGroup) -> Hashable:
    """Returns the parts of a state whose changes are reported."""
    reason = _AMOUNT.sub("", subject.reason or "") if subject.state in _WAITING_STATES else ""
    if isinstance(subject, RankGroup):  # during a restart, the ranks begin their next attempt one after another
        restarts = subject.state is WorkerState.RESTARTING or subject.restarts
        return subject.state, restarts, subject.waits_for, reason
    return subject.state, subject.attempt, subject.signal_sent, reason


def _state_text(subject: Worker | RankGroup, now: float) -> str:
    """Returns the state of a worker or a group as one line; `now` is the Unix time."""
    if isinstance(subject, RankGroup):
        ranks, attempt, after = f" {units.count(len(subject.slots), 'rank')}", subject.restarts + 1, ""
        missing = f"{'rank' if len(subject.waits_for) == 1 else 'ranks'} {', '.join(map(str, subject.waits_for))}"
        reason = f" for {missing}" if subject.waits_for else f": {subject.reason}" if subject.reason else ""
    else:
        ranks, attempt, reason = "", subject.attempt, f": {subject.reason}" if subject.reason else ""
        after = f" after {units.span(subject.newest.elapsed_s(subject.state_since))}" if subject.attempt else ""
    match subject.state:
        case WorkerState.STARTING:
            return f"starting{ranks}" + (f", attempt {attempt}" if attempt > 1 else "")
        case WorkerState.RESTARTING:
            delay = "" if subject.restart_at is None else f" in {units.span(max(0.0, subject.restart_at - now))}"
            number = f", attempt {attempt + 1}" if isinstance(subject, Worker) else ""
            return f"restarting{delay}{number}{reason}"
        case WorkerState.STOPPING:
            if isinstance(subject, RankGroup):
                return f"stopping{ranks}"
            waiting = reason.replace(": for ", ": waiting for ")
            return f"stopping: {subject.stopping}" if subject.stopping else f"stopping{waiting}"
        case WorkerState.COMPILING if isinstance(subject, Worker) and subject.phase_usual_s is not None:
            return f"compiling{after}; this took {units.span(subject.phase_usual_s)} last time"
        case WorkerState.WAITING:
            return f"waiting{reason}"
        case _:
            return f"{subject.state}{after}{reason}"
