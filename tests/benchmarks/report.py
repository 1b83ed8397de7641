"""The table of the benchmark on standard output, progress on standard error."""

import sys
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    what: str
    requirement: str
    measured: str
    nvitop: str = "–"
    mprocs: str = "–"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def markdown(rows: Sequence[Row]) -> str:
    head = Row("what", "requirement", "gmg-tui", "nvitop", "mprocs")
    lines: list[Sequence[str]] = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]
