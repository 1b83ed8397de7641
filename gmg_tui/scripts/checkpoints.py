"""Checkpoints: the files that a script has saved, and the choice of one to continue from."""

import heapq
import os
import socket
import stat
import zipfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from msgspec import structs

from gmg_tui.machine.folders import way_to
from gmg_tui.model import Attempt, Checkpoint

MAX_KEPT = 20
"""Newest checkpoints to keep per attempt."""
_NOBODY = 65534
MAX_ENTRIES = 10_000
"""Folder entries to search for a renamed file."""


def ledger(*lists: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Merges lists of checkpoints by time. Returns the newest, one per path, oldest first.

    A list keeps its order, as the system clock may have been set back while it grew.
    """
    by_path: dict[str, Checkpoint] = {}
    for checkpoint in heapq.merge(*lists, key=lambda each: each.saved):
        by_path.pop(checkpoint.path, None)
        by_path[checkpoint.path] = checkpoint
    return tuple(by_path.values())[-MAX_KEPT:]


def before_nan(*ranks: Attempt) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints that all `ranks` of an attempt saved before a metric became NaN.

    If there are none, also drops the checkpoint that the attempt continued from, as it leads to NaN.
    """
    saved = ledger(*(each.checkpoints for each in ranks))
    nan = min((alert.since for each in ranks for alert in each.alerts if alert.kind == "nan"), default=None)
    if nan is None:
        return saved
    sound = [each for each in saved if each.saved <= nan]
    if not any(each.saved >= min(rank.started for rank in ranks) for each in sound):
        sound = [each for each in sound if each.path not in {rank.continued_from for rank in ranks}]
    return tuple(sound)


def unreadable(checkpoints: Sequence[Checkpoint]) -> str:
    """Explains why no checkpoint of a ledger can be used."""
    newest = checkpoints[-1].path
    why = f"is not on {socket.gethostname()}"
    if Path(newest).exists():
        why = "is incomplete, another user's, or cannot be read"
    return f"it started from the beginning: {newest} {why}"


def newest_intact(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """Returns the newest complete and readable checkpoint; an export only if there is nothing else.

    Finds files that the script has renamed within their folder. May block on a disk.
    """
    newest_first = tuple(reversed(checkpoints))
    for checkpoint in sorted(newest_first, key=lambda each: each.is_export):
        path = _found(checkpoint)
        if path is not None and _is_complete(path, checkpoint.size_bytes):
            return structs.replace(checkpoint, path=path)
    return None


def relocated(checkpoints: Iterable[Checkpoint], found: Checkpoint) -> tuple[Checkpoint, ...]:
    """Returns the ledger with `found`, from `newest_intact`, under its current path."""
    return ledger(found if structs.replace(each, path=found.path) == found else each for each in checkpoints)


def _found(checkpoint: Checkpoint) -> str | None:
    """Returns the file's current path: scripts save under a temporary name, then rename the file within its folder."""
    path = Path(checkpoint.path)
    if path.exists():
        return str(path)
    try:
        with os.scandir(path.parent) as entries:
            return next((each.path for each in islice(entries, MAX_ENTRIES) if each.inode() == checkpoint.inode), None)
    except OSError:
        return None


def _is_own(about: os.stat_result) -> bool:
    """True for a file of this user or root. On a network disk, root's may be nobody's (`root_squash`, exports(5))."""
    user = os.geteuid()
    return about.st_uid in (user, 0) or (user == 0 and about.st_uid == _NOBODY)


def _is_replaceable(path: Path, about: os.stat_result) -> bool:
    """True if all users could replace an open file: in its folder, or by a link of theirs that leads to it.

    The groups and owners of shared folders are trusted.
    """
    if path.parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
        return True
    *way, (_, found, _) = way_to(path)
    return not os.path.samestat(found, about) or any(
        stat.S_ISLNK(each.st_mode) and not _is_own(each) for _, each, _ in way
    )


def _is_complete(path: str, size_bytes: int | None) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or not about.st_size or about.st_size != (size_bytes or about.st_size):
                return False
            if not _is_own(about) or _is_replaceable(Path(path), about):  # loading it may run its code
                return False
            is_zip = file.read(2) == b"PK"  # `torch.save` and Stable-Baselines3; the ZIP directory is at the end
            return not is_zip or zipfile.is_zipfile(file)
    except OSError:
        return False
