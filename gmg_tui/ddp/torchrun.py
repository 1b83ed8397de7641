"""What torchrun and its parts write: how its command line, its summary of a failed group, and a rank's error are read.

torch 2.13: torch/distributed/run.py, torch/distributed/elastic/multiprocessing/{api,tail_log}.py, errors/__init__.py
(`ChildFailedError.format_msg`) and errors/error_handler.py (`ErrorHandler.record_exception`).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from gmg_tui.files import open_regular
from gmg_tui.model import RunSpec
from gmg_tui.text import strip_ansi

_log = logging.getLogger(__name__)

GRACE_S = 40.0
"""How long torchrun may take to end: it gives its ranks 30 s after the signal, and kills them then."""
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_SUMMARY = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_TRACEBACK = b"Traceback (most recent call last)"
_OF_A_RANK = re.compile(rb"^(?:\[(?:rank|default)\d{1,6}\]:\s?){1,2}")
"""Before each line of a rank: its rank, as torch writes it, or its local rank, as `--tee` does, which may precede that."""
_MOST_BYTES = 1 << 20


class Recorded(NamedTuple):
    """The exception that a rank has recorded in its `error.json`, where its script uses torch's `@record`."""

    message: str
    """Its class and text: `ValueError: …`."""
    traceback: str = ""
    """As Python prints it; may be empty."""


class _Extra(Struct, frozen=True):
    py_callstack: str = ""


class _Error(Struct, rename={"extra": "extraInfo"}):
    message: str
    extra: _Extra = _Extra()


class _ErrorFile(Struct):
    message: _Error | str
    """A text, if another handler than torch's has written it."""


def recorded(path: Path) -> Recorded | None:
    """What a rank has recorded; None where there is no file, or nothing useful in it.

    Only a regular file of at most 1 MiB is read. May wait for a disk.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            content = json.loads(file.read(_MOST_BYTES))  # msgspec's own decoder takes no lone surrogates
        error = msgspec.convert(content, _ErrorFile).message
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as trouble:
        _log.warning("%s is ignored: %s", path, trouble)
        return None
    found = Recorded(error) if isinstance(error, str) else Recorded(error.message, error.extra.py_callstack)
    return found if found.message.strip() else None


def of_the_ranks(tail: Sequence[bytes]) -> Sequence[bytes]:
    """An attempt's last lines as its ranks printed them, where torchrun's traceback and summary of a failed group follow."""
    texts = [strip_ansi(line).strip() for line in tail]
    summary = next((index for index, text in enumerate(texts) if text.startswith(_SUMMARY)), None)
    if summary is None:
        return tail
    start = max(index for index in range(summary + 1) if texts[index].startswith(_TRACEBACK) or not index)
    return [_OF_A_RANK.sub(b"", line) for line in tail[:start]]


def starts(script: str, *, module: bool) -> bool:
    """Whether a command line runs torchrun: as a module, or its own script."""
    return script in _MODULES if module else Path(script).name == "torchrun"


def stop_s(spec: RunSpec) -> float:
    """How long a session's workers may take to end after SIGINT and SIGTERM."""
    grace_s = GRACE_S if starts(spec.script, module=spec.module) else 0.0
    return max(spec.sigint_wait_s, grace_s) + spec.sigterm_wait_s


def instead(script: str) -> str:
    """What to do instead, in one line."""
    return f"{script} starts its ranks itself, so they appear as one worker; gmg-tui --ddp TRAIN.py displays each"
