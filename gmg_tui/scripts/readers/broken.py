"""Metrics that have become NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from gmg_tui.model import Progress

_MAX_METRICS = 128


class Broken(NamedTuple):
    """A metric that is NaN or infinite."""

    value: float
    finite: float | None
    """Its last finite value; None if it never had one."""
    at: str
    """The progress at which it broke, such as `iteration 212`; empty if unknown."""


class BrokenMetrics:
    """The metrics of one attempt that are not finite now.

    Attributes:
        now: By name, the first that broke first.
    """

    def __init__(self) -> None:
        self.now: dict[str, Broken] = {}
        self._finite: dict[str, float] = {}

    def add(self, metrics: Mapping[str, float], progress: Progress | None) -> None:
        """Add metrics that were reported at this progress."""
        for name, value in metrics.items():
            if math.isfinite(value):
                self.now.pop(name, None)
                if name in self._finite or len(self._finite) < _MAX_METRICS:
                    self._finite[name] = value
            elif name not in self.now and len(self.now) < _MAX_METRICS:
                at = f"{progress.unit} {progress.done:,.0f}" if progress is not None else ""
                self.now[name] = Broken(value, self._finite.get(name), at)
