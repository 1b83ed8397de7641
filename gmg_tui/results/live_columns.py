"""The columns of tables of live workers, GPUs and tried arguments."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from gmg_tui.jobs.argument_placeholders import join_args
from gmg_tui.model import GpuSample, Slot, Tried, Worker, units
from gmg_tui.model.secrets import mask
from gmg_tui.results import column
from gmg_tui.results.column import CPU, ENVS, FPS, GPU, POWER, RAM, TEMPERATURE, VRAM, Column

T = TypeVar("T")


class Live(Protocol):
    """A slot with its newest worker and its GPU's newest sample, which is None on a CPU slot."""

    @property
    def slot(self) -> Slot: ...  # noqa: D102
    @property
    def worker(self) -> Worker: ...  # noqa: D102
    @property
    def sample(self) -> GpuSample | None: ...  # noqa: D102


def gpu_columns(sample_of: Callable[[T], GpuSample | None]) -> tuple[Column[T], ...]:
    """Returns the columns of a GPU's figures for rows with a sample."""

    def figure(name: str) -> Callable[[T], float | None]:
        return lambda row: getattr(sample_of(row), name, None)

    def memory(row: T) -> str | None:
        sample = sample_of(row)
        return None if sample is None else of_limit(sample.memory_used_mib, sample.memory_total_mib, units.gib)

    return (
        Column("gpu_util_pct", figure("gpu_util_pct"), *GPU, 90),
        Column("memory", memory, *VRAM[:2], priority=80),
        Column("power_w", figure("power_w"), *POWER, 70),
        Column("temperature_c", figure("temperature_c"), *TEMPERATURE, 60),
    )


def of_limit(used: float | None, limit: float | None, write: Callable[[float | None], str]) -> str | None:
    """Formats a value and its limit, such as `30.2/80.0`; None if both are unknown."""
    return None if used is None and limit is None else f"{write(used)}/{write(limit)}"


def _rank(row: Live) -> str | None:
    rank = row.worker.group
    return None if rank is None else f"{rank.id}·{rank.rank}/{rank.world_size}"


def _job(row: Live) -> str | None:
    return None if row.worker.job is None else f"#{row.worker.job} {row.worker.job_name}"


_C = Column[Live]
WORKERS: dict[str, Column[Live]] = {
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


class Row(NamedTuple):
    """A row of the table of tried arguments."""

    tried: Tried
    mark: str = ""
    """`fastest`; in a tuning also `recommended`; else empty."""

    @property
    def key(self) -> str:
        """The full arguments, as masked ones may be equal in several rows."""
        return repr((self.tried.args, sorted(self.tried.env.items())))


def columns(rows: Iterable[Tried]) -> list[Column[Row]]:
    """Returns the columns for these arguments, with one for each metric."""
    metrics = dict.fromkeys(name for tried in rows for name in tried.metrics)
    return [
        Column("state", _state, left=True),
        Column("n_envs", lambda row: row.tried.n_envs, *column.ENVS),
        Column("rate", lambda row: row.tried.rate, *column.FPS),
        *(
            Column[Row](f"metric_{name}", partial(lambda name, row: row.tried.metrics.get(name), name), name)
            for name in metrics
        ),
        Column("memory_peak_mib", lambda row: row.tried.memory_peak_mib, *column.VRAM),
        Column("fps_per_watt", lambda row: row.tried.fps_per_watt, *column.FPS_PER_WATT),
        Column("gpu_util_pct", lambda row: row.tried.gpu_util_pct, *column.GPU),
        Column("power_w", lambda row: row.tried.power_w, *column.POWER),
        Column("slots", _slots, left=True),
        Column("arguments", lambda row: arguments(row.tried), left=True, limit=200),
        Column("elapsed_s", lambda row: row.tried.elapsed_s, *column.TIME),
        Column("attempts", lambda row: row.tried.attempts),
        Column("started", lambda row: row.tried.started, "last start", write=units.time_of_day),
    ]


def arguments(tried: Tried) -> str:
    """Returns the variables and arguments in shell syntax."""
    variables = [join_args((f"{name}={value}",)) for name, value in mask(tried.env).items()]
    return " ".join([*variables, join_args(tried.args) or "no arguments"])


def _state(row: Row) -> str:
    """Returns `failed`, or the mark and `running`, if any applies."""
    if row.tried.failed == row.tried.attempts:
        return "failed"
    return " ".join(filter(None, (row.mark, "running" if row.tried.running else "")))


def _slots(row: Row) -> str:
    slots = row.tried.slots
    return slots[0] if len(slots) == 1 else f"{len(slots)} slots"
