"""Results that a script reports itself: `gmg:result {"tm_score": 0.81}` in its output, or `result.json` in its folder."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui import units
from gmg_tui.daemon_thread import in_daemon_thread

_log = logging.getLogger(__name__)

MARK = b"gmg:result "
FILE = "result.json"
_MAX_BYTES = 1 << 20
_DISK_S = 10.0
"""How long the disk may take to give a job's `result.json`."""
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
        taken: How many results have come.
        trouble: What was ignored last and why, in one line; None where nothing was.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.taken = 0
        self.trouble: str | None = None
        self._sizes: dict[str, int] = {}
        self._size = 0

    def take(self, block: bytes) -> None:
        """Take the results in whole lines of output; a log's prefix may precede the mark."""
        for line in block.splitlines():
            _, mark, text = line.partition(MARK)
            if mark:
                self._take(text.strip())

    def add(self, values: dict[str, Any]) -> None:
        """Take results that are numbers, by name; JSON has none for infinity, nor for what is no number."""
        self._take(msgspec.json.encode({name: value for name, value in values.items() if math.isfinite(value)}))

    def _take(self, text: bytes) -> None:
        try:
            results = _object(text)
        except _NO_OBJECT as error:
            self._ignore(f"a gmg:result line is no JSON object: {error}")
            return
        self.taken += 1
        for name, value in results.items():
            size = len(name) + len(msgspec.json.encode(value))
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


async def in_folder(folder: Path) -> dict[str, Any]:
    """What a job has reported in its folder; nothing if the disk does not answer in time."""
    try:
        async with asyncio.timeout(_DISK_S):
            return await in_daemon_thread(read_file, folder)
    except TimeoutError:
        _log.warning("%s: the disk does not answer; what the job reported there is lost", folder)
        return {}


def read_file(folder: Path) -> dict[str, Any]:
    """The results in the `result.json` of a job's folder; empty if there is none that can be read.

    It may be a link, but only to a regular file: a pipe may block for ever, and a device has no end.
    """
    path = folder / FILE
    try:
        with open(path, "rb", opener=_open_unblocked) as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_MAX_BYTES + 1) if is_regular else b""
        if not is_regular:
            _log.warning("%s is no regular file and is left out", path)
            return {}
        if len(data) > _MAX_BYTES:
            _log.warning("%s has more than %d bytes and is ignored", path, _MAX_BYTES)
            return {}
        return _object(data)
    except FileNotFoundError:
        return {}
    except OSError as error:
        _log.warning("%s cannot be read: %s", path, error.strerror)
    except _NO_OBJECT as error:
        _log.warning("%s is no JSON object: %s", path, error)
    return {}


def _open_unblocked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
