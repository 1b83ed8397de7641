"""The exception that a rank has recorded in its `error.json`, where its script uses torch's `@record`.

torch 2.13: `torch/distributed/elastic/multiprocessing/errors/error_handler.py`, `ErrorHandler.record_exception`:
`{"message": {"message": "ValueError: …", "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1732312800"}}}`.
Another handler may write `{"message": "…"}`; both are read.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

from gmg_tui.files import open_regular

_log = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20


class Recorded(NamedTuple):
    """An exception that a script has recorded."""

    message: str
    """Its class and text: `ValueError: …`; never blank."""
    traceback: str
    """As Python prints it; may be empty."""


def read(path: Path) -> Recorded | None:
    """What a rank has recorded; None where there is no file, or nothing useful in it.

    Only a regular file of at most 1 MiB is read. May wait for a disk.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        return _recorded(json.loads(data))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s is ignored: %s", path, error)
        return None


def _recorded(content: Any) -> Recorded | None:
    error = content.get("message") if isinstance(content, dict) else None
    extra = error.get("extraInfo") if isinstance(error, dict) else None
    traceback = extra.get("py_callstack") if isinstance(extra, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    if not isinstance(message, str) or not message.strip():
        return None
    return Recorded(message, traceback if isinstance(traceback, str) else "")
