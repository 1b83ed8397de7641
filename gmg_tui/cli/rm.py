"""`rm`: remove sessions by name or by age."""

import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import click
from msgspec import Struct

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note, waiting
from gmg_tui.machine.folders import check_own, remove_tree
from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table
from gmg_tui.results.column import Column

_START_GRACE_S = 60.0
"""Age below which a folder without a record may belong to a starting session."""


class RemovableSession(Struct, frozen=True):
    """A session that can be removed."""

    name: str
    folder: Path
    state: str
    """`ended`, `lost`, or `damaged` if its record cannot be read."""
    ended: float
    """Unix time of the session's end; if unknown, of the last write to the record or folder."""


_COLUMNS = (
    Column[RemovableSession]("name", lambda session: session.name, priority=100, align_left=True),
    Column[RemovableSession]("state", lambda session: session.state, priority=70, align_left=True),
    Column[RemovableSession](
        "ended", lambda session: f"{units.span(time.time() - session.ended)} ago", priority=80, align_left=True
    ),
)


def rm(names: tuple[str, ...], *, older: float | None, keep: int | None, yes: bool) -> int:
    """Removes sessions by name, or those that ended more than `older` seconds ago, except the last `keep`.

    Returns the exit status, 1 if a session was not removed. Raises `GmgError` for an invalid selection, or without a
    terminal to ask on.
    """
    by_age = older is not None or keep is not None
    if bool(names) == by_age:
        raise GmgError("give session names, or --older AGE and --keep N, as in: gmg-tui rm --older 30d --keep 5")
    ended_before = time.time() - (older or 0.0)
    sessions.clear_lost(note)
    chosen = _select_old(ended_before, keep or 0) if by_age else _find_all_removable(dict.fromkeys(names))
    status = 0 if by_age else int(len(chosen) < len(set(names)))
    if not chosen:
        if not status:
            print("nothing to remove")
        return status
    table.print_table(_COLUMNS, chosen)
    return _remove(chosen, yes=yes) or status


def _select_old(ended_before: float, keep: int) -> list[RemovableSession]:
    """Returns the sessions that ended before a Unix time, except the last `keep`."""
    ended = _find_all_removable(session.name for session in sessions.list_sessions() if session.state != "running")
    ended.sort(key=lambda session: session.ended, reverse=True)
    return [session for session in ended[keep:] if session.ended <= ended_before]


def _find_all_removable(names: Iterable[str]) -> list[RemovableSession]:
    """Returns the named sessions that can be removed; prints an error for each of the others."""
    removable = []
    for name in names:
        try:
            removable.append(find_removable(name))
        except GmgError as error:
            note(f"gmg-tui: {error}")
    return removable


def _remove(chosen: list[RemovableSession], *, yes: bool) -> int:
    """Removes the sessions, asking first unless `yes`; returns the exit status. Raises `GmgError`."""
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise GmgError("without a terminal to ask on, nothing was removed; add --yes")
        if not click.confirm(f"remove {units.count(len(chosen), 'session')}?", err=True):
            print("nothing was removed")
            return 1
    removed = 0
    for number, session in enumerate(chosen, 1):
        try:
            with waiting(f"removing {session.name} ({number} of {len(chosen)})"):
                if find_removable(session.name) != session:
                    raise GmgError(f"{session.name} has changed meanwhile; it was not removed", 1)
                remove(session.folder)
        except GmgError as error:
            note(f"gmg-tui: {error}")
        else:
            removed += 1
    print(f"{units.count(removed, 'session')} removed")
    return 0 if removed == len(chosen) else 1


def find_removable(name: str) -> RemovableSession:
    """Returns the session called `name`. Raises `GmgError` if it does not exist, is a link, or may be running."""
    folder = sessions.sessions_folder() / name
    try:
        sessions.check_name(name)
        status = folder.lstat()
    except PermissionError as error:
        raise sessions.unreadable_error(folder, error) from error
    except (GmgError, OSError):
        raise GmgError(f"there is no session {name}; gmg-tui ls lists them", 1) from None
    if not stat.S_ISDIR(status.st_mode):
        raise GmgError(f"{folder} is a link or file, not a folder; remove it yourself", 1)
    with suppress(OSError):
        sessions.restore_rights(folder)
    entry = sessions.inspect(folder)
    if entry is None:
        if sessions.is_locked(folder) or abs(time.time() - status.st_mtime) < _START_GRACE_S:
            raise GmgError(f"{name} is starting, or has failed to start; try again in a minute", 1)
        return RemovableSession(name, folder, "damaged", status.st_mtime)
    if entry.state == "running":
        raise GmgError(entry.remark or f"{name} is running; end it first: gmg-tui stop {name}", 1)
    ended = entry.record.ended
    if ended is None and sessions.processes_of(entry.record.session):
        raise GmgError(f"{name} was lost, and some of its processes are still running; try again in a minute", 1)
    return RemovableSession(name, folder, entry.state, entry.written if ended is None else min(ended, entry.written))


def sessions_without_record() -> Iterator[RemovableSession]:
    """Yields sessions without a readable record: damaged, or left by a command killed before its engine started."""
    for folder in sessions.folders():
        if sessions.read_record(folder) is None:
            try:
                yield find_removable(folder.name)
            except GmgError:  # a link, or starting
                continue


def remove(folder: Path) -> None:
    """Removes a session's folder, holding its lock so that no engine starts there.

    If interrupted, the rest is listed as damaged, and can be removed later. Raises `GmgError`.
    """
    try:
        with ExitStack() as stack:
            log = folder / sessions.ENGINE_LOG
            # If the log is not a regular file, a script replaced it, and no engine has it open.
            if not os.path.islink(log) and (os.path.isfile(log) or not os.path.exists(log)):
                stack.callback(os.close, sessions.lock(folder))
            check_own(folder.parent)  # may have been replaced since `find_removable`
            remove_tree(folder)
    except OSError as error:
        raise GmgError(f"cannot remove {error.filename or folder}: {error.strerror}", 1) from error
