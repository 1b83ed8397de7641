"""A group: the ranks of one job, a worker each, which start, end and restart as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from gmg_tui.model.attempt import Attempt, Fps, Progress
from gmg_tui.model.states import WorkerState


class DdpSpec(Struct, frozen=True, omit_defaults=True):
    """How the workers of a run form groups."""

    size: int | None = None
    """Ranks in a group; None for one group over all slots."""
    virtual_local_rank: bool = False
    """Whether each rank sees only its GPU, and is local rank 0; otherwise it sees all of its group's."""


class RankGroup(Struct, frozen=True, omit_defaults=True):
    """A group at one moment."""

    id: str
    """`g0`, `g1` …"""
    slots: tuple[str, ...]
    """Where its ranks run, by rank."""
    state: WorkerState
    """That of its ranks together: while it starts, that of the rank furthest behind."""
    state_since: float = 0.0
    """Unix time since which it is in this state, seconds."""
    job: int | None = None
    """Number of its job in the queue, from 1; None in a plain run."""
    restarts: int = 0
    """How often it has been restarted automatically or by the user."""
    restart_at: float | None = None
    """Unix time at which its next attempt starts by itself, seconds; None where none does."""
    fps: float | None = None
    """Environment steps per second of the whole group; None unless it runs and reports it."""
    fps_of_rank_0: bool = False
    """Whether rank 0 reports it, as rsl_rl multiplies its number by the world size; else it is the sum of the ranks'."""
    progress: Progress | None = None
    """That of the rank that reports most, which is rank 0 with rsl_rl."""
    waits_for: tuple[int, ...] = ()
    """Ranks that the others wait for before the group can begin."""
    stuck: str | None = None
    """Why the group counts as stuck, with the rank at fault if it was identified, in one line."""
    reason: str | None = None
    """Which rank failed first, and of what, in one line; or what the group waits for."""
    advice: str | None = None
    """What to do, in one line."""


def added_up(rates: Sequence[Fps]) -> Fps | None:
    """The rate of ranks that step at the same time, each of which reports its rate; None where none does."""
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


def together(attempts: Sequence[Attempt]) -> Attempt:
    """The attempts of a job's ranks as one, which is the first rank's with the figures of all.

    Rate, power and energy are added up, utilisation is their mean, and memory's peak that of the rank that took most.
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
    )


def _sum(values: Iterable[float | None]) -> float | None:
    figures = [value for value in values if value is not None]
    return sum(figures) if figures else None
