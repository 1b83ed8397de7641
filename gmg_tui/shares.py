"""Where a session can be looked at by other users of this machine: a socket in a folder of its own.

`$XDG_RUNTIME_DIR` is closed to others, so it is below `/tmp`, which all users have in common.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui import sockets
from gmg_tui.errors import GmgError

FOLDER: Final = Path("/tmp")  # noqa: S108 - what is made there is checked for its owner, and so is who listens
_PREFIX: Final = "gmg-tui-shared-"
_SOCKET: Final = "session.sock"


class Address(NamedTuple):
    """A session of another user: `USER/NAME`."""

    user: str
    """The owner's name, or number where it has none."""
    uid: int
    name: str
    """The session's."""

    def __str__(self) -> str:
        return f"{self.user}/{self.name}"

    @property
    def path(self) -> Path:
        """Its socket."""
        return path_of(self.uid, self.name)


def path_of(uid: int, name: str) -> Path:
    """The socket at which the session `name` of a user can be looked at."""
    return FOLDER / f"{_PREFIX}{uid}-{name}" / _SOCKET


def user_name(uid: int) -> str:
    """The name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_of(name: str) -> int:
    """The number of the group `name`, which may be a number too. Raises `GmgError` where there is none."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if name.isascii() and name.isdecimal() and int(name) < 2**32 - 1:
            return int(name)
    raise GmgError(f"--group {name}: there is no such group on this machine")


def parse(text: str) -> Address:
    """The address `USER/NAME`. Raises `GmgError` where it is none, or there is no such user."""
    user, _, name = text.partition("/")
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        if not (user.isascii() and user.isdecimal()):
            raise GmgError(f"{text}: there is no user {user or 'without a name'} on this machine", 1) from None
        uid = int(user)
    if not name or "/" in name:
        raise GmgError(f"{text}: give USER/NAME; {_said(user, uid)}", 1)
    return Address(user, uid, name)


def check(address: Address) -> None:
    """Raise `GmgError` unless its owner shares the session with this user."""
    folder = address.path.parent
    try:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != address.uid:
            raise GmgError(f"{folder} is not {address.user}'s; nothing is opened there", 1)
        address.path.lstat()
    except FileNotFoundError:
        raise GmgError(
            f"{address.user} does not share a session {address.name}; {_said(address.user, address.uid)}", 1
        ) from None
    except PermissionError:
        try:
            group = grp.getgrgid(about.st_gid).gr_name
        except KeyError:
            group = str(about.st_gid)
        raise GmgError(f"{address} is shared with the group {group}, which you are not in", 1) from None


def _said(user: str, uid: int) -> str:
    """What a user shares, as the last clause of a line."""
    return f"{user} shares: {', '.join(shared_by(uid)) or 'none'}"


def shared_by(uid: int) -> list[str]:
    """The names of the sessions that a user shares, with whomever."""
    start = f"{_PREFIX}{uid}-"
    try:
        found = [entry.name for entry in os.scandir(FOLDER) if entry.name.startswith(start)]
    except OSError:
        return []
    return sorted(name.removeprefix(start) for name in found)


def remove_stale(name: str) -> None:
    """Remove what a killed engine of this user has left of a share. Raises `OSError`."""
    path = path_of(os.getuid(), name)
    if path.parent.is_dir() and path.parent.lstat().st_uid == os.getuid():
        sockets.remove_stale(path)
        path.parent.rmdir()
