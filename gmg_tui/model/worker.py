"""A worker, and a group of workers, at one moment.

A group is the ranks of one job, a worker each, which start, end and restart as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from gmg_tui.model.alert import Alert
from gmg_tui.model.attempt import NO_ATTEMPT, Attempt, Fps, Progress
from gmg_tui.model.states import Moment, Phase, WorkerState

_SAVING = "saving"
"""Displayed for its state while Genesis saves its kernels at the end, whatever it has done before."""
_LOST = "lost"
"""Displayed for the state of a worker whose node is lost."""
_UNDISTURBED = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING, WorkerState.RUNNING})


class Rank(Struct, frozen=True, omit_defaults=True):
    """A worker's rank in its group."""

    id: str
    """The group's: `g0`, `g1` …"""
    rank: int
    """From 0."""
    world_size: int
    """Number of the group's ranks."""


class Worker(Struct, frozen=True, omit_defaults=True):
    """A job on a slot, at one moment."""

    slot: str
    index: int
    """0, 1, 2 … among the session's workers."""
    state: WorkerState
    state_since: Moment = 0.0
    """Unix time since which it is in this state, seconds."""
    phase: Phase = Phase.NONE
    phase_since: Moment = 0.0
    """Unix time since which it is in this phase, seconds; without meaning where the phase is `NONE`."""
    phase_usual_s: float | None = None
    """Usual duration of this phase in a start like this one, cold or warm; None if unknown."""
    newest: Attempt = NO_ATTEMPT
    """The newest attempt; before the first its number is 0, and its arguments have placeholders that are not filled in."""
    reason: str | None = None
    """One line on why it failed, or on its wait."""
    advice: str | None = None
    """One line of advice about a failure."""
    device: str | None = None
    """The device that Genesis prints."""
    backend: str | None = None
    """`cuda`, `cpu` … as Genesis prints it."""
    genesis_version: str | None = None
    alerts: tuple[Alert, ...] = ()
    """Its alerts and those of its GPU, the worst first."""
    stopping: str | None = None
    """Which signal was sent, and how long its effect is waited for."""
    restart_at: Moment | None = None
    """Unix time of the next attempt's automatic start, seconds; None if none is due."""
    cpu_pct: float | None = None
    """CPU of the whole process tree, per cent of one core."""
    memory_rss_mib: float | None = None
    """Resident memory of the whole process tree."""
    last_line: str = ""
    """The newest line of output that is not blank, without control characters."""
    log_lines: int = 0
    """Lines of output so far, over all attempts."""
    job: int | None = None
    """Number of the job in the queue, from 1; None in a plain run, and on a slot that no job has occupied yet."""
    job_name: str = ""
    group: Rank | None = None
    """None for a worker outside a group."""
    lost_since: Moment | None = None
    """Unix time since which its node is lost; None while it is not."""
    fps_in_rank_0: bool = False
    """True if rank 0 reports for the whole group, this other rank included; `fps` is then this rank's, or None."""

    @property
    def attempt(self) -> int:
        """Number of the current attempt, from 1; 0 before the first."""
        return self.newest.number

    def attempt_s(self, now: float) -> float | None:
        """Seconds from the attempt's start to its end, or to `now` (Unix time); None before the first attempt."""
        return self.newest.elapsed_s(now) if self.newest.number else None

    @property
    def pid(self) -> int | None:
        """The PID of its process; None while it has none."""
        return self.newest.pid if self.newest.ended is None and self.state.live else None

    @property
    def fps(self) -> Fps | None:
        """Environment steps per second of its attempt."""
        return self.newest.fps

    @property
    def state_word(self) -> str:
        """The state in one word: `saving` at the end, `lost` with its node."""
        if self.lost_since is not None:
            return _LOST
        if self.phase is Phase.SAVING and self.state in _UNDISTURBED:
            return _SAVING
        return self.state.value

    @property
    def signal_sent(self) -> str:
        """The signal that it was sent last, from `stopping`, whose rest counts down; empty where none was."""
        return (self.stopping or "").partition(" ")[0].rstrip(",;:")

    def alert(self, kind: str) -> Alert | None:
        """Its alert of a kind."""
        return next((alert for alert in self.alerts if alert.kind == kind), None)

    @property
    def stuck(self) -> bool:
        """True while it counts as stuck."""
        return self.alert("stuck") is not None

    @property
    def current_fps(self) -> float | None:
        """The rate now; None unless it runs, and still reports it."""
        silent = self.lost_since is not None or self.alert("silent") is not None
        if self.fps is None or self.state is not WorkerState.RUNNING or silent:
            return None
        return self.fps.settled

    @property
    def rate(self) -> float | None:
        """The last rate now while its process lives, the rate of the attempt once it has ended."""
        if self.fps is None:
            return None
        return self.fps.mean if self.state.ended else self.fps.settled


def own_rates(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """The workers whose rates add up: without those whose rate a rank reports for its group, maybe from another node."""
    whole = {worker.group.id for worker in workers if worker.group and worker.newest.fps_of_group}
    return tuple(
        worker
        for worker in workers
        if not worker.fps_in_rank_0 and (worker.newest.fps_of_group or not worker.group or worker.group.id not in whole)
    )


def total_fps(workers: tuple[Worker, ...]) -> float | None:
    """Returns the sum of the workers' rates; None if there is none.

    While any worker is live, the current rates; when all have ended, the rates of their attempts, without those that
    failed.
    """
    workers = own_rates(workers)
    if any(not worker.state.ended for worker in workers):
        counted = [rate for worker in workers if (rate := worker.current_fps) is not None]
    else:
        sound = [worker for worker in workers if worker.state is not WorkerState.FAILED]
        counted = [rate for worker in sound if (rate := worker.rate) is not None]
    return sum(counted) if counted else None


class RankGroup(Struct, frozen=True, omit_defaults=True):
    """A group at one moment."""

    id: str
    """`g0`, `g1` …"""
    slots: tuple[str, ...]
    """The slots of its ranks, by rank."""
    state: WorkerState
    """The state of its ranks together: while it starts, the state of the rank furthest behind."""
    state_since: Moment = 0.0
    """Unix time since which it is in this state, seconds."""
    job: int | None = None
    """Number of its job in the queue, from 1; None in a plain run."""
    restarts: int = 0
    """Number of restarts, automatic or by the user."""
    restart_at: Moment | None = None
    """Unix time of the next attempt's automatic start, seconds; None if none is due."""
    fps: float | None = None
    """Environment steps per second of the whole group; None unless it runs and reports it."""
    fps_of_rank_0: bool = False
    """True if rank 0 reports it, as rsl_rl multiplies its number by the world size; else it is the sum of the ranks'."""
    progress: Progress | None = None
    """That of the rank that reports most, which is rank 0 with rsl_rl."""
    waits_for: tuple[int, ...] = ()
    """Ranks that the others wait for before the group can begin."""
    alerts: tuple[Alert, ...] = ()
    """The trouble of all its ranks, with the rank at fault if it was identified."""
    reason: str | None = None
    """One line on the rank that failed first and its reason, or on the group's wait."""
    advice: str | None = None
    """One line of advice."""

    @property
    def stuck(self) -> str | None:
        """The observation for which the group counts as stuck."""
        return next((alert.text for alert in self.alerts if alert.kind == "stuck"), None)


def added_up(rates: Sequence[Fps]) -> Fps | None:
    """Returns the rate of ranks that step at the same time and report a rate each; None if none does."""
    if not rates:
        return None

    def total(value: Callable[[Fps], float | None]) -> float | None:
        figures = [figure for rate in rates if (figure := value(rate)) is not None]
        return sum(figures) if len(figures) == len(rates) else None

    return Fps(
        last=total(lambda rate: rate.last),
        mean=total(lambda rate: rate.mean),
        max=total(lambda rate: rate.max),
        samples=min(rate.samples for rate in rates),
        settled=total(lambda rate: rate.settled),
        env_steps=total(lambda rate: rate.env_steps),
        seconds=max((rate.seconds for rate in rates if rate.seconds is not None), default=None),
        counted=rates[0].counted,
        energy_j=total(lambda rate: rate.energy_j),
    )


def combined(attempts: Sequence[Attempt]) -> Attempt:
    """Returns the attempts of a job's ranks as one, which is the first rank's with the figures of all.

    Rate, power and energy are added up, utilisation is averaged, and the highest peak of memory counts.
    """
    lead, *others = attempts
    if not others:
        return lead
    power_w = _sum(attempt.power_mean_w for attempt in attempts)
    fps, rates = lead.fps, [attempt.fps for attempt in attempts if attempt.fps is not None]
    if not lead.fps_of_group:
        fps = added_up(rates) if len(rates) == len(attempts) else None
    elif fps is not None and fps.seconds is not None and power_w is not None:
        fps = structs.replace(fps, energy_j=power_w * fps.seconds)
    utilisation = [attempt.gpu_util_mean_pct for attempt in attempts if attempt.gpu_util_mean_pct is not None]
    return structs.replace(
        lead,
        fps=fps,
        memory_peak_mib=max(
            (attempt.memory_peak_mib for attempt in attempts if attempt.memory_peak_mib is not None), default=None
        ),
        gpu_util_mean_pct=sum(utilisation) / len(utilisation) if utilisation else None,
        power_mean_w=power_w,
        energy_j=_sum(attempt.energy_j for attempt in attempts),
        checkpoints=max(
            (attempt.checkpoints for attempt in attempts), key=lambda saved: saved[-1].saved if saved else 0.0
        ),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    figures = [value for value in values if value is not None]
    return sum(figures) if figures else None
