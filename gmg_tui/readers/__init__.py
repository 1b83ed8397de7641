"""Reads the output of scripts: Genesis's own lines, and beside them what a script says of itself in other words.

`make` gives the reader of an attempt by what its session says. All readers are `gmg_tui.genesis.output.reader.Reader`s
to the engine; what finds figures in other lines is a `LineReader` (`interface`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gmg_tui.genesis.output.reader import Reader
from gmg_tui.readers.patterns import Patterns
from gmg_tui.readers.reported import ReportedLines
from gmg_tui.readers.script import ScriptReader

__all__ = ["Patterns", "make"]


def make(
    patterns: Sequence[str],
    gpu_slot: bool,
    started: float | None = None,
    *,
    rank: bool = False,
    metrics: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Reader:
    """The reader of an attempt; `metrics` is given the further figures that the script reports, by name.

    `patterns` are those that `patterns.check` has taken; the other arguments are `Reader`'s.
    """
    readers = (ReportedLines(), *((Patterns(patterns),) if patterns else ()))
    return ScriptReader(readers, metrics, gpu_slot, started, rank=rank)
