"""What an engine needs to know of a worker's attempt, wherever that runs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gmg_tui.model.worker import Attempt, Fps


class AttemptReport(Struct, frozen=True, omit_defaults=True):
    """A worker's newest attempt, at one moment. Means are over the running phase."""

    record: Attempt
    gpu_index: int | None = None
    """NVML index of the slot's GPU; None on a CPU slot."""
    fps: Fps | None = None
    n_envs: int | None = None
    """As the script prints it, or its arguments name it; None otherwise."""
    printed_envs: int | None = None
    """As the script prints it; None otherwise."""
    fps_of_group: bool = False
    """Whether `fps` is the whole group's, which rank 0 reports."""
    had_progress: bool = False
    timed_out: bool = False
    elapsed_s: float = 0.0
    """Since its start, or from its start to its end."""
    gpu_util_mean_pct: float | None = None
    memory_peak_mib: float | None = None
    power_mean_w: float | None = None
    energy_j: float | None = None
    result: dict[str, Any] = {}
    """What the script has reported by `gmg:result` lines."""
    results: int = 0
    """How many such lines there were."""
