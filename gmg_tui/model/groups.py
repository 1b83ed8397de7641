"""A group: the ranks of one job, a worker each, which start, end and restart as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from gmg_tui.model.states import WorkerState
from gmg_tui.model.worker import Fps, Progress


class DdpSpec(Struct, frozen=True, omit_defaults=True):
    """How the workers of a run form groups."""

    size: int | None = None
    """Ranks in a group; None for one group over all slots."""
    virtual_local_rank: bool = False
    """Whether each rank sees its own GPU alone, and is local rank 0; otherwise it sees all of its group's."""
    flight_recorder: bool = False
    """Whether torch's flight recorder runs, and its dumps are kept in the session's folder."""


class RateOf(StrEnum):
    """What a group's rate is made of."""

    SUM = "sum"
    """Each rank reports its own, and these are added up: Genesis' own lines."""
    RANK_0 = "rank 0"
    """Rank 0 reports the group's: rsl_rl multiplies its number by the world size."""


class RankGroup(Struct, frozen=True, omit_defaults=True):
    """A group at one moment."""

    id: str
    """`g0`, `g1` …"""
    slots: tuple[str, ...]
    """Where its ranks run, by rank."""
    state: WorkerState
    """That of its ranks together: the one that is furthest behind while it starts."""
    state_s: float = 0.0
    """Seconds in this state."""
    job: int | None = None
    """Number of its job in the queue, from 1; None in a plain run."""
    restarts: int = 0
    """How often it has been restarted automatically or by the user."""
    restart_in_s: float | None = None
    fps: float | None = None
    """Environment steps per second of the whole group; None unless it runs, and says so."""
    rate_of: RateOf = RateOf.SUM
    progress: Progress | None = None
    """That of the rank that says most, which is rank 0 with rsl_rl."""
    slowest: int | None = None
    """The rank with the lowest rate, where each reports its own and they differ by more than a few per cent."""
    behind_pct: float | None = None
    """How far `slowest` is below the median of the ranks, per cent (positive)."""
    waits_for: tuple[int, ...] = ()
    """Ranks that the others wait for before the group can begin."""
    stuck: str | None = None
    """Why the group counts as stuck, with the rank at fault where that is known, in one line."""
    reason: str | None = None
    """Which rank failed first, and of what, in one line; or what the group waits for."""
    advice: str | None = None
    """What helps, in one line."""


def added_up(rates: Sequence[Fps]) -> Fps | None:
    """The rate of ranks that step at the same time, each of which reports its own; None where none does."""
    if not rates:
        return None
    settled = [rate.settled for rate in rates if rate.settled is not None]
    spread = [rate.spread for rate in rates if rate.spread is not None]
    return Fps(
        last=sum(rate.last for rate in rates),
        mean=sum(rate.mean for rate in rates),
        max=sum(rate.max for rate in rates),
        samples=min(rate.samples for rate in rates),
        settled=sum(settled) if len(settled) == len(rates) else None,
        spread=math.hypot(*spread) if len(spread) == len(rates) else None,
    )
