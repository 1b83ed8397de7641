"""What a card did while one attempt ran: means, peaks and energy."""

from __future__ import annotations

from gmg_tui.model import GpuReading


class Mean:
    """The mean of what was added so far."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float | None) -> None:
        """Add `value`; None is left out."""
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        """The mean; None of nothing."""
        return self._sum / self._count if self._count else None


class Meter:
    """Adds up the readings of one attempt's card.

    Utilisation and power are means over the running phase; memory's peak and energy are over the whole attempt.
    """

    def __init__(self) -> None:
        self._util = Mean()
        self._power = Mean()
        self._energy_start_j: float | None = None
        self._last: tuple[float, float] | None = None
        self.memory_peak_mib: float | None = None
        self.energy_j: float | None = None
        """By the card's energy counter; where it has none, power over time."""

    @property
    def gpu_util_mean_pct(self) -> float | None:
        """Mean utilisation while running; None before that, or where the card does not say."""
        return self._util.value

    @property
    def power_mean_w(self) -> float | None:
        """Mean power while running; None before that, or where the card does not say."""
        return self._power.value

    def add(self, reading: GpuReading, *, running: bool, now: float) -> None:
        """Take a reading.

        Args:
            reading: What the card said.
            running: Whether the worker is in its running phase.
            now: Monotonic seconds.
        """
        if running:
            self._util.add(reading.gpu_util_pct)
            self._power.add(reading.power_w)
        if reading.memory_used_mib is not None:
            self.memory_peak_mib = max(self.memory_peak_mib or 0.0, reading.memory_used_mib)
        if reading.energy_j is not None:
            if self._energy_start_j is None or reading.energy_j < self._energy_start_j:
                self._energy_start_j = reading.energy_j  # the first one, or the driver was loaded anew
            self.energy_j = reading.energy_j - self._energy_start_j
        elif reading.power_w is not None:
            if self._last is not None:
                then, power_w = self._last
                self.energy_j = (self.energy_j or 0.0) + (now - then) * (power_w + reading.power_w) / 2
            self._last = (now, reading.power_w)
