"""The row model: a table is a sequence of columns over rows of one kind, declared once for every output.

    WORKERS = (
        Column("slot", lambda worker: worker.slot, priority=100, left=True),
        Column("fps_mean", lambda worker: worker.fps and worker.fps.mean, "FPS", write=units.fps, priority=90),
        Column("memory_peak_mib", lambda worker: worker.newest.memory_peak_mib, "VRAM", "GiB", write=units.gib),
    )

`as_csv` writes values under `name`; `tables.terminal`, `tables.html` and the screen's tables write `text(row)` under
`heading`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gmg_tui.model import units
from gmg_tui.model.text import clean

T = TypeVar("T")
Cell = bool | int | float | str | None
"""None stands for an unknown value."""


def plain(value: Any) -> str:
    """A value without another format: `12,345.6`, `true`, a text safe to display."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table whose rows are `T`."""

    name: str
    """Its name in CSV and JSON, with the unit: `memory_peak_mib`. Unique in a table."""
    value: Callable[[T], Cell]
    """The value of a row; None if unknown."""
    title: str = ""
    """Its name for people; `name` if empty."""
    unit: str = ""
    """Follows the title in the heading, where cells are written without it: `GiB`."""
    write: Callable[[Any], str] = plain
    """Formats a value, never None, for people."""
    priority: int = 50
    """Where there is no room, the column with the lowest goes first; the one with the highest stays. One with 0 is only
    in CSV and JSON."""
    left: bool = False
    """Whether it is text, aligned left."""
    limit: int = 40
    """The greatest width of a cell."""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title or self.name} {self.unit}".rstrip()

    def text(self, row: T) -> str:
        """A row's cell for people, safe on any terminal."""
        value = self.value(row)
        return units.NOT_KNOWN if value is None else clean(self.write(value).encode(errors="replace"))


def cell(value: Any) -> Cell:
    """`value` as a cell: None if nested, null or not finite.

    Numbers have three decimals, or below 1 six digits: a learning rate of 0.0001 is no 0.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return round(value, 3) if abs(value) >= 1 else float(f"{value:.6g}")
    return value if isinstance(value, bool | int | str) else None


def with_values(columns: Sequence[Column[T]], rows: Sequence[T]) -> list[Column[T]]:
    """The columns for people that have a value in any row."""
    return [column for column in columns if column.priority and any(column.value(row) is not None for row in rows)]


def as_csv(columns: Sequence[Column[T]], rows: Iterable[T]) -> Iterator[bytes]:
    """The lines of a CSV file with all columns, the header first; unknown values are empty, booleans as in JSON."""
    yield _line(column.name for column in columns)
    for row in rows:
        yield _line(cell(column.value(row)) for column in columns)


def _line(cells: Iterable[Cell]) -> bytes:
    text = io.StringIO()
    # csv quotes only the line ends that it writes itself, so it is made to write both.
    csv.writer(text, lineterminator="\r\n").writerow(
        str(each).lower() if isinstance(each, bool) else each for each in cells
    )
    return (text.getvalue()[:-2] + "\n").encode(errors="replace")
