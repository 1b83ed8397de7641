"""Results that a script reports itself: `gmg:result {"tm_score": 0.81}` in its output."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from gmg_tui.model import units
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.scripts.readers.interface import json_object, marked

_log = logging.getLogger(__name__)

MARK = b"gmg:result "
_MAX_BYTES = 1 << 20
_MAX_LEVELS = 64
_MAX_NAME = 100
_INTEGERS = range(-(2**63), 2**64)
"""The integers of MessagePack."""
_NO_OBJECT = (msgspec.MsgspecError, ValueError, RecursionError)


def _encodable(value: Any, levels: int) -> Any:
    """Returns the value, with digits for integers beyond 64 bits: as floats they would be other numbers.

    Raises `ValueError` if it is nested too deeply, or has a number that is out of range.
    """
    if levels < 0:
        raise ValueError(f"it is nested more than {_MAX_LEVELS} levels deep")
    if isinstance(value, dict):
        return {name: _encodable(each, levels - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each, levels - 1) for each in value]
    if isinstance(value, Decimal):
        raise ValueError("its number is out of range")
    return str(value) if isinstance(value, int) and value not in _INTEGERS else value


class Reported:
    """The results that one attempt has reported on its output: the newest value of each name, at most `_MAX_BYTES` of JSON in all.

    Args:
        names: The names that the session has so far, at most `MAX_NAMES`; new ones are added.

    Attributes:
        values: By name.
        explicit: The names of `gmg:result` lines, whose values are not replaced by what is read in other lines.
        trouble: The last line that was ignored, and the reason; None if there was none.
    """

    def __init__(self, names: set[str] | None = None) -> None:
        self._names = set() if names is None else names
        self.values: dict[str, Any] = {}
        self.explicit: set[str] = set()
        self.trouble: str | None = None
        self._sizes: dict[str, int] = {}
        self._size = 0

    def read(self, block: bytes) -> dict[str, float]:
        """Takes the results in whole lines of output, whose mark a log's prefix may precede, and returns the numbers among them."""
        numbers: dict[str, float] = {}
        for text, meant in marked(block, MARK):
            try:
                found = json_object(text)
            except _NO_OBJECT as error:
                if meant:
                    self._ignore(f"a gmg:result line is no JSON object: {error}")
                continue
            values = {name: value for name, each in found.items() for value in self._kept(name, each)}
            numbers |= self.add(values)
            self.explicit |= values.keys() & self.values.keys()
        return numbers

    def _kept(self, name: str, value: Any) -> Iterator[Any]:
        """Yields the value as it is kept; nothing if it cannot be."""
        try:
            yield _encodable(value, _MAX_LEVELS)
        except ValueError as error:
            self._ignore(f"gmg:result: {name[:40]!r} is ignored: {error}")

    def add(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Takes results by name, and returns the numbers that are kept."""
        numbers: dict[str, float] = {}
        sizes = {name: len(name) + len(msgspec.json.encode(value)) for name, value in values.items()}
        for name, value in values.items():
            if name not in self._names and len(self._names) >= MAX_NAMES:
                self._ignore(f"gmg:result: a session keeps {MAX_NAMES:,} different names, without {name[:40]!r}")
                continue
            size = sizes[name]
            if self._size - self._sizes.get(name, 0) + size > _MAX_BYTES:
                self._ignore(
                    f"gmg:result: {units.mib(_MAX_BYTES >> 20)} are kept, and no room is left for {name[:40]!r}"
                )
                continue
            self._names.add(name)
            self._size += size - self._sizes.get(name, 0)
            self._sizes[name], self.values[name] = size, value
            if isinstance(value, int | float) and not isinstance(value, bool) and len(name) <= _MAX_NAME:
                numbers[name] = float(value)
        return numbers

    def _ignore(self, why: str) -> None:
        if self.trouble is None:
            _log.warning("%s", why)
        self.trouble = why
