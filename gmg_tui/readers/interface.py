"""The interface of what finds a script's figures in its lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

_NUMBER = re.compile(r"[+-]?(?:\d[\d,_]{0,40}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}


@dataclass(frozen=True)
class Figures:
    """What one line says; None where it does not."""

    fps: float | None = None
    """Environment steps per second, over all environments."""
    n_envs: int | None = None
    done: float | None = None
    total: float | None = None
    """How many steps, or whatever the script counts, there are."""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether it says anything."""
        return bool(self.metrics) or any(one is not None for one in (self.fps, self.n_envs, self.done, self.total))


class LineReader(Protocol):
    """Finds figures in whole lines of output."""

    def read(self, block: bytes) -> Iterator[Figures]:
        """The figures in a block of whole lines, in their order; never raises for what a script may print."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of it, a line each."""
        ...


def figures(said: Mapping[str, float], metrics: Mapping[str, float]) -> Figures:
    """The figures of numbers by name; those that cannot be (negative, infinite, no environments) are left out."""

    def known(name: str) -> float | None:
        value = said.get(name)
        return value if value is not None and math.isfinite(value) and 0 <= value < 1e18 else None

    n_envs = known("n_envs")
    return Figures(
        fps=known("fps"),
        n_envs=int(n_envs) if n_envs is not None and n_envs >= 1 else None,
        done=known("done"),
        total=known("total") or None,
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
    )


def number(text: str) -> float | None:
    """A number as scripts write it: `1,234.5`, `1_000`, `1e6`, `5.7M`, `12k`; None for anything else."""
    text = text.strip()
    scale = _SCALES.get(text[-1:], 1.0)
    if scale != 1.0:
        text = text[:-1].rstrip()
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return float(text.replace(",", "").replace("_", "")) * scale
    except ValueError:
        return None
