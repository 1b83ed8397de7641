"""A slot's state and recent history; the order of slots, and which are in trouble.

This module knows no Textual.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from statistics import median
from typing import Any, Final, NamedTuple

from gmg_tui.model import GpuSample, Series, Severity, Slot, Worker, WorkerState
from gmg_tui.model.alert import urgent
from gmg_tui.model.tried import arguments_of
from gmg_tui.results.column import CPU, ENVS, FPS, RAM, VRAM, Column, gpu_columns

KEPT_S = 900
"""Length of a history, seconds."""


class History:
    """Metrics of one worker, one value per second, newest last.

    Attributes:
        end: Unix time of the newest point, whole seconds; 0 before the first.
        fps: Environment steps per second.
    """

    def __init__(self) -> None:
        self.end = 0
        self.fps: deque[float | None] = deque(maxlen=KEPT_S)

    def seed(self, series: Series) -> None:
        """Starts with the engine's history from before this client connected."""
        known = max((number for number, fps in enumerate(series.fps, 1) if fps is not None), default=0)
        for fps in series.fps[:known]:
            self.fps.extend([fps] * max(1, round(series.step_s)))
        self.end = int(series.end - (len(series.fps) - known) * series.step_s)

    def add(self, time: float, worker: Worker) -> None:
        """Adds a snapshot's values at the Unix time `time`; the last of each second counts."""
        second, before = int(time), self.end
        self.end = second
        if second == before and self.fps:
            self.fps[-1] = worker.current_fps
            return
        if self.fps and second > before + 1:  # not if the clock was set back
            self.fps.extend([None] * min(second - before - 1, KEPT_S))
        self.fps.append(worker.current_fps)


def buckets(points: deque[float | None], end: int, width: int, seconds: int) -> list[float | None]:
    """Returns the means of the last points over spans of `seconds`: at most `width`, oldest first.

        Spans are aligned to the clock, not to the newest point, so a graph moves one cell every `seconds` and stays the same
    in between, which keeps it cheap on a slow line. `points` has one value per second, the newest at the Unix time
    `end` in whole seconds.
    """
    newest = end % seconds + 1  # points in the last, unfinished span
    latest = list(islice(reversed(points), max(0, newest + (width - 1) * seconds)))
    starts = reversed(range(newest - seconds, len(latest), seconds)) if latest else ()
    means: list[float | None] = []
    for at in starts:
        known = [value for value in latest[max(0, at) : at + seconds] if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


class SlotView(NamedTuple):
    """A slot's state at the time of a snapshot."""

    slot: Slot
    worker: Worker
    sample: GpuSample | None
    """Its GPU's sample; None on a CPU slot, and before the first one."""
    history: History
    time: float
    """The snapshot's Unix time, seconds."""
    chosen: bool = False
    """True if it is selected."""
    marked: bool = False
    """True if it is marked: keys act on all marked slots."""
    median_fps: float | None = None
    """The median from `median_rates`."""

    def since_s(self, time: float) -> float:
        """Returns the seconds from `time` to the snapshot; negative if in the future."""
        return self.time - time


_TROUBLES: Final = 4


def severity(entry: SlotView) -> int:
    """Returns the urgency of a worker, lower for more urgent; below `_TROUBLES` it is in trouble."""
    worker = entry.worker
    if worker.state is WorkerState.FAILED:
        return 0
    if worker.stuck or worker.lost_since is not None:
        return 1
    alerts = urgent(worker.alerts)
    if alerts:
        return 2 if alerts[0].severity is Severity.ERROR else 3
    return _TROUBLES + list(WorkerState).index(worker.state)


def in_trouble(entry: SlotView) -> bool:
    """Returns True if a worker has failed, or has an alert."""
    return severity(entry) < _TROUBLES


def median_rates(slots: Mapping[str, Slot], workers: Iterable[Worker]) -> dict[str, float]:
    """Returns the median rate, for each of three or more workers with the same GPU model and arguments."""
    groups: dict[object, dict[str, float]] = {}
    for worker in workers:
        if worker.current_fps is not None and (slot := slots.get(worker.slot)) is not None:
            alike = slot.gpu.name if slot.gpu else None, arguments_of(worker.newest), worker.newest.fps_of_group
            groups.setdefault(alike, {})[worker.slot] = worker.current_fps
    return {name: median(group.values()) for group in groups.values() if len(group) >= 3 for name in group}


def _rank(row: SlotView) -> str | None:
    rank = row.worker.group
    return None if rank is None else f"{rank.id}·{rank.rank}/{rank.world_size}"


def _job(row: SlotView) -> str | None:
    return None if row.worker.job is None else f"#{row.worker.job} {row.worker.job_name}"


_C = Column[SlotView]
WORKERS: dict[str, Column[SlotView]] = {
    column.name: column
    for column in (
        _C("slot", lambda row: row.slot.name, priority=100, left=True),
        _C("rank", _rank, priority=60, left=True),
        _C("job", _job, priority=70, left=True),
        _C("state", lambda row: row.worker.state_word, priority=95, left=True),
        _C("fps", lambda row: row.worker.rate, *FPS, 92),
        _C("n_envs", lambda row: row.worker.newest.n_envs, *ENVS, 30),
        *gpu_columns(lambda row: row.sample),
        _C("cpu_pct", lambda row: row.worker.cpu_pct, *CPU, 55),
        _C("memory_rss_mib", lambda row: row.worker.memory_rss_mib, *RAM, 50),
    )
}
"""The columns of workers, by name."""

SLOT_ORDER: Final = "slot"
"""The order by slot number; other orders are named after columns."""
ORDERS: Final[Mapping[str, Column[Any]]] = WORKERS | {
    "state": Column[Any]("state", lambda each: -severity(each)),
    "memory": Column[Any]("memory", lambda each: each.sample and each.sample.memory_used_mib, *VRAM),
}
"""The columns to sort workers by: the most urgent or greatest first."""
