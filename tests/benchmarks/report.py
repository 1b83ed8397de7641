"""Words and tables of the benchmark: tables on standard output, what is going on on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def say(text: str) -> None:
    """Say what is being done."""
    print(text, file=sys.stderr, flush=True)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first column to the left and the others to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]
