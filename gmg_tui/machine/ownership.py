"""Whose the files on a machine with other users are; in a user namespace, the owner of some is unknown."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

MAX_LINKS = 40
"""Maximum links on a path, as in the kernel (path_resolution(7)): links may form a loop."""
_MAX_PLAIN_ID = 61_183
"""Higher IDs may be dynamic (systemd), or other users' in containers (subuid(5)), whoever has them on another machine."""
OVERFLOW_ID = 65534
"""The apparent owner of unmapped users' files in a user namespace, such as root's in Apptainer (user_namespaces(7))."""


MISSING = FileNotFoundError, NotADirectoryError
"""Errors for a missing component of a path; after any other, its components are unknown."""


def components(
    path: Path, check: Callable[[Path], None] = lambda _: None
) -> Iterator[tuple[Path, os.stat_result, bool]]:
    """Yields the folders and links that lead to `path`, and its target: each one's path, status, and True for the target.

    Starts at the root; after a link, `..` is the parent of the link's target, as for the kernel. Calls `check` before it looks
    at one. Raises `OSError` if one is missing, if links form a loop, or at the end if the kernel follows one of them elsewhere.
    """
    component, names, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    while links <= MAX_LINKS:
        check(component)
        status = component.lstat()
        yield component, status, not names
        if stat.S_ISLNK(status.st_mode):
            names += reversed((component.parent / component.readlink()).parts[1:])
            component, links = Path("/"), links + 1
        if not names:
            if not os.path.samestat(path.stat(), status):
                raise OSError(errno.ESTALE, "the path is not the same for all processes", str(path))  # as in /proc
            return
        component = component.parent if (name := names.pop()) == ".." else component / name
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


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


def put_by_another(
    path: Path, trusted: Collection[int] = (), check: Callable[[Path], None] = lambda _: None
) -> str | None:
    """Returns which component of a path a user who is not `trusted` has put into a folder of all users; None if none is.

    Does not follow that user's links, as they may lead to a disk that hangs. Calls `check` before it looks at a component.
    """
    is_public = False
    try:
        for component, status, _ in components(path, check):
            if is_public and status.st_uid not in {os.getuid(), 0, *trusted} - {ambiguous_id()}:
                return f"{component} belongs to {user_name(status.st_uid)}"
            is_public = is_public_folder(status)
    except PermissionError:  # not even the owner can be seen, as in another user's FUSE file system
        return f"{path} may be another user's" if is_public else None
    except OSError:  # it is missing, for example
        return None
    return None


def public_components(*paths: str | Path) -> Iterator[tuple[Path, int | None]]:
    """Yields the components of these paths in public folders, such as `/tmp`, each with its owner's user ID.

    The ID is None, and the path the whole one, if such a component is missing, or cannot be determined.
    """
    yield from ((component, uid) for component, uid, is_public in _owned(*paths) if is_public)


def _owned(*paths: str | Path) -> Iterator[tuple[Path, int | None, bool]]:
    """Yields all components of these paths, like `public_components`, and whether each is in a public folder."""
    for path in paths:
        is_public = False
        try:
            for component, status, _ in components(Path(path)):
                yield component, status.st_uid, is_public
                is_public = is_public_folder(status)
        except OSError as error:
            if is_public or not isinstance(error, MISSING):
                yield Path(path), None, True


def path_owners(*paths: str) -> dict[str, int]:
    """Returns the owners' user IDs of the existing components of these paths."""
    return {str(component): uid for component, uid, _ in _owned(*paths) if uid is not None}


def changed_owner(paths: Iterable[str], known: Mapping[str, int], *, elsewhere: bool = False) -> str | None:
    """Returns the reason why code at `paths` must not run: another than the `known` owner could have replaced it; else None.

    `known` are the results of an earlier `path_owners`. If that was `elsewhere`, on another machine, all components
    count, not only those in public folders: a folder may be another user's here.
    """
    for component, uid, is_public in _owned(*paths):
        if uid is None:
            return f"{component} is missing, and others could create it: not run"
        is_new = uid not in (0, os.getuid(), known.get(str(component)))
        if is_new and (is_public or (elsewhere and uid != ambiguous_id())):
            return f"{component} belongs to {user_name(uid)}, unlike when the session was started: not run; if you trust it, start a new session"
    return None


def marks(owned: Iterable[tuple[Path, int]]) -> list[str]:
    """Returns marks of the users in `owned` (see `owners`) for other machines, which compare them with `known_as`.

    This user's name may be another's there, unless the ID is the same, too. Any other user is known by name, and by ID
    where it has no name, as on nodes that know few users, or in a container.
    """
    found = set[str]()
    for uid in {uid for _, uid in owned} - {ambiguous_id()}:
        own, name, number = known_as(uid)
        found |= {own} if uid == os.getuid() else {name, number}
    return sorted(filter(None, found))


def known_as(uid: int) -> tuple[str, str, str]:
    """Returns a user's mark for the same user, the name, and the mark for others without one; empty if unknown or unsafe."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return f"{uid}/{name}" if name else "", name, f"#{uid}" if uid <= _MAX_PLAIN_ID else ""


def refusal(path: Path, trusted_marks: Collection[str]) -> str | None:
    """Returns the reason why code at `path`, trusted on another machine, must not run here; None if it may.

    Each component must be this user's, root's, or of one with these `marks` there.
    """
    trusted = administrators()
    try:
        for component, status, _ in components(path):
            uid = status.st_uid
            if component.parts[1:2] == ("proc",):
                return f"{component} is not the same for all processes: not run"
            same, name, number = known_as(uid)
            is_known = uid != ambiguous_id() and bool({same, name or number} & {*trusted_marks} - {""})
            if not (is_known or uid in trusted or uid == os.getuid()):
                return f"{component} belongs to {user_name(uid)} here, unlike on the session's machine: not run"
            # Inside a public folder, an unmapped owner may be anyone.
            trusted = (0,) if is_public_folder(status) else administrators()
    except OSError as error:
        return f"{path} cannot be used here: {error.strerror}"
    return None


def is_public_folder(status: os.stat_result) -> bool:
    """True for a folder where users create files who do not trust each other: all, or, with the sticky bit, a group."""
    mode = status.st_mode
    is_of_group = mode & stat.S_IWGRP and mode & stat.S_ISVTX and not is_own_group(status.st_gid)
    return stat.S_ISDIR(mode) and bool(mode & stat.S_IWOTH or is_of_group)


def others_can_write(status: os.stat_result) -> bool:
    """True if a group or all users may write to a folder, perhaps only their own files (sticky bit)."""
    mode = status.st_mode
    return bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and not is_own_group(status.st_gid))


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
        # Not getpwall: a directory service may take long to list all users.
        accounts = [line.split(":") for line in Path("/etc/passwd").read_text("utf-8", "replace").splitlines()]
    except (KeyError, OSError):
        return False
    members = {*group.gr_mem, *(fields[0] for fields in accounts if fields[3:4] == [str(gid)])}
    return group.gr_name == user.pw_name and not members - {user.pw_name}
