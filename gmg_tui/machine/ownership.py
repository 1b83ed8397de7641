"""Whose the files on a machine with other users are; in a user namespace, the owner of some is unknown."""

import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from gmg_tui.machine.files import components

OVERFLOW_ID = 65534
"""The apparent owner of unmapped users' files in a user namespace, such as root's in Apptainer (user_namespaces(7))."""


def user_name(uid: int) -> str:
    """Returns a user's name, or `user UID` if there is no passwd entry."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def owners(*paths: str | Path) -> Iterator[tuple[Path, int]]:
    """Yields the existing components of these paths (folders, links, files), each with its owner's user ID."""
    for path in paths:
        with suppress(OSError):
            for component, status, _ in components(Path(path)):
                yield component, status.st_uid


def owner_names(owned: Iterable[tuple[Path, int]]) -> list[str]:
    """Returns the names of the users in `owned` (see `owners`): an ID may belong to another user on another machine.

    An ID without a name, as of a host's user in a container, has the name `user UID`: no user with that ID can log in.
    """
    return sorted({user_name(uid) for _, uid in owned if uid != ambiguous_id()})


def foreign_owner(path: Path, names: Collection[str]) -> tuple[Path, str] | None:
    """Returns the first component of `path`, and its owner's name, that is not this user's, root's or one of `names`.

    Raises `OSError` if a component is missing.
    """
    trusted = administrators()
    for component, status, _ in components(path):
        uid = status.st_uid
        is_known = uid != ambiguous_id() and user_name(uid) in names
        if not (is_known or uid in trusted or uid == os.getuid()):
            return component, user_name(uid)
        # Inside a world-writable folder, an unmapped owner may be anyone.
        trusted = (0,) if status.st_mode & stat.S_IWOTH else administrators()
    return None


def others_can_create(path: Path) -> bool:
    """True if `path` is missing, and a group or all users may write to the folder in which it, or a parent, would be."""
    found = deque[os.stat_result](maxlen=1)
    try:
        found.extend(status for _, status, _ in components(path))
    except OSError:
        mode, gid = found[0].st_mode, found[0].st_gid
        return bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and not is_own_group(gid))
    return False


def unmapped_id() -> int | None:
    """Returns the user ID shown for all users unknown in this user namespace, such as root; None if it is a user's."""
    has_nobody = any(first <= OVERFLOW_ID < first + count for first, _, count in _user_map())
    return None if has_nobody else OVERFLOW_ID


def ambiguous_id() -> int | None:
    """Returns the user ID that any user outside this user namespace may have; None outside of all namespaces.

    A rootless container may have a user with this ID, too.
    """
    return None if _user_map() == [[0, 0, 2**32 - 1]] else OVERFLOW_ID


def administrators() -> tuple[int, ...]:
    """Returns the user IDs that may be root's."""
    unmapped = unmapped_id()
    return (0,) if unmapped is None else (0, unmapped)


@cache
def _user_map() -> list[list[int]]:
    """Returns the rows of this user namespace: the first ID in it, the first outside, and the number of IDs."""
    return [[*map(int, line.split())] for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]


def is_own_group(gid: int) -> bool:
    """True for root's group, and a group with this user as its only member, as many systems create for each user."""
    if gid == 0:  # in a user namespace it may be any group of this user
        return ambiguous_id() is None
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
