"""Memory over the value as a straight line, and the greatest value that it allows."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.model.tuning import MemoryLine
from gmg_tui.tune.slots import TuneSlot
from gmg_tui.tune.values import rounded_down

_FLAT = 0.02
"""A rise between the first and the last value of less than this share is no line, but chance."""


def line(memory_mib: Mapping[int, float]) -> MemoryLine | None:
    """The line of least squares through memory by value, raised to the greatest value's memory where that lies above it.

    None for fewer than two values.
    """
    if len(memory_mib) < 2:
        return None
    count = len(memory_mib)
    mean_value = sum(memory_mib) / count
    mean_mib = sum(memory_mib.values()) / count
    spread = sum((value - mean_value) ** 2 for value in memory_mib)
    together = sum((value - mean_value) * (mib - mean_mib) for value, mib in memory_mib.items())
    slope = max(0.0, together / spread)
    top = max(memory_mib)
    if memory_mib[top] - memory_mib[min(memory_mib)] < _FLAT * memory_mib[top]:
        slope = 0.0
    base = max(mean_mib - slope * mean_value, memory_mib[top] - slope * top)
    return MemoryLine(base_mib=base, per_unit_mib=slope)


def most(known: MemoryLine | None, slot: TuneSlot, headroom_pct: float, free_mib: float | None = None) -> int | None:
    """The greatest value that leaves the headroom on this slot; None where memory says nothing.

    `free_mib` is what others leave of the slot's memory now.
    """
    if known is None or slot.memory_total_mib is None or known.per_unit_mib <= 0:
        return None
    free = slot.memory_total_mib if free_mib is None else min(free_mib, slot.memory_total_mib)
    usable = free - slot.memory_total_mib * headroom_pct / 100
    return max(0, rounded_down((usable - known.base_mib) / known.per_unit_mib))
