"""Graphs of one row: a history on a fixed scale, and a bar."""

from __future__ import annotations

from collections.abc import Sequence

from gmg_tui.ui.drawing.appearance import Signs

SPAN_S = 2
"""Seconds per cell of a history."""


def highest(values: Sequence[float | None]) -> float:
    """The greatest of the values that are drawn, for the top of their graph: what is out of sight flattens nothing."""
    return max((value for value in values if value is not None), default=0.0)


def history(values: Sequence[float | None], top: float, width: int, signs: Signs) -> str:
    """A graph of one row, as in `tall_history`."""
    return tall_history(values, top, width, 1, signs)[0]


def tall_history(values: Sequence[float | None], top: float, width: int, height: int, signs: Signs) -> list[str]:
    """A graph of `values` from 0 to `top`, the newest at the right end: `height` rows of exactly `width` cells.

    Unknown values are empty; anything above 0 has at least the lowest level, so that little differs from nothing.
    """
    full = len(signs.levels) - 1
    filled = (value if value is not None and top > 0 else 0.0 for value in values[-width:] if width > 0)
    heights = [max(1, round(min(1.0, value / top) * full * height)) if value > 0 else 0 for value in filled]
    rows = []
    for below in range((height - 1) * full, -1, -full):
        cells = "".join(signs.levels[max(0, min(full, each - below))] for each in heights)
        rows.append(cells.rjust(max(0, width), signs.levels[0]))
    return rows


def bar(fraction: float, width: int, signs: Signs) -> tuple[str, str]:
    """A bar of exactly `width` cells, of which `fraction` is full, at least 0 and at most 1: its full and empty part."""
    parts = len(signs.partial)
    eighths = round(min(1.0, max(0.0, fraction)) * width * parts)
    whole, rest = divmod(eighths, parts)
    full = signs.bar[0] * whole + (signs.partial[rest] if rest else "")
    return full, signs.bar[1] * (width - len(full))
