"""Checkpoints: the files that a script has saved, and the choice of one to continue from."""

import heapq
import os
import socket
import stat
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine.files import way_to
from gmg_tui.machine.folders import owners, user_name
from gmg_tui.model import Attempt, Checkpoint

MAX_KEPT = 20
"""Newest checkpoints to keep per attempt."""
_NOBODY = 65534
MAX_ENTRIES = 10_000
"""Folder entries to search for a renamed file."""


class Trust(NamedTuple):
    """The users whose files may be loaded, although that may run code.

    These are this user, root, anyone who could change the workers' code anyway, and the owners of folders shared with a
    group of this user.

    Attributes:
        runs: Paths that workers run from.
        marks: Names of files that identify a session's folder or a copy of it, whose logs hold output of other nodes.
    """

    runs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def doubt(self, path: str, about: os.stat_result) -> str | None:
        """Returns why an open file may be another's, or be replaced by another user; None if not. Raises `OSError`."""
        *way, (_, last, _) = way_to(Path(path))
        if not _is_own(about):
            return f"belongs to {user_name(about.st_uid)}"
        if not os.path.samestat(last, about):
            return "is being replaced"
        groups = {os.getegid(), *os.getgroups()}
        trusted = {owner for _, owner in owners(*self.runs)}
        trusted |= {each.st_uid for _, each, _ in way if _is_shared(each) and each.st_gid in groups}
        for at, each, _ in way:
            is_link = stat.S_ISLNK(each.st_mode)
            if not _is_own(each) and (is_link or each.st_uid not in trusted):
                return f"could be replaced: {at} belongs to {user_name(each.st_uid)}"
            if not is_link and each.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                return f"could be replaced: {at} can be changed by all users"
            if self.marks and all((at / mark).exists() for mark in self.marks):
                return f"is in a session's folder, {at}, where no script saves"
        return None


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


def newest_intact(checkpoints: Sequence[Checkpoint], trust: Trust) -> Checkpoint | str:
    """Returns the newest complete and readable checkpoint, an export only if there is nothing else, or why there is none.

    Finds files that the script has renamed within their folder. May block on a disk.
    """
    whys = dict[str, str]()
    newest_first = tuple(reversed(checkpoints))
    for checkpoint in sorted(newest_first, key=lambda each: each.is_export):
        found = _found(checkpoint)
        if (why := _unusable(found, checkpoint.size_bytes, trust)) is None:
            return structs.replace(checkpoint, path=found)
        whys[checkpoint.path] = why
    newest = checkpoints[-1].path
    return f"it started from the beginning: {newest} {whys[newest]}"


def relocated(checkpoints: Iterable[Checkpoint], found: Checkpoint) -> tuple[Checkpoint, ...]:
    """Returns the ledger with `found`, from `newest_intact`, under its current path."""
    return ledger(found if structs.replace(each, path=found.path) == found else each for each in checkpoints)


def _found(checkpoint: Checkpoint) -> str:
    """Returns the file's current path: scripts save under a temporary name, then rename the file within its folder."""
    path = Path(checkpoint.path)
    if not path.exists():
        with suppress(OSError), os.scandir(path.parent) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if entry.inode() == checkpoint.inode:
                    return entry.path
    return str(path)


def _unusable(path: str, size_bytes: int | None, trust: Trust) -> str | None:
    """Returns why a file cannot be loaded; None if it can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            is_right_size = about.st_size and about.st_size == (size_bytes or about.st_size)
            if not stat.S_ISREG(about.st_mode) or not is_right_size:
                return "is incomplete"
            is_zip = file.read(2) == b"PK"  # `torch.save` and Stable-Baselines3; the ZIP directory is at the end
            return "is incomplete" if is_zip and not zipfile.is_zipfile(file) else trust.doubt(path, about)
    except FileNotFoundError:
        return f"is not on {socket.gethostname()}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _is_own(about: os.stat_result) -> bool:
    """True for a file of this user or root. On a network disk, root's may be nobody's (`root_squash`, exports(5))."""
    user = os.geteuid()
    return about.st_uid in (user, 0) or (user == 0 and about.st_uid == _NOBODY)


def _is_shared(about: os.stat_result) -> bool:
    """True for a folder that its group may change, and no others."""
    return stat.S_ISDIR(about.st_mode) and about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP
