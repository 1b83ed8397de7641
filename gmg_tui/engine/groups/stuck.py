"""When a group is stuck, and which of its ranks is at fault.

A deadlocked collective appears busy: the GPU is at 100 % and a CPU core too. The sign is that no rank makes progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gmg_tui.engine.workers.member import RankSeen
from gmg_tui.engine.workers.worker import Worker

_TIMES_USUAL = 3.0
"""So many times the usual interval between two reports of progress may pass without one, however long it is."""


class Diagnosis(NamedTuple):
    """Why a group is stuck."""

    text: str
    ranks: tuple[int, ...] = ()
    """Those at fault; empty where that is unknown."""


def diagnosis(workers: Sequence[Worker], stuck_after_s: float, since: float, now: float) -> Diagnosis | None:
    """Why the group with these ranks is stuck; None where it is not, or a rank is being started, held or ended.

    `since` is the moment from which on the ranks were watched, as `now` in monotonic seconds.
    """
    ranks = [worker.seen() for worker in workers]
    if len({seen.attempt for seen in ranks}) > 1 or not all(seen.settled for seen in ranks):
        return None
    running = {rank: seen for rank, seen in enumerate(ranks) if seen.lives}
    silent_s = _silent_s(list(running.values()), stuck_after_s, since, now) if running else None
    if silent_s is None:
        return None
    tail = f"no rank has made progress for {silent_s:.0f} s"
    names = [f"rank {rank} ({worker.slot.name})" for rank, worker in enumerate(workers)]
    cause = _stopped(running, names) or _unlike(running, names, on_gpu=workers[0].slot.gpu is not None)
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


def _stopped(running: Mapping[int, RankSeen], names: Sequence[str]) -> Diagnosis | None:
    stopped = {rank: seen.stopped for rank, seen in running.items() if seen.stopped is not None}
    texts = [
        f"{names[rank]} is stopped by {f'a signal; kill -CONT {pid}' if state == 'T' else f'a debugger (process {pid})'}"
        for rank, (pid, state) in stopped.items()
    ]
    return Diagnosis("; ".join(texts), tuple(stopped)) if stopped else None


def _unlike(running: Mapping[int, RankSeen], names: Sequence[str], *, on_gpu: bool) -> Diagnosis | None:
    """Ranks that wait in NCCL are busy, in gloo idle: who is not as most are does something else."""
    odd = [rank for rank, seen in running.items() if seen.busy != on_gpu]
    if not odd or 2 * len(odd) > len(running) or any(seen.cpu_pct is None for seen in running.values()):
        return None
    what = "without CPU time while the others wait" if on_gpu else "busy while the others wait"
    return Diagnosis(f"{', '.join(names[rank] for rank in odd)} {'is' if len(odd) == 1 else 'are'} {what}", tuple(odd))
