"""Snapshots of a worker and of a group of workers.

The workers of a group are the ranks of one job: they start, end and restart together.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from gmg_tui.model.alert import Alert
from gmg_tui.model.attempt import NO_ATTEMPT, Attempt, Fps, Progress, mean, merge_checkpoints, sum_known
from gmg_tui.model.states import Moment, Phase, WorkerState

_SAVING = "saving"
"""Displayed as the state while Genesis is saving its kernels."""
_LOST = "lost"
"""Displayed as the state while the node is lost."""


class Rank(Struct, frozen=True, omit_defaults=True):
    """A worker's rank in its group."""

    id: str
    rank: int
    world_size: int

    @property
    def name(self) -> str:
        """Its group, number and count: `g0·1/4`."""
        return f"{self.id}·{self.rank}/{self.world_size}"


class Worker(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a job on a slot."""

    slot: str
    index: int
    """Position among the session's workers, from 0."""
    state: WorkerState
    state_since: Moment = 0.0
    phase: Phase = Phase.NONE
    phase_since: Moment = 0.0
    """Meaningless for `Phase.NONE`."""
    phase_usual_s: float | None = None
    """Usual duration of this phase with caches as cold or warm as now."""
    newest: Attempt = NO_ATTEMPT
    """The newest attempt; before the first, number 0 with its placeholders not filled in."""
    reason: str | None = None
    """Reason of a failure or wait; one line."""
    advice: str | None = None
    device: str | None = None
    """As printed by Genesis."""
    backend: str | None = None
    """`cuda`, `cpu` …, as printed by Genesis."""
    genesis_version: str | None = None
    alerts: tuple[Alert, ...] = ()
    """Its own and its GPU's alerts, worst first."""
    stopping: str | None = None
    """The last signal, and the time to wait for its effect, as text."""
    restart_at: Moment | None = None
    """Time of the automatic restart, if one is due."""
    cpu_pct: float | None = None
    """CPU of its process tree, in percent of one core."""
    memory_rss_mib: float | None = None
    """Resident memory of its process tree."""
    last_line: str = ""
    """The newest nonblank line of output."""
    log_lines: int = 0
    """Lines of output, over all attempts."""
    job: int | None = None
    """Number of its job in the queue; None in a plain run, and before the slot's first job."""
    job_name: str = ""
    group: Rank | None = None
    lost_since: Moment | None = None
    """Time when its node was lost; None unless lost."""
    fps_in_rank_0: bool = False
    """True if rank 0's rate includes this rank; `fps` is then this rank's own, or None."""

    @property
    def attempt(self) -> int:
        """Number of the newest attempt; 0 before the first."""
        return self.newest.number

    def attempt_s(self, now: float) -> float | None:
        """Returns the newest attempt's duration until `now` (Unix time); None before the first attempt."""
        return self.newest.elapsed_s(now) if self.newest.number else None

    @property
    def pid(self) -> int | None:
        """PID of its process, if any."""
        return self.newest.pid if self.newest.ended is None and self.state.live else None

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second of the newest attempt."""
        return self.newest.fps

    @property
    def state_word(self) -> str:
        """The state in one word, including `saving` and `lost`."""
        if self.lost_since is not None:
            return _LOST
        if self.phase is Phase.SAVING and self.state.active:
            return _SAVING
        return self.state.value

    @property
    def signal_sent(self) -> str:
        """Name of the last signal; empty without one."""
        return (self.stopping or "").partition(" ")[0].rstrip(",;:")

    def alert(self, kind: str) -> Alert | None:
        """Returns its alert of this kind, if raised."""
        return next((alert for alert in self.alerts if alert.kind == kind), None)

    @property
    def stuck(self) -> bool:
        """True while its alert `stuck` is raised."""
        return self.alert("stuck") is not None

    @property
    def current_fps(self) -> float | None:
        """The current rate; None unless it is running, in contact and reporting one."""
        silent = self.lost_since is not None or self.alert("silent") is not None
        if self.fps is None or self.state is not WorkerState.RUNNING or silent:
            return None
        return self.fps.settled

    @property
    def rate(self) -> float | None:
        """The current rate, or the attempt's rate once it has ended."""
        if self.fps is None:
            return None
        return self.fps.mean if self.state.ended else self.fps.settled


def summable(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Returns the workers whose rates to sum: all but ranks whose steps are already in another rank's rate."""
    led_groups = {worker.group.id for worker in workers if worker.group and worker.newest.fps_of_group}
    return tuple(
        worker
        for worker in workers
        if not worker.fps_in_rank_0
        and (worker.newest.fps_of_group or not worker.group or worker.group.id not in led_groups)
    )


def total_fps(workers: tuple[Worker, ...]) -> float | None:
    """Returns the sum of the current rates, if any; once all have ended, the sum over workers that did not fail."""
    workers = summable(workers)
    if any(not worker.state.ended for worker in workers):
        counted = [rate for worker in workers if (rate := worker.current_fps) is not None]
    else:
        unfailed = [worker for worker in workers if worker.state is not WorkerState.FAILED]
        counted = [rate for worker in unfailed if (rate := worker.rate) is not None]
    return sum(counted) if counted else None


class RankGroup(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a group."""

    id: str
    """`g0`, `g1` …"""
    slots: tuple[str, ...]
    """By rank."""
    state: WorkerState
    """While it is starting, the state of the slowest rank."""
    state_since: Moment = 0.0
    job: int | None = None
    """Number of its job in the queue; None in a plain run."""
    restarts: int = 0
    """Number of restarts, automatic or by the user."""
    restart_at: Moment | None = None
    """Time of the automatic restart, if one is due."""
    fps: float | None = None
    """The current rate of the whole group."""
    progress: Progress | None = None
    """Progress of the first rank that reports any."""
    waits_for: tuple[int, ...] = ()
    """Ranks that have not joined yet."""
    alerts: tuple[Alert, ...] = ()
    """Its alert `stuck`, if raised, naming any rank that was stopped."""
    reason: str | None = None
    """The first failure with its rank, or the reason it was stuck; one line."""
    advice: str | None = None

    @property
    def stuck(self) -> str | None:
        """Text of its alert `stuck`, if raised."""
        return next((alert.text for alert in self.alerts if alert.kind == "stuck"), None)


def sum_rates(rates: Sequence[Fps]) -> Fps | None:
    """Returns the sum of the rates of ranks that step in parallel."""
    if not rates:
        return None

    def total(name: str) -> float | None:
        figures = [figure for rate in rates if (figure := getattr(rate, name)) is not None]
        return sum(figures) if len(figures) == len(rates) else None

    totals = {name: total(name) for name in ("last", "mean", "max", "settled", "env_steps", "energy_j")}
    seconds = max((rate.seconds for rate in rates if rate.seconds is not None), default=None)
    return Fps(**totals, samples=min(rate.samples for rate in rates), seconds=seconds, counted=rates[0].counted)


def combine_ranks(attempts: Sequence[Attempt]) -> Attempt:
    """Returns the first rank's attempt with the figures of all ranks.

    Sums power, energy and rates (unless rank 0 reports the group's); averages utilisation; keeps the peak memory, the
    earliest NaN alert and the newest checkpoints.
    """
    lead, *others = attempts
    if not others:
        return lead
    power_w = sum_known(attempt.power_mean_w for attempt in attempts)
    fps, rates = lead.fps, [attempt.fps for attempt in attempts if attempt.fps is not None]
    if not lead.fps_of_group:
        fps = sum_rates(rates) if len(rates) == len(attempts) else None
    elif fps is not None and fps.seconds is not None and power_w is not None:
        fps = structs.replace(fps, energy_j=power_w * fps.seconds)
    nans = (alert for attempt in attempts for alert in attempt.alerts if alert.kind == "nan")
    nan = min(nans, key=lambda alert: alert.since, default=None)
    peaks_mib = [attempt.memory_peak_mib for attempt in attempts if attempt.memory_peak_mib is not None]
    return structs.replace(
        lead,
        fps=fps,
        memory_peak_mib=max(peaks_mib, default=None),
        gpu_util_mean_pct=mean(attempt.gpu_util_mean_pct for attempt in attempts),
        power_mean_w=power_w,
        energy_j=sum_known(attempt.energy_j for attempt in attempts),
        alerts=(*(alert for alert in lead.alerts if alert.kind != "nan"), *([nan] if nan is not None else ())),
        checkpoints=merge_checkpoints(*(attempt.checkpoints for attempt in attempts)),
    )
