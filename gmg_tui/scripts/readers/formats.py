"""Reads lines by expressions with named groups: trainers' (`formats.toml`), users' (`[readers.NAME]`, `--pattern`).

RE2 matches users' expressions in linear time; Python's `re` may take exponential time, as for `(a+)+b`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import MAX_LINE_BYTES, visible
from gmg_tui.scripts.readers.interface import Figures, LineReader, figures, number

_MAX_REGEX_BYTES = 1 << 20
"""Memory limit for a user's compiled expression."""
NAMES = ("fps", "steps", "n_envs", "done", "total", "unit")
METRIC = "metric_"
"""Prefix of a group with a metric."""
_OPTION = "--pattern"
_GROUPS_HINT = "use (?P<fps>…), (?P<steps>…), (?P<n_envs>…), (?P<done>…), (?P<total>…) or (?P<metric_NAME>…)"


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `formats.toml`, or a table `[readers.NAME]` of the settings."""

    lines: tuple[str, ...] = ()
    """Expressions with the named groups `NAMES` or `metric_…`; each is tried on each line."""
    words: tuple[str, ...] = ()
    """Only lines with one of these are matched; all lines if empty."""
    unit: str = "step"
    """The unit of `done` and `total`."""
    first: int = 1
    """The first value of `done`: 0 or 1."""
    whole_group: bool = False
    vague: bool = False
    source: str = ""
    """The file and version that prints the lines."""


def check(patterns: Sequence[str], where: str = "--pattern") -> tuple[str, ...]:
    """Checks and returns the patterns; `where` is their option or key, for error messages.

    Raises `GmgError` for one that is not a regular expression, cannot be matched in linear time, or has no known group.
    """
    for pattern in patterns:
        try:
            groups = tuple(_compile_re2(pattern).groupindex)
        except ValueError as error:
            raise GmgError(f"{where} '{pattern}': {error}") from error
        unknown_groups = [name for name in groups if name not in NAMES and not _is_metric(name)]
        if not groups or unknown_groups:
            problem = f"unknown group {unknown_groups[0]}" if unknown_groups else "no named group"
            raise GmgError(f"{where} '{pattern}': {problem}; {_GROUPS_HINT}")
        if "total" in groups and not any("(?P<done>" in other for other in patterns):
            raise GmgError(f"{where} '{pattern}': total needs done, as in (?P<done>\\d+)/(?P<total>\\d+)")
    return tuple(patterns)


def _compile_re2(pattern: str) -> Any:
    """Compiles a user's expression with RE2. Raises `ValueError` if Python or RE2 does not accept it."""
    import re2  # takes 5 ms, and most users have no expression

    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_REGEX_BYTES
    try:
        re.compile(pattern)  # its errors have a position, and it rejects duplicate groups
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        limits = "RE2 has no look-around, back-references or possessive repetition"
        raise ValueError(f"{limits}: {reason.decode(errors='replace')}") from error
    except (re.error, RecursionError, OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"not a regular expression: {error}") from error


def from_settings(tables: Mapping[str, Any], patterns: Sequence[str] = ()) -> list[Format]:
    """Returns the formats that a user describes, `--pattern` first. Raises `GmgError` if a table is invalid."""
    rows = [Format(lines=tuple(patterns), source=_OPTION)] if patterns else []
    for name, table in tables.items():
        try:
            rows.append(msgspec.convert(table, Format))
        except msgspec.ValidationError as error:
            raise GmgError(f"[readers.{name}] {error}") from error
        check(rows[-1].lines, f"[readers.{name}]")
    return rows


def _is_metric(name: str) -> bool:
    return name.startswith(METRIC) and len(name) > len(METRIC)


@cache
def built_in() -> dict[str, Format]:
    """Returns the formats of `formats.toml`, by name."""
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, Format])


class FormatLines(LineReader):
    """Reads the lines of one format."""

    def __init__(self, row: Format, *, built_in: bool = False) -> None:
        """Matches `built_in` expressions by `re`, as they take linear time there too."""
        self.whole_group, self.vague = row.whole_group, row.vague
        self._row = row
        self._words = [word.encode() for word in row.words]
        self._patterns = [*map(re.compile if built_in else _compile_re2, row.lines)]
        self._depth: int | None = None
        """The fewest rows that tqdm has moved up after a bar, as after the outermost; None before the first bar."""
        self.is_unmatched = row.source == _OPTION
        """True if the row comes from `--pattern`, and has not matched yet."""
        self._counts_done = any("done" in pattern.groupindex for pattern in self._patterns)

    def read(self, block: bytes) -> Iterator[Figures]:
        """Yields the figures of each match."""
        for raw in block.splitlines() if self._contains_word(block) else ():
            if self._contains_word(raw):
                if self.vague and not self._is_outermost(raw):
                    continue
                text = visible(raw[: 8 * MAX_LINE_BYTES]).decode("utf-8", "replace")[:MAX_LINE_BYTES]
                for match in filter(None, (pattern.search(text) for pattern in self._patterns)):
                    self.is_unmatched = False
                    yield self._figures(match)

    def _is_outermost(self, raw: bytes) -> bool:
        """True for the outermost of nested bars: tqdm moves the cursor up again after each inner bar."""
        depth = raw.count(b"\x1b[A")
        self._depth = depth if self._depth is None else min(depth, self._depth)
        return depth == self._depth

    def _contains_word(self, raw: bytes) -> bool:
        return not self._words or any(word in raw for word in self._words)

    def _figures(self, match: Any) -> Figures:
        texts = {name: text for name, text in match.groupdict().items() if text}
        unit = texts.pop("unit", self._row.unit).strip()
        numbers = {name: value for name, text in texts.items() if (value := number(text)) is not None}
        metrics = {name.removeprefix(METRIC): value for name, value in numbers.items() if _is_metric(name)}
        if "done" in numbers:
            numbers["done"] += 1 - self._row.first
        elif "steps" in numbers and not self._counts_done:
            numbers["done"] = numbers["steps"]
        return figures(numbers, metrics, unit)
