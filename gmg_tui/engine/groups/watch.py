"""Tells when a group is stuck, and which of its ranks is at fault.

A deadlocked collective looks busy: the GPU is at 100 % and a CPU core too. What tells is that no rank makes progress.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gmg_tui.ddp.fault import at_fault
from gmg_tui.engine.attempts.rank_seen import RankSeen
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.groups.group_run import GroupRun
from gmg_tui.engine.groups.view import group_state
from gmg_tui.engine.workers.slot_worker import SlotWorker
from gmg_tui.model import RunSpec

_log = logging.getLogger(__name__)

_TIMES_USUAL = 3.0
"""So many times the usual interval between two reports of progress may pass without one, however long it is."""
_BLIND_S = 10.0
"""After a longer time without a look, as when the engine was stopped, what came before it says nothing."""
_LEAST_BEHIND_S = 1.0
_LOOK_FOR_DUMPS_S = 3.0


class _Running(NamedTuple):
    """A rank whose process lives."""

    worker: SlotWorker
    seen: RankSeen
    rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.worker.slot.name})"


class _Found(NamedTuple):
    """Why the group is stuck."""

    text: str
    ranks: tuple[int, ...] = ()
    """Those at fault; empty where that is not known."""


class GroupWatch:
    """Looks at the ranks of a group each second; `workers` are in their order."""

    def __init__(self, group: GroupRun, workers: Sequence[SlotWorker], spec: RunSpec) -> None:
        self._group = group
        self._workers = tuple(workers)
        self._spec = spec
        self._looked_at: float | None = None
        self._since = 0.0
        """Since when it has looked without a break."""
        self._dumps: asyncio.Task[None] | None = None
        self._dumps_due = 0.0

    def look(self, now: float) -> None:
        """Look at the group at `now`, monotonic seconds, and replace it if it is stuck and that is wanted."""
        if self._looked_at is None or now - self._looked_at > _BLIND_S:
            self._since = now
        self._looked_at = now
        self._carry()
        self._group.enter(group_state(self._workers), max(worker.state_since for worker in self._workers))
        self._look_for_dumps(now)
        running = self._running()
        found = self._find(running, now) if running else None
        self._tell(found)
        if found is not None and self._spec.restart_stuck and self._group.policy.replace_stuck():
            self._group.replace(found.text)

    def _carry(self) -> None:
        """A rank that reports for all steps with the others, who print nothing."""
        if any(worker.reports_for_all for worker in self._workers):
            for worker in self._workers:
                worker.run_with_group()

    def _look_for_dumps(self, now: float) -> None:
        """Look for what the flight recorder has written, beside the loop: the disk may have to be waited for."""
        traces = self._group.traces
        if traces and now >= self._dumps_due and (self._dumps is None or self._dumps.done()):
            self._dumps_due = now + _LOOK_FOR_DUMPS_S
            self._dumps = asyncio.create_task(self._name_dumps(traces))

    async def _name_dumps(self, traces: str) -> None:
        ranks = range(len(self._workers))
        try:
            found = await in_daemon_thread(lambda: [rank for rank in ranks if Path(f"{traces}{rank}").is_file()])
        except OSError as error:
            _log.warning("%s: the flight recorder's dumps cannot be looked for: %s", self._group.id, error.strerror)
            return
        path = Path(traces)
        read = shlex.join(["torchfrtrace", "--prefix", path.name, str(path.parent)])
        for rank in ranks:
            told = f"the flight recorder has dumped {path.name}{rank}; read it by {read}"
            self._workers[rank].dump = told if rank in found else None

    def _running(self) -> list[_Running]:
        """The ranks whose processes live; none while any is being started, held or ended."""
        if self._group.called_off:
            return []
        ranks = [worker.seen() for worker in self._workers]
        if len({seen.attempt for seen in ranks}) > 1 or not all(seen.settled for seen in ranks):
            return []
        pairs = zip(self._workers, ranks, strict=True)
        return [_Running(worker, seen, rank) for rank, (worker, seen) in enumerate(pairs) if seen.lives]

    def _find(self, running: Sequence[_Running], now: float) -> _Found | None:
        said = at_fault({one.rank: told for one in running if (told := one.seen.observations) is not None})
        if said is not None:
            return _Found(said)
        silent_s = self._silent_s(running, now)
        if silent_s is None:
            return None
        found = _seen(running)
        tail = f"no rank has made progress for {silent_s:.0f} s"
        return _Found(f"{found.text}; {tail}", found.ranks) if found is not None else _Found(tail)

    def _silent_s(self, running: Sequence[_Running], now: float) -> float | None:
        """How long no rank has made progress, seconds, where that is too long; None where it is not."""
        ranks = [one.seen for one in running]
        last = max((seen.progress_at for seen in ranks if seen.progress_at is not None), default=None)
        if last is not None and not any(_builds(seen, last) for seen in ranks):
            if not all(seen.cpu_since is not None and seen.cpu_since >= last for seen in ranks):
                return None
            silent_s = now - max(last, self._since)
            most_s = max(self._spec.stuck_after_s, _TIMES_USUAL * max(seen.progress_every_s for seen in ranks))
        else:  # ranks that wait for each other at the start, or work for long before the first report
            silent_s = min(seen.idle_s for seen in ranks)
            most_s = self._spec.stuck_after_s
        return silent_s if silent_s >= most_s else None

    def _tell(self, found: _Found | None) -> None:
        was_stuck, self._group.stuck = self._group.stuck, found.text if found is not None else None
        if (was_stuck is None) != (found is None):
            _log.info("%s: %s", self._group.id, f"stuck: {found.text}" if found is not None else "no longer stuck")
        for rank, worker in enumerate(self._workers):
            mine = found is not None and (not found.ranks or rank in found.ranks)
            worker.stick(found.text if found is not None and mine else None)


def _builds(seen: RankSeen, last: float) -> bool:
    """Whether a rank builds another scene since its last report of progress, or where it reports none the group's."""
    return not seen.in_running and (seen.progress_at is not None or seen.phase_started > last)


def _seen(running: Sequence[_Running]) -> _Found | None:
    """The rank at fault by what is seen of the processes; None where they are all alike."""
    return _stopped(running) or _unlike(running) or _behind(running)


def _stopped(running: Sequence[_Running]) -> _Found | None:
    stopped = [(one, *proc) for one in running if (proc := one.seen.stopped) is not None]
    if not stopped:
        return None
    texts = [
        f"{one} is stopped by a signal; kill -CONT {pid}"
        if state == "T"
        else f"{one}: process {pid} is stopped by a debugger"
        for one, pid, state in stopped
    ]
    return _Found("; ".join(texts), tuple(one.rank for one, *_ in stopped))


def _unlike(running: Sequence[_Running]) -> _Found | None:
    """Ranks that wait in NCCL are busy, in gloo idle: who is not as most are does something else."""
    if any(one.seen.cpu_pct is None for one in running):
        return None
    on_gpu = any(one.worker.slot.gpu is not None for one in running)
    odd = [one for one in running if one.seen.busy != on_gpu]
    if not odd or 2 * len(odd) > len(running):
        return None
    what = "without CPU time while the others wait" if on_gpu else "busy while the others wait"
    return _Found(f"{', '.join(map(str, odd))} {'is' if len(odd) == 1 else 'are'} {what}", _ranks(odd))


def _behind(running: Sequence[_Running]) -> _Found | None:
    """The rank that has printed last well before the others, where each reports for itself."""
    if len(running) < 2 or any(one.seen.progress_at is None for one in running):
        return None
    first, second, *_ = sorted(running, key=lambda one: one.seen.output_at)
    behind_s = second.seen.output_at - first.seen.output_at
    usual_s = max(one.seen.progress_every_s for one in running)
    if behind_s < max(_LEAST_BEHIND_S, usual_s):
        return None
    return _Found(f"{first} fell silent {behind_s:.0f} s before the others", (first.rank,))


def _ranks(running: Sequence[_Running]) -> tuple[int, ...]:
    return tuple(one.rank for one in running)
