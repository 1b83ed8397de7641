"""Results that a script reports in its output: `gmg:result {"tm_score": 0.81}`."""

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
    """Replaces integers beyond 64 bits by their digits, as floats would change them.

    Raises `ValueError` for a value that is nested too deeply, or for a number out of range.
    """
    if levels < 0:
        raise ValueError(f"nested more than {_MAX_LEVELS} levels deep")
    if isinstance(value, dict):
        return {name: _encodable(each, levels - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each, levels - 1) for each in value]
    if isinstance(value, Decimal):
        raise ValueError("its number is out of range")
    return str(value) if isinstance(value, int) and value not in _INTEGERS else value


class Reported:
    """The results of one attempt: the newest value of each name, at most `_MAX_BYTES` of JSON.

    Args:
        names: The session's names, at most `MAX_NAMES`; new ones are added.

    Attributes:
        values: The values by name.
        explicit: The names of `gmg:result` lines, whose values other lines do not replace.
        trouble: The reason that a line was ignored, the last one; None if there was none.
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
        for text, meant in marked(block, MARK):
            try:
                found = json_object(text)
            except _NO_OBJECT as error:
                if meant:
                    self._ignore(f"a gmg:result line is not a JSON object: {error}")
                continue
            values = {name: value for name, each in found.items() for value in self._kept(name, each)}
            numbers |= self.add(values)
            self.explicit |= values.keys() & self.values.keys()
        return numbers

    def _kept(self, name: str, value: Any) -> Iterator[Any]:
        """Yields the value to keep; nothing if it is out of range."""
        try:
            yield _encodable(value, _MAX_LEVELS)
        except ValueError as error:
            self._ignore(f"gmg:result: {name[:40]!r} is ignored: {error}")

    def add(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Adds results by name. Returns the numbers that are kept."""
        numbers: dict[str, float] = {}
        sizes = {name: len(name) + len(msgspec.json.encode(value)) for name, value in values.items()}
        for name, value in values.items():
            if name not in self._names and len(self._names) >= MAX_NAMES:
                self._ignore(f"gmg:result: {name[:40]!r} is ignored: a session has at most {MAX_NAMES:,} names")
                continue
            size = sizes[name]
            if self._size - self._sizes.get(name, 0) + size > _MAX_BYTES:
                self._ignore(f"gmg:result: {name[:40]!r} is ignored: the limit is {units.mib(_MAX_BYTES >> 20)}")
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
