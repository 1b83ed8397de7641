"""The row model: tables are sequences of columns over rows of one kind, declared once for all outputs.

    WORKERS = (
        Column("slot", lambda worker: worker.slot, priority=100, align_left=True),
        Column("fps_mean", lambda worker: worker.fps and worker.fps.mean, *FPS, priority=90),
        Column("memory_peak_mib", lambda worker: worker.newest.memory_peak_mib, *VRAM),
    )

`as_csv` writes values under `name`; `tables.render_lines`, `tables.render_html` and the screen write `text(row)` under `heading`.
"""

import csv
import io
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Generic, TypeVar

from gmg_tui.model import GpuSample, units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import one_line, safe

T = TypeVar("T")
Cell = bool | int | float | str | None
"""None stands for an unknown value."""


class Outputs(Flag):
    """The outputs that have a column."""

    FILES = auto()
    """CSV."""
    TABLES = auto()
    """Tables on standard output and pages."""
    SCREEN = auto()
    EVERYWHERE = FILES | TABLES | SCREEN


def format_value(value: Any) -> str:
    """Formats a value by default: `12,345.6`, `true`, or the text itself."""
    if isinstance(value, bool):
        return str(value).lower()
    return units.number(value) if isinstance(value, int | float) else str(value)


def format_exact(value: Any) -> str:
    """Formats a value as the user gave it: like `format_value`, but with all digits of a float."""
    return repr(value) if isinstance(value, float) else format_value(value)


Figure = tuple[str, str, Callable[[Any], str]]
"""Title, unit and format of a figure, the same in all tables."""
FPS: Figure = ("FPS", "", units.fps)
FPS_PER_WATT: Figure = ("FPS/W", "", units.short)
ENVS: Figure = ("envs", "", format_value)
VRAM: Figure = ("VRAM", "GiB", units.gib)
GPU: Figure = ("GPU", "%", units.whole)
POWER: Figure = ("W", "", units.whole)
TEMPERATURE: Figure = ("°C", "", units.whole)
CPU: Figure = ("CPU", "%", units.whole)
RAM: Figure = ("RAM", "GiB", units.gib)
TIME: Figure = ("time", "", units.duration)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table with rows `T`."""

    name: str
    """The unique name in CSV and JSON, with the unit: `memory_peak_mib`."""
    value: Callable[[T], Cell]
    """Returns a row's value; None if unknown."""
    title: str = ""
    """The name for people; `name` if empty."""
    unit: str = ""
    """The unit in the heading, which cells omit: `GiB`."""
    write: Callable[[Any], str] = format_value
    """Formats a value, never None, for people."""
    priority: int = 50
    """Narrow tables drop columns of low priority first."""
    outputs: Outputs = Outputs.EVERYWHERE
    align_left: bool = False
    """True to align left, as for text."""
    max_width: int = 40
    """Maximum width of a cell."""

    @property
    def heading(self) -> str:
        """Title and unit, safe on terminals, as scripts choose names."""
        return one_line(f"{self.title or self.name} {self.unit}".rstrip())

    def text(self, row: T) -> str:
        """Returns a row's cell for people, safe on terminals."""
        value = self.value(row)
        if isinstance(value, str):
            return one_line(self.write(value))
        return units.NOT_KNOWN if value is None else self.write(value)


def gpu_columns(sample_of: Callable[[T], GpuSample | None]) -> tuple[Column[T], ...]:
    """Returns the columns of a GPU's figures for rows with a sample."""

    def figure(name: str) -> Callable[[T], float | None]:
        return lambda row: getattr(sample_of(row), name, None)

    def memory(row: T) -> str | None:
        sample = sample_of(row)
        return None if sample is None else format_with_limit(sample.memory_used_mib, sample.memory_total_mib, units.gib)

    return (
        Column("gpu_util_pct", figure("gpu_util_pct"), *GPU, 90),
        Column("memory", memory, *VRAM[:2], priority=80),
        Column("power_w", figure("power_w"), *POWER, 70),
        Column("temperature_c", figure("temperature_c"), *TEMPERATURE, 60),
    )


def format_with_limit(used: float | None, limit: float | None, write: Callable[[float | None], str]) -> str | None:
    """Formats a value and its limit, such as `30.2/80.0`; None if both are unknown."""
    return None if used is None and limit is None else f"{write(used)}/{write(limit)}"


def as_cell(value: Any) -> Cell:
    """Returns a value as a cell; None if nested or null."""
    return value if isinstance(value, bool | int | float | str) else None


def columns_with_values(columns: Sequence[Column[T]], rows: Sequence[T]) -> list[Column[T]]:
    """Returns the columns of tables with a value in any row."""
    shown = [column for column in columns if Outputs.TABLES in column.outputs]
    return [column for column in shown if any(column.value(row) is not None for row in rows)]


def find(columns: Sequence[Column[T]], name: str) -> Column[T]:
    """Returns the column with this name, else this heading in any case. Raises `GmgError`, which lists the columns."""
    named = [column for column in columns if column.name == name]
    word = name.casefold()
    named += [column for column in columns if word in map(str.casefold, (column.name, column.heading, column.title))]
    if named:
        return named[0]
    names = ", ".join(column.name for column in columns)
    raise GmgError(one_line(f"no column {name}; the columns are: {names}"))


def sort_rows(
    column: Column[T], rows: Iterable[T], *, descending: bool, behind: Callable[[T], bool] = lambda row: False
) -> list[T]:
    """Sorts rows by a column; rows with a value that are `behind` follow the others.

    In either order texts follow numbers, then come NaN and infinities, then unknown values.
    """
    valued: list[tuple[Any, T]] = [(column.value(row), row) for row in rows]
    numbers = [(value, row) for value, row in valued if is_known(value) and not isinstance(value, str)]
    texts = [(value, row) for value, row in valued if isinstance(value, str)]
    for group in (numbers, texts):
        group.sort(key=lambda pair: pair[0], reverse=descending)
    others = sorted((pair for pair in valued if not is_known(pair[0])), key=lambda pair: pair[0] is None)
    return [*sorted((row for _, row in (*numbers, *texts)), key=behind), *(row for _, row in others)]


def is_known(value: Cell) -> bool:
    """True if the value is a text or a finite number."""
    return math.isfinite(value) if isinstance(value, float) else value is not None


def as_csv(columns: Sequence[Column[T]], rows: Iterable[T], *, raw: bool = False) -> Iterator[bytes]:
    """Yields the lines of a CSV file with a header. Numbers have all digits, unknown values are empty, booleans as in JSON.

    Without `raw`, texts are safe on terminals, and formulas of spreadsheets get an apostrophe.
    """
    written = [column for column in columns if Outputs.FILES in column.outputs]
    yield _line((column.name for column in written), raw=raw)
    for row in rows:
        yield _line((as_cell(column.value(row)) for column in written), raw=raw)


def _line(cells: Iterable[Cell], *, raw: bool) -> bytes:
    text = io.StringIO()
    # csv quotes a line end only if its own contains it.
    csv.writer(text, lineterminator="\r\n").writerow(
        str(each).lower() if isinstance(each, bool) else each if raw else _as_text(each) for each in cells
    )
    return (text.getvalue()[:-2] + "\n").encode(errors="replace")


def _as_text(value: Cell) -> Cell:
    if not isinstance(value, str):
        return value
    value = safe(value)
    try:
        float(value)
    except ValueError:
        as_typed = unicodedata.normalize("NFKC", value)  # some spreadsheets also evaluate full-width signs
        return f"'{value}" if as_typed.lstrip().startswith(("=", "+", "-", "@")) else value
    return value
