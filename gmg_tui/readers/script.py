"""Genesis's reader, and beside it the figures that a script gives in lines of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gmg_tui.genesis.output.reader import Reader
from gmg_tui.model import Progress
from gmg_tui.readers.interface import Figures, LineReader

_PACE = 20
"""The time left is from the pace of so many of the last lines."""


class ScriptReader(Reader):
    """Reads Genesis's lines, and what `readers` find; a rate that they find counts instead of Genesis's own."""

    def __init__(
        self,
        readers: Sequence[LineReader],
        metrics: Callable[[dict[str, Any]], None],
        gpu_slot: bool,
        started: float | None = None,
        *,
        rank: bool = False,
    ) -> None:
        """Give further figures, by name, to `metrics`; the rest is `Reader`'s."""
        super().__init__(gpu_slot, started, rank=rank)
        self._readers = tuple(readers)
        self._metrics = metrics
        self._seen: deque[tuple[float, float]] = deque(maxlen=_PACE + 1)
        """How much was done, and when (monotonic seconds)."""
        self._total: float | None = None

    def feed(self, block: bytes, now: float) -> bool:
        """Read the next block, as `Reader.feed` does, and the script's own figures in it."""
        changed = super().feed(block, now)
        for reader in self._readers:
            for found in reader.read(block):
                changed |= found.any and self._take(found, now)
        return changed

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all readers, one line each."""
        return (*super().warnings, *(text for reader in self._readers for text in reader.warnings))

    def _take(self, found: Figures, now: float) -> bool:
        if found.metrics:
            self._metrics(dict(found.metrics))
        self.take_figures(found.fps, found.n_envs, self._progress(found, now))
        return True

    def _progress(self, found: Figures, now: float) -> Progress | None:
        self._total = found.total or self._total
        if found.done is None or self._total is None:
            return None
        if self._seen and found.done < self._seen[-1][0]:
            self._seen.clear()  # it counts from the beginning again
        self._seen.append((found.done, now))
        (first, began), (last, at) = self._seen[0], self._seen[-1]
        pace = (last - first) / (at - began) if at > began and last > first else None
        left = max(0.0, self._total - found.done)
        return Progress(min(found.done, self._total), self._total, "step", left / pace if pace else None, pace)
