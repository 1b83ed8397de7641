"""Removes sessions that have ended, with their folders."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gmg_tui.errors import GmgError
from gmg_tui.session.paths import ENGINE_LOG, check_name, folders, is_locked, sessions_folder, take
from gmg_tui.session.records import inspect, read_record
from gmg_tui.session.recovery import processes

_STARTING_S = 60.0
"""A younger folder without a record may belong to a session that is about to begin."""
_BLOCK_BYTES = 512
"""Of `st_blocks`, on any file system (stat(2))."""
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Removable(Struct, frozen=True):
    """A session that can be removed."""

    name: str
    folder: Path
    state: str
    """`ended`, `lost`, or `damaged` without a record that can be read."""
    ended: float
    """When it ended, Unix seconds; without a record, when the folder was changed last."""


def removable(name: str) -> Removable:
    """The session called `name`, if it can be removed.

    Raises:
        GmgError: There is none, it runs or may run on another machine, or it is a link. The text has the advice.
    """
    folder = sessions_folder() / name
    try:
        check_name(name)
        about = folder.lstat()
    except (GmgError, OSError):
        raise GmgError(f"there is no session {name}; gmg-tui ls lists them", 1) from None
    if not stat.S_ISDIR(about.st_mode):
        raise GmgError(f"{folder} is not a folder, but a link or file; remove it yourself", 1)
    entry = inspect(folder)
    if entry is None:
        if is_locked(folder) or abs(time.time() - about.st_mtime) < _STARTING_S:
            raise GmgError(f"{name} is about to begin, or has failed to; try again in a minute", 1)
        return Removable(name, folder, "damaged", about.st_mtime)
    if entry.state == "running":
        raise GmgError(entry.remark or f"{name} is running; end it first: gmg-tui stop {name}", 1)
    ended = entry.record.ended
    if ended is None and processes(entry.record.session):
        raise GmgError(f"{name} was lost and some of its processes are still running", 1)
    return Removable(name, folder, entry.state, entry.written if ended is None else ended)


def unlisted() -> Iterator[Removable]:
    """What `listing` leaves out for want of a record: a command was killed before its engine began, or it is damaged."""
    for folder in folders():
        if read_record(folder) is None:
            try:
                yield removable(folder.name)
            except GmgError:  # a link, or about to begin
                continue


def size_bytes(folder: Path) -> int:
    """What a folder's files take on its disk, following no links; one with several links counts once for each."""
    size = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):  # removed meanwhile
                size += Path(path, name).lstat().st_blocks * _BLOCK_BYTES
    return size


def remove(session: Removable) -> None:
    """Remove a session's folder. Its lock is held, so that no engine begins there.

    What an interruption leaves is listed as damaged, and can be removed again.

    Raises:
        GmgError: It has changed meanwhile, or something in it could not be removed.
    """
    folder = session.folder
    try:
        lock = os.open(folder / ENGINE_LOG, _LOCK, 0o600)
        try:
            if not take(lock):
                raise GmgError(f"{session.name} is running", 1)
            _make_accessible(folder)
            shutil.rmtree(folder)
        finally:
            os.close(lock)
    except FileNotFoundError as error:
        raise GmgError(f"{session.name} is gone: another gmg-tui has removed it", 1) from error
    except OSError as error:
        raise GmgError(f"cannot remove {error.filename or folder}: {error.strerror}", 1) from error


def _make_accessible(folder: Path) -> None:
    """Let the user read and change the folders that a script has protected, following no links. Raises `OSError`."""
    folder.chmod(stat.S_IRWXU)
    for path, inner, _ in os.walk(folder):
        for name in inner:
            if not (below := Path(path, name)).is_symlink():
                below.chmod(stat.S_IRWXU)
