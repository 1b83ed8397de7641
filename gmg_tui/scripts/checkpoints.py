"""Checkpoints: files that scripts have saved, as the probe reports them, and which of them a later attempt continues from."""

from __future__ import annotations

import os
import socket
import stat
import zipfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from msgspec import structs

from gmg_tui.machine.files import is_strangers
from gmg_tui.model import Attempt, Checkpoint

MAX_KEPT = 20
"""Checkpoints of an attempt that are kept, the newest ones."""
MAX_ENTRIES = 10_000
"""Limits the entries of a folder among which a renamed file is looked for."""


def ledger(*lists: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Returns the newest checkpoints of all lists, oldest first; of several with the same path the newest."""
    by_path: dict[str, Checkpoint] = {}
    for checkpoint in sorted((each for some in lists for each in some), key=lambda each: each.saved):
        by_path.pop(checkpoint.path, None)
        by_path[checkpoint.path] = checkpoint
    return tuple(by_path.values())[-MAX_KEPT:]


def before_nan(attempt: Attempt) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints of an attempt from which another may continue: without those since a metric was NaN.

    If it had saved none before, the one that it continued from is left out too: that leads to NaN.
    """
    nan = next((alert for alert in attempt.alerts if alert.kind == "nan"), None)
    if nan is None:
        return attempt.checkpoints
    sound = [each for each in attempt.checkpoints if each.saved <= nan.since]
    if not any(each.saved >= attempt.started for each in sound):
        sound = [each for each in sound if each.path != attempt.continued_from]
    return tuple(sound)


def unreadable(checkpoints: Sequence[Checkpoint]) -> str:
    """Returns why none of a ledger can be continued from."""
    newest = checkpoints[-1].path
    why = (
        "is incomplete, another user's, or cannot be read"
        if Path(newest).exists()
        else f"is not on {socket.gethostname()}"
    )
    return f"it started from the beginning: {newest} {why}"


def newest_intact(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """Returns the newest of a ledger that can be read and is complete, an export only if there is nothing else.

    It may wait for a disk. A file that the script has renamed since is found in its folder.
    """
    newest_first = tuple(reversed(checkpoints))
    for checkpoint in sorted(newest_first, key=lambda each: each.is_export):
        path = _found(checkpoint)
        if path is not None and _is_complete(path, checkpoint.size_bytes):
            return structs.replace(checkpoint, path=path)
    return None


def _found(checkpoint: Checkpoint) -> str | None:
    """Returns where the file is now: at its path or, as scripts save under another name first, elsewhere in its folder."""
    path = Path(checkpoint.path)
    if path.exists():
        return str(path)
    try:
        with os.scandir(path.parent) as entries:
            return next((each.path for each in islice(entries, MAX_ENTRIES) if each.inode() == checkpoint.inode), None)
    except OSError:
        return None


def _is_complete(path: str, size_bytes: int | None) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or not about.st_size or about.st_size != (size_bytes or about.st_size):
                return False
            if is_strangers(about, Path(path).parent):  # a script that loads it may run code in it
                return False
            is_zip = file.read(2) == b"PK"  # `torch.save` and Stable-Baselines3; its directory is at the end
            return not is_zip or zipfile.is_zipfile(file)
    except OSError:
        return False
