"""What workers wrote about their own time (`fake_worker.py --stamp`): number and moment of each line, once written."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path


def _read(path: Path) -> list[tuple[int, float]]:
    whole = path.read_text().rpartition("\n")[0]
    return [(int(number), float(moment)) for number, moment in (line.split() for line in whole.splitlines())]


def last_number(path: Path) -> int:
    """How many lines the worker has written."""
    return _read(path)[-1][0]


def largest_gap_s(path: Path) -> float:
    """The longest time between two lines, seconds: for how long the worker was held up at worst."""
    return max(after - before for (_, before), (_, after) in pairwise(_read(path)))
