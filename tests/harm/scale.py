"""How long and how often: a short form for every day, the full one with `GMG_FULL=1`."""

from __future__ import annotations

import os
from typing import TypeVar

FULL = os.environ.get("GMG_FULL") == "1"

_T = TypeVar("_T", int, float)


def full(figure: _T, *, short: _T) -> _T:
    """`figure` with `GMG_FULL=1`, else `short`."""
    return figure if FULL else short
