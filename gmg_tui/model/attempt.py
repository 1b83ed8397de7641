"""An attempt: one process of a worker, and its results so far."""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, Self

import msgspec
from msgspec import Struct, structs

from gmg_tui.model.alert import Alert
from gmg_tui.model.curves import is_training_loss
from gmg_tui.model.speed import Verdict
from gmg_tui.model.states import Moment, WorkerState
from gmg_tui.model.text import encode_lossy

CountSource = Literal["probe", "printed"]


class Fps(Struct, frozen=True, omit_defaults=True):
    """Environment steps per second of one attempt, over all environments."""

    last: float | None
    """The last printed rate."""
    mean: float | None
    """The rate of the attempt: environment steps per wall second between the first and last count, stalls included."""
    max: float | None
    """The highest rate, printed or counted over some seconds; at least `mean` and `settled`."""
    samples: int
    """Number of printed rates."""
    settled: float | None = None
    """The current rate: environment steps per wall second over the last 10 s."""
    env_steps: float | None = None
    """Environment steps between the first and last count."""
    seconds: float | None = None
    """Wall time between the first and last count."""
    counted: CountSource | None = None
    """Source of the counts: the probe, or the script's lines."""
    energy_j: float | None = None
    """The GPU's energy over `seconds`."""

    def __post_init__(self) -> None:
        if self.max is not None:  # one rate may be printed, another counted
            structs.force_setattr(self, "max", max(self.max, self.mean or 0.0, self.settled or 0.0))

    @property
    def env_steps_per_j(self) -> float | None:
        """Environment steps per joule, which is FPS per watt."""
        return self.env_steps / self.energy_j if self.env_steps is not None and self.energy_j else None


class Progress(Struct, frozen=True, omit_defaults=True):
    """Progress of a run, if the script reports it."""

    done: float
    total: float
    unit: str
    """`iteration`, `step`, `it` …"""
    eta_s: float | None = None
    """Seconds to the end, estimated from the attempt's pace or by the script."""
    pace_per_s: float | None = None
    """Units per second, as reported by the script."""

    @property
    def is_complete(self) -> bool:
        """True if all work is done."""
        return 0 < self.total <= self.done


_NUMBERS = re.compile(r"\d+")


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A file whose saving call has returned."""

    path: str
    """Absolute path when it was saved."""
    saved: Moment
    size_bytes: int | None = None
    """None if the script might still have been writing it."""
    inode: int = 0
    mtime_ns: int = 0
    """The file's time of modification, Unix nanoseconds; 0 if unknown. It stays when the file is renamed."""
    env_steps: int = 0
    """Environment steps of its process when it was saved."""
    progress: str | None = None
    """The last reported progress when it was saved, such as `iteration 1,200`."""
    is_export: bool = False
    """True for a file that scripts usually cannot resume from, such as a compiled policy."""
    has_moved: bool = False
    """True if a later file, which is not among the known ones, has its path."""
    node: str = ""
    """Name of the node that reported it to the session's engine; empty for the engine's own machine."""
    reported: Moment = 0.0
    """Unix time of a node's first report; 0 for the engine's own machine."""

    @property
    def series(self) -> str:
        """The path without its numbers: equal for files that a script saves one after another, as of its iterations."""
        return _NUMBERS.sub("#", self.path)


MAX_JOB_CHECKPOINTS, _MAX_NODE_CHECKPOINTS, _MIN_SERIES_CHECKPOINTS = 100, 20, 5
"""Newest checkpoints to keep of a job, and of those from one node; newest of a series that others must not crowd out."""
MAX_CHECKPOINTS, _MAX_BROKEN_CHECKPOINTS = 20, 5
"""Newest checkpoints to keep of an attempt, and of those saved since a metric is NaN, which must not crowd out earlier ones."""


def merge_checkpoints(*lists: Iterable[Checkpoint], limit: int = MAX_JOB_CHECKPOINTS) -> tuple[Checkpoint, ...]:
    """Merges lists of checkpoints by time. Returns the newest of each file and series, oldest first.

    Files are told apart by path, node and inode: scripts often save under one name, and rename the file. Keeps the order
    within each list: the system clock may have been set back in between.
    """
    by_file: dict[tuple[str, str, int], Checkpoint] = {}
    for checkpoint in heapq.merge(*lists, key=lambda checkpoint: checkpoint.saved):
        file = checkpoint.path, checkpoint.node, checkpoint.inode
        by_file.pop(file, None)  # moves it to the end
        by_file[file] = checkpoint
    files, counts = list(by_file.values()), Counter[tuple[str, ...]]()
    first, others = list[int](), list[int]()
    for index in reversed(range(len(files))):
        node, series = (files[index].node,), (files[index].series, files[index].node)
        counts.update([node, series])
        if not files[index].node or counts[node] <= _MAX_NODE_CHECKPOINTS:
            (first if counts[series] <= _MIN_SERIES_CHECKPOINTS else others).append(index)
    return tuple(files[index] for index in sorted([*first, *others][:limit]))


def add_checkpoints(
    known: Sequence[Checkpoint], saved: Iterable[Checkpoint], broken_since: float = math.inf
) -> tuple[Checkpoint, ...]:
    """Adds files saved since the `known` ones, than which none counts as older: the clock may have been set back.

    Keeps no more than `MAX_CHECKPOINTS`, unless more were known, and few of those saved after `broken_since`, the Unix time
    at which a metric became NaN.
    """
    latest = max((checkpoint.saved for checkpoint in known), default=0.0)
    later = (structs.replace(checkpoint, saved=max(checkpoint.saved, latest)) for checkpoint in saved)
    files = [*known, *later]
    sound = [checkpoint for checkpoint in files if checkpoint.saved <= broken_since]
    return merge_checkpoints(
        sound, files[len(sound) :][-_MAX_BROKEN_CHECKPOINTS:], limit=max(MAX_CHECKPOINTS, len(known))
    )


_MAX_BRIEF_BYTES, _MAX_BRIEF_CHARS, _MAX_BRIEF_METRICS = 8 << 10, 200, 32
"""Maximum size of an attempt that is kept with all details; limits on the texts and metrics of larger ones."""


_EARLY_FAILURE_S = 600.0
"""Seconds after which an attempt counts as having worked, even without progress."""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One process of a worker, and its results so far. Means are over its running phase."""

    number: int
    """From 1."""
    args: tuple[str, ...] = ()
    """The script's arguments, placeholders filled in."""
    pid: int | None = None
    started: Moment = 0.0
    ended: Moment | None = None
    exit_code: int | None = None
    """As asyncio's `returncode`: negative for the number of a signal."""
    state: WorkerState = WorkerState.STARTING
    reason: str | None = None
    given: tuple[str, ...] = ()
    """`args` with only a job's values filled in, not the values that differ between workers."""
    env: dict[str, str] = {}
    """The worker's extra environment, filled in like `given`."""
    gpu_index: int | None = None
    """NVML index of the slot's GPU; None on a CPU slot."""
    fps: Fps | None = None
    fps_of_group: bool = False
    """True if rank 0 reports `fps` for the whole group."""
    n_envs: int | None = None
    """From the script's output, else from its arguments."""
    printed_envs: int | None = None
    """From the script's output only."""
    progress: Progress | None = None
    metrics: dict[str, float | None] = {}
    """The newest value of each number the script reports, such as `reward`; None for NaN, which JSON lacks."""
    had_progress: bool = False
    """True if it has shown progress, or reported metrics or saved files for a while."""
    comparable: bool = False
    """True if it ran long enough to compare its rate."""
    timed_out: bool = False
    gpu_util_mean_pct: float | None = None
    memory_peak_mib: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    output_bytes: int | None = None
    start_s: float | None = None
    """Seconds from its start to its running phase."""
    memory_rss_peak_mib: float | None = None
    """Peak resident memory of its process tree, sampled every few seconds."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The worker's newest checkpoints, including earlier attempts', oldest first."""
    continued_from: str | None = None
    """Path of the checkpoint filled into `--resume-args`."""
    simulator: dict[str, str] = {}
    """Modes that change the result of a step: those that Genesis prints, such as `performance_mode`, and torch's
    `deterministic`."""
    alerts: tuple[Alert, ...] = ()
    """Alerts at its end; empty until then."""
    verdict: Verdict | None = None
    """The verdict on its speed, once it has ended."""

    @property
    def numbers(self) -> dict[str, float]:
        """The metrics, with NaN for None."""
        return {name: math.nan if value is None else value for name, value in self.metrics.items()}

    def metric(self, name: str) -> float | None:
        """Returns the metric called `name`, NaN for None; None if there is none."""
        value = self.metrics.get(name)
        return math.nan if value is None and name in self.metrics else value

    @property
    def rate(self) -> float | None:
        """The rate of the attempt."""
        return None if self.fps is None else self.fps.mean

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest of the checkpoints."""
        return self.checkpoints[-1] if self.checkpoints else None

    def brief(self) -> Self:
        """Returns the attempt to keep in memory after others: with its newest checkpoint only, and few details if it is large.

        A node that is not trusted may report any number of large ones.
        """
        kept = structs.replace(self, checkpoints=self.checkpoints[-1:])
        if len(encode_lossy(msgspec.msgpack.encode, kept)) <= _MAX_BRIEF_BYTES:
            return kept
        return structs.replace(
            kept,
            args=self.given,
            reason=self.reason and self.reason[:_MAX_BRIEF_CHARS],
            metrics={
                name: self.metrics[name]
                for name in islice(sorted(self.metrics, key=is_training_loss, reverse=True), _MAX_BRIEF_METRICS)
                if len(name) <= _MAX_BRIEF_CHARS
            },
            simulator={},
            checkpoints=(),
            # Decides, with the losses, from which checkpoint another attempt may continue.
            alerts=tuple(
                structs.replace(alert, text=alert.text[:_MAX_BRIEF_CHARS], advice="")
                for alert in self.alerts
                if alert.kind == "nan"
            )[:1],
            verdict=None,
        )

    def elapsed_s(self, now: float) -> float:
        """Returns the seconds from its start to its end, or to `now` (Unix time)."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)

    def has_worked(self, now: float) -> bool:
        """True if it got further by `now` (Unix time) than a failed start or a broken GPU would allow."""
        return self.had_progress or self.elapsed_s(now) >= _EARLY_FAILURE_S


NO_ATTEMPT = Attempt(0)
"""The newest attempt of a worker that has not started one."""


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the known values, NaN and infinities included; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None  # `fmean` raises for inf with -inf


def sum_known(values: Iterable[float | None]) -> float | None:
    """Returns the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Settings(Struct, frozen=True, omit_defaults=True):
    """A worker's arguments and environment before placeholders are filled in."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """As given by `--env`, or in the edit dialog."""
