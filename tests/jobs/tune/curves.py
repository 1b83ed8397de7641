"""Measured curves, as worlds to search in."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.jobs.tune.simulated import H100_MIB, World

Rate = Callable[[int], float]
ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS"


def franka(value: int) -> float:
    """Genesis' Franka on an RTX 4090 Laptop: flat at 0.6 ms up to some 2,000, then linear."""
    return value / max(0.6e-3, 0.476e-3 + 5.94e-8 * value)


MJLAB = ((256, 9.0e3), (512, 15e3), (1024, 25e3), (2048, 33.6e3), (4096, 36.8e3), (8192, 30.1e3), (16384, 19.9e3))


def mjlab(value: int) -> float:
    """On a GB10: not monotone. Measured from 2,048 on; below made up."""
    if value <= MJLAB[0][0]:
        return MJLAB[0][1] * value / MJLAB[0][0]
    for (low, below), (high, above) in itertools.pairwise(MJLAB):
        if value <= high:
            part = math.log(value / low) / math.log(high / low)
            return float(below ** (1 - part) * above**part)
    return MJLAB[-1][1] * MJLAB[-1][0] / value


def stepped(at: int) -> Rate:
    """Steps that take 20 % longer from some value on, as where Genesis switches kernels (SMs x 128)."""
    return lambda value: value / ((0.5e-3 + 5e-8 * value) * (1.2 if value > at else 1))


class Case(NamedTuple):
    """A curve with its memory and edge."""

    rate: Rate
    memory_mib: Rate | None = None
    total_mib: float = H100_MIB
    edge: int | None = None
    """The smallest value that does not run."""
    low: int = 64
    highest: int = 1 << 19
    """The largest value to consider for the true best, if nothing else limits it."""

    def world(self, **others: Any) -> World:
        return World(self.rate, memory_mib=self.memory_mib, total_mib=self.total_mib, fails=self.fails, **others)

    def fails(self, value: int) -> str | None:
        return ILLEGAL if self.edge is not None and value >= self.edge else None

    def allowed(self, value: int) -> bool:
        return not self.fails(value) and (self.memory_mib is None or self.memory_mib(value) <= 0.9 * self.total_mib)

    def grid(self) -> list[int]:
        """Values 0.5 % apart, up to the last one that is allowed."""
        steps = int(math.log(self.highest / self.low) / math.log(1.005))
        return [value for step in range(steps + 1) if self.allowed(value := int(self.low * 1.005**step))]

    def best(self) -> float:
        """The highest true rate."""
        return max(self.rate(value) for value in self.grid())

    def knee(self, fastest: int, share: float) -> int:
        """Returns the smallest value with at least this share of the fastest true rate."""
        enough = share * self.rate(fastest)
        return next(value for value in [*self.grid(), fastest] if self.rate(value) >= enough)


def grows(per_value_mib: float) -> Rate:
    """Memory that grows with the value."""
    return lambda value: 450 + per_value_mib * value


CURVES = {
    "saturating": Case(lambda value: value / (0.5e-3 + 5e-8 * value), grows(1.2)),
    "plateau": Case(lambda value: 500.0 * min(value, 8000), grows(1.2)),
    "step": Case(stepped(30_000), grows(1.9)),
    "cliff": Case(franka, grows(0.79), edge=4096, low=512),
    "falling": Case(mjlab, grows(0.3)),
}
"""The curves to measure with noise."""
CASES = CURVES | {
    "Franka with memory's end": Case(franka, grows(0.79), total_mib=16_376, edge=18_300),
    "a step near the top": Case(stepped(16_896), grows(0.9)),
    "a step below": Case(stepped(3_000), grows(1.9)),
    "memory in proportion": Case(lambda value: value * 1000.0, grows(8)),
    "flat memory": Case(franka, grows(0)),
    "the CPU": Case(lambda value: value / (2e-3 + 1e-5 * value), highest=1 << 14),
    "falling from the start": Case(lambda value: 1000 / (1 + 0.001 * value), grows(1)),
}
