"""The columns of the table of tried arguments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from gmg_tui.jobs.argument_placeholders import join_args
from gmg_tui.model import Tried, units
from gmg_tui.model.secrets import mask
from gmg_tui.results import column
from gmg_tui.results.column import Column


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
        *(Column[Row](f"metric_{name}", partial(_metric, name), name) for name in metrics),
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


def _metric(name: str, row: Row) -> float | None:
    return row.tried.metrics.get(name)


def _slots(row: Row) -> str:
    slots = row.tried.slots
    return slots[0] if len(slots) == 1 else f"{len(slots)} slots"
