"""When a group is stuck, and which of its ranks is at fault.

A deadlocked collective appears busy: the GPU is at 100 % and a CPU core too. The sign is that no rank makes progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.ddp.fault import at_fault
from gmg_tui.engine.workers.member import RankSeen
from gmg_tui.engine.workers.worker import Worker

_TIMES_USUAL = 3.0
"""So many times the usual interval between two reports of progress may pass without one, however long it is."""


class Diagnosis(NamedTuple):
    """Why a group is stuck."""

    text: str
    ranks: tuple[int, ...] = ()
    """Those at fault; empty where that is unknown."""


class _Running(NamedTuple):
    """A rank whose process lives."""

    rank: int
    slot: str
    seen: RankSeen

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.slot})"


def diagnosis(workers: Sequence[Worker], stuck_after_s: float, since: float, now: float) -> Diagnosis | None:
    """Why the group with these ranks is stuck; None where it is not, or a rank is being started, held or ended.

    `since` is the moment from which on the ranks were watched, as `now` in monotonic seconds.
    """
    seen = [worker.seen() for worker in workers]
    if len({rank.attempt for rank in seen}) > 1 or not all(rank.settled for rank in seen):
        return None
    pairs = enumerate(zip(workers, seen, strict=True))
    running = [_Running(rank, worker.slot.name, state) for rank, (worker, state) in pairs if state.lives]
    if not running:
        return None
    observed = {rank.rank: lines for rank in running if (lines := rank.seen.observations) is not None}
    if (printed := at_fault(observed)) is not None:
        return Diagnosis(printed)
    silent_s = _silent_s([rank.seen for rank in running], stuck_after_s, since, now)
    if silent_s is None:
        return None
    tail = f"no rank has made progress for {silent_s:.0f} s"
    cause = _stopped(running) or _unlike(running, on_gpu=workers[0].slot.gpu is not None)
    return Diagnosis(f"{cause.text}; {tail}", cause.ranks) if cause is not None else Diagnosis(tail)


def _silent_s(ranks: Sequence[RankSeen], stuck_after_s: float, since: float, now: float) -> float | None:
    """How long no rank has made progress, seconds, where that is too long; None where it is not."""
    last = max((seen.progress_at for seen in ranks if seen.progress_at is not None), default=None)
    if last is not None and not any(_builds(seen, last) for seen in ranks):
        if not all(seen.cpu_since is not None and seen.cpu_since >= last for seen in ranks):
            return None
        silent_s = now - max(last, since)
        most_s = max(stuck_after_s, _TIMES_USUAL * max(seen.progress_every_s for seen in ranks))
    else:  # ranks that wait for each other at the start, or work for long before the first report
        silent_s = min(seen.idle_s for seen in ranks)
        most_s = stuck_after_s
    return silent_s if silent_s >= most_s else None


def _builds(seen: RankSeen, last: float) -> bool:
    """Whether a rank builds another scene since its last report of progress, or where it reports none the group's."""
    return not seen.in_running and (seen.progress_at is not None or seen.phase_started > last)


def _stopped(running: Sequence[_Running]) -> Diagnosis | None:
    stopped = [(rank, *proc) for rank in running if (proc := rank.seen.stopped) is not None]
    if not stopped:
        return None
    texts = [
        f"{rank} is stopped by a signal; kill -CONT {pid}"
        if state == "T"
        else f"{rank}: process {pid} is stopped by a debugger"
        for rank, pid, state in stopped
    ]
    return Diagnosis("; ".join(texts), tuple(rank.rank for rank, *_ in stopped))


def _unlike(running: Sequence[_Running], *, on_gpu: bool) -> Diagnosis | None:
    """Ranks that wait in NCCL are busy, in gloo idle: who is not as most are does something else."""
    if any(rank.seen.cpu_pct is None for rank in running):
        return None
    odd = [rank for rank in running if rank.seen.busy != on_gpu]
    if not odd or 2 * len(odd) > len(running):
        return None
    what = "without CPU time while the others wait" if on_gpu else "busy while the others wait"
    names = ", ".join(map(str, odd))
    return Diagnosis(f"{names} {'is' if len(odd) == 1 else 'are'} {what}", tuple(rank.rank for rank in odd))
