"""The columns of tables of live workers and GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from gmg_tui.model import GpuSample, Slot, Worker, units
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
