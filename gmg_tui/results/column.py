"""Table columns, declared once for all outputs: CSV, terminal, HTML and the screen.

    WORKERS = (
        Column("slot", lambda worker: worker.slot, priority=100, align_left=True),
        Column("fps_mean", lambda worker: worker.fps and worker.fps.mean, *FPS, priority=90),
        Column("memory_peak_mib", lambda worker: worker.newest.memory_peak_mib, *VRAM),
    )

CSV files contain the values, under `name`; the other outputs contain what `text` returns, under `heading`.
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

_MAX_TITLE_CHARS = 200
T = TypeVar("T")
Cell = bool | int | float | str | None
"""A value in a table; None if unknown."""


class Outputs(Flag):
    """The outputs that a column appears in."""

    FILES = auto()
    """CSV."""
    TABLES = auto()
    """Tables on standard output and pages."""
    SCREEN = auto()
    EVERYWHERE = FILES | TABLES | SCREEN


def format_value(value: Any) -> str:
    """Formats a number (`12,345.6`) or boolean (`true`); returns a text unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    return units.number(value) if isinstance(value, int | float) else str(value)


def format_exact(value: Any) -> str:
    """Formats a value like `format_value`, but a float with all its digits, as the user gave it."""
    return repr(value) if isinstance(value, float) else format_value(value)


Figure = tuple[str, str, Callable[[Any], str]]
"""Title, unit and formatter of a figure, the same in all tables."""
FPS: Figure = ("FPS", "", units.fps)
FPS_PER_WATT: Figure = ("FPS/W", "", units.short)
ENVS: Figure = ("envs", "", format_value)
VRAM: Figure = ("VRAM", "GiB", units.gib)
GPU: Figure = ("GPU", "%", units.rounded)
POWER: Figure = ("W", "", units.rounded)
TEMPERATURE: Figure = ("°C", "", units.rounded)
CPU: Figure = ("CPU", "%", units.rounded)
RAM: Figure = ("RAM", "GiB", units.gib)
TIME: Figure = ("time", "", units.duration)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table with rows `T`."""

    name: str
    """The unique name in CSV and JSON, with the unit: `memory_peak_mib`."""
    value: Callable[[T], Cell]
    """The getter of a row's value, which is None if unknown."""
    title: str = ""
    """The name for people; `name` if empty."""
    unit: str = ""
    """The unit, shown in the heading but not in cells: `GiB`."""
    write: Callable[[Any], str] = format_value
    """The formatter of values for people; never called with None."""
    priority: int = 50
    """Narrow tables drop columns of low priority first."""
    outputs: Outputs = Outputs.EVERYWHERE
    align_left: bool = False
    """True for text, which aligns left."""
    max_width: int = 40
    """The maximum width, in terminal cells."""

    @property
    def heading(self) -> str:
        """The title and unit, safe on terminals even if a script chose them; a long title is cut."""
        title = self.title or self.name
        title = title if len(title) <= _MAX_TITLE_CHARS else f"{title[:_MAX_TITLE_CHARS]}…"
        return one_line(f"{title} {self.unit}".rstrip())

    def text(self, row: T) -> str:
        """Formats a row's value for people, safe on terminals."""
        value = self.value(row)
        if isinstance(value, str):
            return one_line(self.write(value))
        return units.NOT_KNOWN if value is None else self.write(value)


def gpu_columns(sample_of: Callable[[T], GpuSample | None]) -> tuple[Column[T], ...]:
    """Returns columns of a GPU's figures; `sample_of` returns a row's sample, or None."""

    def getter(name: str) -> Callable[[T], float | None]:
        return lambda row: getattr(sample_of(row), name, None)

    def memory(row: T) -> str | None:
        sample = sample_of(row)
        return None if sample is None else format_with_limit(sample.memory_used_mib, sample.memory_total_mib, units.gib)

    return (
        Column("gpu_util_pct", getter("gpu_util_pct"), *GPU, 90),
        Column("memory", memory, *VRAM[:2], priority=80),
        Column("power_w", getter("power_w"), *POWER, 70),
        Column("temperature_c", getter("temperature_c"), *TEMPERATURE, 60),
    )


def format_with_limit(used: float | None, limit: float | None, write: Callable[[float | None], str]) -> str | None:
    """Formats a value and its limit, such as `30.2/80.0`; None if both are unknown."""
    return None if used is None and limit is None else f"{write(used)}/{write(limit)}"


def as_cell(value: Any) -> Cell:
    """Returns the value if a cell can hold it; None for collections."""
    return value if isinstance(value, bool | int | float | str) else None


def columns_with_values(columns: Sequence[Column[T]], rows: Sequence[T]) -> list[Column[T]]:
    """Returns the columns for tables that have a value in at least one row."""
    in_tables = [column for column in columns if Outputs.TABLES in column.outputs]
    return [column for column in in_tables if any(column.value(row) is not None for row in rows)]


def find(columns: Sequence[Column[T]], name: str) -> Column[T]:
    """Returns the column with a name, else the first whose name, heading or title matches it, ignoring case.

    Raises `GmgError`, which lists the columns, if there is none.
    """
    matches = [column for column in columns if column.name == name]
    folded = name.casefold()
    matches += [
        column for column in columns if folded in map(str.casefold, (column.name, column.heading, column.title))
    ]
    if matches:
        return matches[0]
    names = ", ".join(column.name for column in columns)
    raise GmgError(one_line(f"no column {name}; the columns are: {names}"))


def sort_rows(
    column: Column[T], rows: Iterable[T], *, descending: bool, demoted: Callable[[T], bool] = lambda row: False
) -> list[T]:
    """Sorts rows by a column; of the rows with a known value, those that are `demoted` come last.

    In either direction, texts follow numbers, then come NaN and infinities, then unknown values.
    """
    valued: list[tuple[Any, T]] = [(column.value(row), row) for row in rows]
    numbers = [(value, row) for value, row in valued if is_known(value) and not isinstance(value, str)]
    texts = [(value, row) for value, row in valued if isinstance(value, str)]
    for group in (numbers, texts):
        group.sort(key=lambda pair: pair[0], reverse=descending)
    others = sorted((pair for pair in valued if not is_known(pair[0])), key=lambda pair: pair[0] is None)
    return [*sorted((row for _, row in (*numbers, *texts)), key=demoted), *(row for _, row in others)]


def is_known(value: Cell) -> bool:
    """True unless the value is None, NaN or infinite."""
    return math.isfinite(value) if isinstance(value, float) else value is not None


def as_csv(columns: Sequence[Column[T]], rows: Iterable[T], *, raw: bool = False) -> Iterator[bytes]:
    """Yields the lines of a CSV file with a header. Numbers keep all digits, booleans are as in JSON.

    Unknown values are empty. Unless `raw`, texts are safe on terminals, and an apostrophe precedes formulas.
    """
    in_files = [column for column in columns if Outputs.FILES in column.outputs]
    yield _csv_line((column.name for column in in_files), raw=raw)
    for row in rows:
        yield _csv_line((as_cell(column.value(row)) for column in in_files), raw=raw)


def _csv_line(values: Iterable[Cell], *, raw: bool) -> bytes:
    text = io.StringIO()
    # `csv` quotes a carriage return only if the line terminator contains one.
    csv.writer(text, lineterminator="\r\n").writerow(
        str(value).lower() if isinstance(value, bool) else value if raw else _neutralise(value) for value in values
    )
    return (text.getvalue()[:-2] + "\n").encode(errors="replace")


def _neutralise(value: Cell) -> Cell:
    if not isinstance(value, str):
        return value
    value = safe(value)
    try:
        float(value)
    except ValueError:
        normalised = unicodedata.normalize("NFKC", value)  # some spreadsheets also evaluate full-width signs
        return f"'{value}" if normalised.lstrip().startswith(("=", "+", "-", "@")) else value
    return value
