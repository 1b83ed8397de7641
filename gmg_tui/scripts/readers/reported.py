"""Figures that a script reports in its output, as JSON after a marker.

Rates by `gmg_tui.report_fps`: `gmg:fps {"fps": 5700000.0, "n_envs": 4096}`; results: `gmg:result {"tm_score": 0.81}`.
"""

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from gmg_tui.model import Sign, units
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.text import strip_ansi
from gmg_tui.scripts.readers.formats import NAMES
from gmg_tui.scripts.readers.interface import Figures, LineReader, figures

_log = logging.getLogger(__name__)

FPS_MARK, RESULT_MARK = b"gmg:fps ", b"gmg:result "
_QUOTES = (b'"', b"'", b"#", b"`")
_JSON_CONSTANT = re.compile(rb"([\[{:,]\s{0,20}[+-]?)(nan|inf(?:inity)?)\b", re.IGNORECASE)
"""NaN or infinity in JSON, as `json.dumps` or an f-string writes it."""
_MAX_DIGITS = 1000
"""Digits to parse as an integer: Python takes quadratic time, and rejects more than 4,300."""
MAX_TOTAL_BYTES = 1 << 20
LIST_BYTES = 64
"""Bytes that each list or object counts for besides its JSON: about its size in memory."""
_MAX_RATE_BYTES = 8192
MAX_LEVELS = 64
_MAX_NAME_CHARS = 100
_OUT_OF_RANGE = Decimal("Infinity")
"""Stands for a number that cannot be stored; its digits may be too many even for a `Decimal`."""
_INTEGERS = range(-(2**63), 2**64)
"""The range of MessagePack's integers."""


def _objects(block: bytes, mark: bytes, max_bytes: int | None = None) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the JSON object after `mark` on each line with one (empty if invalid), and the error (empty if valid).

    A logger's prefix may precede the mark. A line that only quotes a mark, as in a traceback, is not an error.
    """
    for line in block.splitlines() if mark in block else ():
        prefix, mark_found, text = line.partition(mark)
        if mark_found:
            try:
                yield _json_object(strip_ansi(text[:max_bytes]).strip()), ""
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                if not prefix[:1].isspace() and not any(quote in prefix for quote in _QUOTES):
                    yield {}, str(error)


def _json_object(text: bytes) -> dict[str, Any]:
    """Decodes a JSON object, which may hold NaN and infinities.

    Numbers beyond the range of floats, and integers of too many digits, become `_OUT_OF_RANGE`. Raises
    `msgspec.MsgspecError`, `ValueError` or `RecursionError` for anything else.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        if _JSON_CONSTANT.search(text) is None and not isinstance(error, msgspec.ValidationError):
            raise
    names = {b"n": b"NaN", b"i": b"Infinity"}
    plain = _JSON_CONSTANT.sub(lambda match: match[1].replace(b"+", b"") + names[match[2][:1].lower()], text)
    values = msgspec.convert(json.loads(plain, parse_float=_float, parse_int=_integer), dict[str, Any])
    msgspec.json.encode(values)  # raises for lone surrogates, which `json` accepts
    return values


def _float(digits: str) -> float | Decimal:
    value = float(digits)
    return value if math.isfinite(value) else _OUT_OF_RANGE


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MAX_DIGITS else _OUT_OF_RANGE


class ReportedRates(LineReader):
    """Reads the lines of `report_fps`."""

    def __init__(self) -> None:
        self._error = ""

    def read(self, block: bytes) -> Iterator[Figures]:
        """Yields the figures of each line."""
        for values, error in _objects(block, FPS_MARK, _MAX_RATE_BYTES):
            refused = [name for name, value in values.items() if isinstance(value, Decimal)]
            accepted = {name: value for name, value in values.items() if name not in refused}
            try:
                numbers = msgspec.convert(accepted, dict[str, float])
            except msgspec.ValidationError as trouble:
                numbers, error = {}, str(trouble)
            if refused:
                self._error = f"gmg:fps: {refused[0][:40]!r} is ignored: its number is out of range"
            if error:
                self._error = f"a gmg:fps line is not a JSON object of numbers: {error[:120]}"
            yield figures(numbers, {name: value for name, value in numbers.items() if name not in NAMES})

    @property
    def signs(self) -> tuple[Sign, ...]:
        """A sign of trouble with the last error in a line; empty if there was none."""
        return (Sign("output", self._error, "print it with report_fps"),) if self._error else ()


def _to_encodable(value: Any, levels: int = MAX_LEVELS) -> Any:
    """Replaces integers beyond 64 bits with their digits, as floats would change them.

    Raises `ValueError` for a value that is nested too deeply, or for a number out of range.
    """
    if levels < 0:
        raise ValueError(f"nested more than {MAX_LEVELS} levels deep")
    if isinstance(value, dict):
        return {name: _to_encodable(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_encodable(item, levels - 1) for item in value]
    if isinstance(value, Decimal):
        raise ValueError("its number is out of range")
    return str(value) if isinstance(value, int) and value not in _INTEGERS else value


def _size(value: Any) -> int:
    encoded = msgspec.json.encode(value)
    return len(encoded) + LIST_BYTES * (encoded.count(b"[") + encoded.count(b"{"))


class ReportedResults:
    """The results of one attempt: the newest value of each name, at most `MAX_TOTAL_BYTES` of JSON.

    Args:
        names: The names of the session's results so far, to which new ones are added, up to `MAX_NAMES`.

    Attributes:
        values: The values by name.
        explicit: The names of `gmg:result` lines, whose values other lines do not replace.
        trouble: The last reason for ignoring a line or result; None if there was none.
    """

    def __init__(self, names: set[str] | None = None) -> None:
        self._names = set() if names is None else names
        self.values: dict[str, Any] = {}
        self.explicit: set[str] = set()
        self.trouble: str | None = None
        self._sizes: dict[str, int] = {}
        self._size = 0

    def read(self, block: bytes) -> dict[str, float]:
        """Reads whole lines of output. Returns the numbers among their results."""
        numbers: dict[str, float] = {}
        for results, error in _objects(block, RESULT_MARK):
            if error:
                self._ignore(f"a gmg:result line is not a JSON object: {error}")
            values = {}
            for name, value in results.items():
                try:
                    values[name] = _to_encodable(value)
                except ValueError as trouble:
                    self._ignore(f"gmg:result: {name[:40]!r} is ignored: {trouble}")
            numbers |= self.add(values)
            self.explicit |= values.keys() & self.values.keys()
        return numbers

    def add(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Adds results by name, within the limits. Returns the numbers among the added ones."""
        numbers: dict[str, float] = {}
        sizes = {name: len(name) + _size(value) for name, value in values.items()}
        for name, value in values.items():
            if name not in self._names and len(self._names) >= MAX_NAMES:
                self._ignore(f"gmg:result: {name[:40]!r} is ignored: a session has at most {MAX_NAMES:,} names")
                continue
            size = sizes[name]
            if self._size - self._sizes.get(name, 0) + size > MAX_TOTAL_BYTES:
                self._ignore(f"gmg:result: {name[:40]!r} is ignored: the limit is {units.mib(MAX_TOTAL_BYTES >> 20)}")
                continue
            self._names.add(name)
            self._size += size - self._sizes.get(name, 0)
            self._sizes[name], self.values[name] = size, value
            if isinstance(value, int | float) and not isinstance(value, bool) and len(name) <= _MAX_NAME_CHARS:
                numbers[name] = float(value)
        return numbers

    def _ignore(self, reason: str) -> None:
        if self.trouble is None:
            _log.warning("%s", reason)
        self.trouble = reason
