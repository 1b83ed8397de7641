"""A GPU's means, peaks and energy during one attempt."""

from __future__ import annotations

from gmg_tui.mean import Mean
from gmg_tui.model import GpuSample


class Meter:
    """Accumulates the samples of one attempt's GPU.

    Utilisation and power are means over the running phase; memory's peak and energy are over the whole attempt. Power
    and energy are shared out evenly among the workers on the GPU.
    """

    def __init__(self) -> None:
        self.gpu_util_pct = Mean()
        self.power_w = Mean()
        self._counter_j: float | None = None
        self._last: tuple[float, float] | None = None
        self._own_peak_mib: float | None = None
        self._gpu_peak_mib: float | None = None
        self._shared = False
        self.energy_j: float | None = None
        """From the GPU's energy counter; without one, power integrated over time."""

    @property
    def memory_peak_mib(self) -> float | None:
        """Peak of the attempt's own processes; where the driver does not name them, of a GPU that it has for itself."""
        return self._own_peak_mib if self._own_peak_mib is not None or self._shared else self._gpu_peak_mib

    def add(
        self, sample: GpuSample, *, running: bool, now: float, sharers: int = 1, own_mib: float | None = None
    ) -> None:
        """Take a sample.

        Args:
            sample: The GPU's.
            running: Whether the worker is in its running phase.
            now: Monotonic seconds.
            sharers: How many workers are live on the GPU, this one included.
            own_mib: Memory of the worker's own processes; None where the driver does not report it.
        """
        power_w = sample.power_w / sharers if sample.power_w is not None else None
        if running:
            self.gpu_util_pct.add(sample.gpu_util_pct)
            self.power_w.add(power_w)
        self._shared = self._shared or sharers > 1
        self._own_peak_mib = _greater(self._own_peak_mib, own_mib)
        self._gpu_peak_mib = _greater(self._gpu_peak_mib, sample.memory_used_mib)
        if sample.energy_j is not None:
            before_j = self._counter_j if self._counter_j is not None else sample.energy_j
            # A counter that has gone back is that of a driver that was reloaded.
            self.energy_j = (self.energy_j or 0.0) + max(0.0, sample.energy_j - before_j) / sharers
            self._counter_j = sample.energy_j
        elif power_w is not None:
            if self._last is not None:
                then, before_w = self._last
                self.energy_j = (self.energy_j or 0.0) + (now - then) * (before_w + power_w) / 2
            self._last = (now, power_w)


def _greater(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
