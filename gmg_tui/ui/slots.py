"""A slot's state and history, the orders of slots, and the urgency of their problems. Does not import Textual."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final, NamedTuple

from gmg_tui.model import GpuSample, Series, Severity, Slot, Worker, WorkerState
from gmg_tui.model.alert import urgent
from gmg_tui.model.tried import arguments_of
from gmg_tui.results.column import CPU, ENVS, FPS, RAM, VRAM, Column, gpu_columns

MAX_HISTORY_S = 900
"""Maximum seconds in a history."""


class History:
    """The recent rates on a slot: `fps` maps Unix seconds to environment steps per second, newest last."""

    def __init__(self) -> None:
        self.fps: dict[int, float | None] = {}

    @property
    def end(self) -> int:
        """Unix time of the newest rate, in whole seconds; 0 if there is none."""
        return next(reversed(self.fps), 0)

    def seed(self, series: Series) -> None:
        """Adds the engine's history from before this client connected."""
        step_s, end = max(1, round(series.step_s)), int(series.end)
        for age, fps in enumerate(reversed(series.fps)):
            if fps is not None:
                self.fps.update(dict.fromkeys(range(end - age * step_s, end - (age + 1) * step_s, -1), fps))
        self.fps = dict(sorted(self.fps.items())[-MAX_HISTORY_S:])

    def add(self, time: float, worker: Worker) -> None:
        """Adds the worker's rate at the Unix time `time`, replacing any other rate for that second."""
        self.fps.pop(int(time), None)  # the clock may be set back
        self.fps[int(time)] = worker.current_fps
        if len(self.fps) > MAX_HISTORY_S:
            del self.fps[next(iter(self.fps))]

    def mean(self, start: int, seconds: int) -> float | None:
        """Returns the mean rate over `seconds` seconds from `start`; None if unknown."""
        known = [fps for second in range(start, start + seconds) if (fps := self.fps.get(second)) is not None]
        return sum(known) / len(known) if known else None


class SlotView(NamedTuple):
    """A slot's state at the time of a snapshot."""

    slot: Slot
    worker: Worker
    sample: GpuSample | None
    """The GPU's newest sample; None on a CPU slot, and before the first sample."""
    history: History
    time: float
    """The snapshot's Unix time in seconds."""
    selected: bool = False
    marked: bool = False
    median_fps: float | None = None
    """The median rate of comparable workers; None if there are fewer than three."""

    def since_s(self, time: float) -> float:
        """Returns the seconds from `time` to the snapshot; negative if `time` is later."""
        return self.time - time


_HEALTHY_RANK: Final = 4


def urgency_rank(entry: SlotView) -> int:
    """Returns the worker's rank by urgency, 0 for the most urgent; healthy workers have ranks from `_HEALTHY_RANK`."""
    worker = entry.worker
    if worker.state is WorkerState.FAILED:
        return 0
    if worker.stuck or worker.lost_since is not None:
        return 1
    alerts = urgent(worker.alerts)
    if alerts:
        return 2 if alerts[0].severity is Severity.ERROR else 3
    return _HEALTHY_RANK + list(WorkerState).index(worker.state)


def in_trouble(entry: SlotView) -> bool:
    """Returns True if the worker has failed, is stuck or lost, or has an urgent alert."""
    return urgency_rank(entry) < _HEALTHY_RANK


def median_rates(slots: Mapping[str, Slot], workers: Iterable[Worker]) -> dict[str, float]:
    """Returns, by slot, the median rate of all workers with the same GPU model and arguments, if three or more."""
    groups: dict[object, dict[str, float]] = {}
    for worker in workers:
        if worker.current_fps is not None and (slot := slots.get(worker.slot)) is not None:
            key = slot.gpu.name if slot.gpu else None, arguments_of(worker.newest), worker.newest.fps_of_group
            groups.setdefault(key, {})[worker.slot] = worker.current_fps
    return {name: median(group.values()) for group in groups.values() if len(group) >= 3 for name in group}


def job_of(worker: Worker) -> str:
    """Returns the job's number and name: `#12 wide`; empty without a job."""
    return "" if worker.job is None else f"#{worker.job} {worker.job_name}"


_Column = Column[SlotView]
WORKER_COLUMNS: dict[str, Column[SlotView]] = {
    column.name: column
    for column in (
        _Column("slot", lambda row: row.slot.name, align_left=True),
        _Column("rank", lambda row: row.worker.group.name if row.worker.group is not None else None, align_left=True),
        _Column("job", lambda row: job_of(row.worker) or None, align_left=True),
        _Column("state", lambda row: row.worker.state_word, align_left=True),
        _Column("fps", lambda row: row.worker.rate, *FPS),
        _Column("n_envs", lambda row: row.worker.newest.n_envs, *ENVS),
        *gpu_columns(lambda row: row.sample),
        _Column("cpu_pct", lambda row: row.worker.cpu_pct, *CPU),
        _Column("memory_rss_mib", lambda row: row.worker.memory_rss_mib, *RAM),
    )
}

SLOT_ORDER: Final = "slot"
"""The order by slot number; other orders are named after columns."""
ORDERS: Final[Mapping[str, Column[Any]]] = WORKER_COLUMNS | {
    "state": Column[Any]("state", lambda entry: -urgency_rank(entry)),
    "memory": Column[Any]("memory", lambda entry: entry.sample and entry.sample.memory_used_mib, *VRAM),
}
"""The columns to sort workers by: texts in ascending order, others with the most urgent or greatest first."""
