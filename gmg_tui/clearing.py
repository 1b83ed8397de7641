"""Removes sessions that have ended, with their folders; what is left of a start or of a removal that was interrupted."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from gmg_tui import machine, results
from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.folder_tree import FOLDER, Size, remove_content
from gmg_tui.results.tuning import TUNE
from gmg_tui.session import ENGINE_LOG, JOBS, LOGS, RECORD, STORE, SUMMARY, Found, Record

_REMOVED = ".removed-"
"""How the name of a folder begins that is being removed: no session is called so."""
_PARENT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""How the sessions' folder is opened, which may be a link."""
_STARTING_S = 60.0
"""For so long a folder without a record may belong to a session that is about to begin; one from the future does not."""
_OWN = (LOGS, JOBS, RECORD, SUMMARY, results.DETAILED, results.SUMMARY, results.COMBINED, TUNE)
_OWN_STARTS = (STORE, ENGINE_LOG, ".")
"""What a session's folder holds but for what its scripts put there."""


class Removable(Struct, frozen=True):
    """A session that can be removed."""

    name: str
    folder: Path
    record: Record | None
    """None where it never began, or its record cannot be read."""
    state: str
    """`ended`, `lost`, `unbegun` (nothing has run, and nothing was written) or `damaged`."""
    ended: float
    """When it ended, or was written last, Unix seconds."""


def removable(name: str) -> Removable:
    """The session called `name`, if it can be removed.

    Raises:
        GmgError: There is none, it runs or may run on another machine, or it is a link. The text says what to do.
    """
    folder = sessions.sessions_folder() / name
    try:
        sessions.check_name(name)
        about = folder.lstat()
    except (GmgError, OSError):
        raise GmgError(f"no session {name}; gmg-tui ls lists them", 1) from None
    if stat.S_ISLNK(about.st_mode):
        raise GmgError(f"{name} is a link to {folder.readlink()}; remove both yourself", 1)
    if not stat.S_ISDIR(about.st_mode):
        raise GmgError(f"{folder} is no folder", 1)
    found = sessions.inspect(folder)
    if found is None:
        if sessions.is_locked(folder) or abs(time.time() - about.st_mtime) < _STARTING_S:
            raise GmgError(f"{name} is about to begin, or has failed to; try again in a minute", 1)
        return Removable(name, folder, None, _state_without_record(folder), about.st_mtime)
    if found.state == "running":
        raise GmgError(found.away_text("stop") or f"{name} is running; end it first: gmg-tui stop {name}", 1)
    if found.record.ended is None:
        where = f" on {found.host}" if found.host not in {"", machine.name()} else ""
        raise GmgError(f"{name} was lost and some of its processes are still running{where}", 1)
    return Removable(name, folder, found.record, found.state, found.record.ended)


def left_over(listed: Iterable[Found]) -> list[Removable]:
    """What is not `listed` for want of a record: a launcher was killed before its engine began, or it is damaged."""
    names = {one.name for one in listed}
    found = []
    for folder in sessions.folders():
        if folder.name not in names:
            with suppress(GmgError):  # a link, about to begin, or begun meanwhile
                one = removable(folder.name)
                if one.record is None:
                    found.append(one)
    return found


def _state_without_record(folder: Path) -> str:
    if os.path.lexists(folder / RECORD):
        return "damaged"
    size = Size(folder)
    while size.step():
        pass
    return "damaged" if by_scripts(size) or LOGS in size.below() else "unbegun"


def by_scripts(size: Size) -> dict[str, int]:
    """The bytes of all in a session's folder that its scripts wrote, such as checkpoints; jobs' folders one by one."""
    jobs = {f"{JOBS}/{name}": in_bytes for name, in_bytes in size.below(JOBS).items()}
    others = {
        name: in_bytes
        for name, in_bytes in size.below().items()
        if name not in _OWN and not name.startswith(_OWN_STARTS)
    }
    return jobs | others


def remove(one: Removable, tick: Callable[[], object]) -> None:
    """Remove a session's folder, while its lock is held, so that no engine begins there.

    It is renamed first: the name is free at once, and an interrupted removal is finished by the next one.

    Args:
        one: The session, as `removable` found it.
        tick: Called for each file and folder.

    Raises:
        GmgError: It has changed meanwhile, or something in it could not be removed.
    """
    try:
        parent = os.open(one.folder.parent, _PARENT)
    except OSError as error:
        raise GmgError(f"cannot remove {one.folder}: {error.strerror}", 1) from error
    try:
        with _held(parent, one.name) as folder:
            read = sessions.read_record(one.folder)
            if (read and read[0]) != one.record:
                raise GmgError(f"{one.name} has begun again meanwhile; it stays", 1)
            hidden = f"{_REMOVED}{one.name}-{secrets.token_hex(4)}"
            os.rename(one.name, hidden, src_dir_fd=parent, dst_dir_fd=parent)
            _remove(parent, hidden, folder, tick)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == one.name:
            raise GmgError(f"{one.name} is gone: another gmg-tui has removed it", 1) from error
        raise GmgError(f"cannot remove {one.folder}: {error.strerror}", 1) from error
    finally:
        os.close(parent)


def finish(tick: Callable[[], object]) -> None:
    """Finish the removals that were interrupted. Raises `GmgError` where something cannot be removed."""
    try:
        parent = os.open(sessions.sessions_folder(), _PARENT)
    except OSError:
        return
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(_REMOVED)]
        for name in names:
            _finish(parent, name, tick)
    finally:
        os.close(parent)


def _finish(parent: int, name: str, tick: Callable[[], object]) -> None:
    try:
        with suppress(GmgError), _held(parent, name) as folder:  # another process may be at it
            _remove(parent, name, folder, tick)
    except FileNotFoundError:
        return  # it is done
    except OSError as error:
        raise GmgError(f"cannot remove {sessions.sessions_folder() / name}: {error.strerror}", 1) from error


def _remove(parent: int, name: str, folder: int, tick: Callable[[], object]) -> None:
    troubles = remove_content(folder, tick, keep=ENGINE_LOG)
    if troubles:
        raise troubles[0]
    os.unlink(ENGINE_LOG, dir_fd=folder)  # last: others see by its lock that somebody is at it
    os.rmdir(name, dir_fd=parent)


@contextmanager
def _held(parent: int, name: str) -> Iterator[int]:
    """A session's folder, opened, with its lock held. Raises `OSError`, and `GmgError` where an engine holds the lock."""
    folder = os.open(name, FOLDER, dir_fd=parent)
    try:
        how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(ENGINE_LOG, how, 0o600, dir_fd=folder)
        try:
            if not sessions.take(lock):
                raise GmgError(f"{name} is running, or being removed", 1)
            yield folder
        finally:
            os.close(lock)
    finally:
        os.close(folder)
