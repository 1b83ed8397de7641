"""What a script reports of its own: `gmg:result {"tm_score": 0.81}` on its output, or `result.json` in its folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

_log = logging.getLogger(__name__)

MARK = b"gmg:result "
FILE = "result.json"
_MAX_BYTES = 1 << 20
_objects = msgspec.json.Decoder(dict[str, Any])


def results_in(block: bytes) -> dict[str, Any]:
    """The results in whole lines of output, later ones over earlier ones; lines that hold no JSON object are nothing.

    A log's own prefix may stand before the mark.
    """
    found: dict[str, Any] = {}
    for line in block.splitlines():
        _, mark, text = line.partition(MARK)
        if mark:
            found |= _decoded(text.strip(), "a gmg:result line")
    return found


def read_file(folder: Path) -> dict[str, Any]:
    """The results in the `result.json` of a job's folder; empty where there is none that can be read."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        _log.warning("%s cannot be read: %s", path, error.strerror)
        return {}
    if len(data) > _MAX_BYTES:
        _log.warning("%s has more than %d bytes and is left out", path, _MAX_BYTES)
        return {}
    return _decoded(data, str(path))


def _decoded(text: bytes, where: str) -> dict[str, Any]:
    try:
        return _objects.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _log.warning("%s is no JSON object: %s", where, error)
        return {}
