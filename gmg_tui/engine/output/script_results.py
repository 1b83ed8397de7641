"""Results that a script reports itself: `gmg:result {"tm_score": 0.81}` in its output."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import msgspec

from gmg_tui.model import units

_log = logging.getLogger(__name__)

MARK = b"gmg:result "
_MAX_BYTES = 1 << 20
_MOST_LEVELS = 64
_INTEGERS = range(-(2**63), 2**64)
"""What MessagePack can carry."""


_objects = msgspec.json.Decoder(dict[str, Any])
_NO_OBJECT = (msgspec.MsgspecError, ValueError, RecursionError)


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object whose values every part of gmg-tui can encode. Raises one of `_NO_OBJECT`.

    NaN and infinities, which Python's `json` writes although JSON has none, become null.
    """
    if b"NaN" in text or b"Infinity" in text:
        parsed = msgspec.convert(json.loads(text, parse_constant=lambda _: None), dict[str, Any])
    else:
        parsed = _objects.decode(text)
    results: dict[str, Any] = _encodable(parsed, _MOST_LEVELS)
    return results


def _encodable(value: Any, levels: int) -> Any:
    """The value, with integers beyond 64 bits replaced by their digits: as floats they would be other numbers."""
    if levels < 0:
        raise ValueError(f"it is nested more than {_MOST_LEVELS} levels deep")
    if isinstance(value, dict):
        return {name: _encodable(each, levels - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each, levels - 1) for each in value]
    return str(value) if isinstance(value, int) and value not in _INTEGERS else value


class Reported:
    """What one attempt has reported on its output: the newest value of each name, at most `_MAX_BYTES` of JSON in all.

    Attributes:
        values: By name.
        trouble: What was ignored last and why, in one line; None where nothing was.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.trouble: str | None = None
        self._sizes: dict[str, int] = {}
        self._size = 0

    def take(self, block: bytes) -> None:
        """Take the results in whole lines of output; a log's prefix may precede the mark."""
        for line in block.splitlines():
            before, mark, text = line.partition(MARK)
            if mark and not before.endswith((b'"', b"'")):  # a traceback quotes the script's source
                self._take(text.strip())

    def add(self, values: dict[str, Any]) -> None:
        """Take results that are numbers, by name; JSON has none for infinity, nor for what is no number."""
        self._take(msgspec.json.encode({name: value for name, value in values.items() if math.isfinite(value)}))

    def _take(self, text: bytes) -> None:
        try:
            results = _object(text)
            sizes = {name: len(name) + len(msgspec.json.encode(value)) for name, value in results.items()}
        except _NO_OBJECT as error:
            self._ignore(f"a gmg:result line is no JSON object: {error}")
            return
        for name, value in results.items():
            size = sizes[name]
            if self._size - self._sizes.get(name, 0) + size > _MAX_BYTES:
                self._ignore(
                    f"gmg:result: {units.mib(_MAX_BYTES >> 20)} are kept, and no room is left for {name[:40]!r}"
                )
                continue
            self._size += size - self._sizes.get(name, 0)
            self._sizes[name], self.values[name] = size, value

    def _ignore(self, why: str) -> None:
        if self.trouble is None:
            _log.warning("%s", why)
        self.trouble = why
