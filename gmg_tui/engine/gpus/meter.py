"""A GPU's means, peaks and energy during one attempt."""

from __future__ import annotations

from gmg_tui.model import GpuSample


class _Mean:
    """The mean of the values added so far."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float | None) -> None:
        """Add `value`; None is ignored."""
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        """The mean; None without values."""
        return self._sum / self._count if self._count else None


class Meter:
    """Accumulates the samples of one attempt's GPU.

    Utilisation and power are means over the running phase; memory's peak and energy are over the whole attempt. Power
    and energy are shared out evenly among the workers on the GPU.
    """

    def __init__(self) -> None:
        self.gpu_util_pct = _Mean()
        self.power_w = _Mean()
        self._counter_j: float | None = None
        self._last: tuple[float, float] | None = None
        self._own_peak_mib: float | None = None
        self._gpu_peak_mib: float | None = None
        self._shared = False
        self.energy_j: float | None = None
        """From the GPU's energy counter; without one, power integrated over time."""
        self._before: tuple[float, float] | None = None
        """When the sample before was taken, monotonic seconds, and `energy_j` then."""
        self._counted: tuple[tuple[float, float], tuple[float, float]] | None = None
        """The same at the first and the last count of environment steps, as far as samples reach."""

    def memory_peak_mib(self, before_mib: float = 0.0) -> float | None:
        """Returns the peak of the attempt's own processes, MiB.

        Where the driver has not named them, it is what a GPU that the attempt has for itself uses beyond `before_mib`, its
        memory in use before the attempt.
        """
        if self._own_peak_mib is not None or self._shared or self._gpu_peak_mib is None:
            return self._own_peak_mib
        return max(0.0, self._gpu_peak_mib - before_mib)

    @property
    def counted_power_w(self) -> float | None:
        """The mean power between the first and the last count of environment steps; None where it is unknown."""
        if self._counted is None:
            return None
        (began, from_j), (ended, to_j) = self._counted
        return (to_j - from_j) / (ended - began) if ended > began else None

    def add(
        self,
        sample: GpuSample,
        *,
        running: bool,
        now: float,
        sharers: int = 1,
        own_mib: float | None = None,
        counted: tuple[float, float] | None = None,
    ) -> None:
        """Take a sample.

        Args:
            sample: The GPU's.
            running: Whether the worker is in its running phase.
            now: Monotonic seconds.
            sharers: How many workers are live on the GPU, this one included.
            own_mib: Memory of the worker's own processes; None where the driver does not report it.
            counted: When environment steps were first and last counted, monotonic seconds.
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
        if self.energy_j is not None:
            if counted is not None:
                self._count(*counted, (now, self.energy_j))
            self._before = now, self.energy_j

    def _count(self, first: float, last: float, now: tuple[float, float]) -> None:
        """Take when steps were first and last counted; `now` is the moment of the sample, and the energy until then."""
        then = self._before or now

        def at(moment: float) -> tuple[float, float]:
            """That moment, if it is between the two samples, and the energy until then."""
            moment = min(max(moment, then[0]), now[0])
            share = (moment - then[0]) / (now[0] - then[0]) if now[0] > then[0] else 1.0
            return moment, then[1] + share * (now[1] - then[1])

        began = self._counted[0] if self._counted is not None else at(first)
        if self._counted is None or last > then[0]:
            self._counted = began, at(last)


def _greater(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)
