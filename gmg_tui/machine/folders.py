"""Folders on a machine with other users: XDG folders, checks of trust, private and locked folders, and removal.

Ignores relative paths in XDG variables, as the specification requires. Nothing here follows a link or opens a file that
another user may have put into a shared folder.
"""

import errno
import fcntl
import math
import os
import pwd
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple, Self

from gmg_tui.machine.files import write_atomic
from gmg_tui.machine.ownership import MISSING, administrators, components, is_own_group, others_can_write

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_LISTED_ENTRIES = 10_000
"""Maximum entries to read in a shared folder, and in any folder per pass."""
_MAX_SEARCH_S = 2.0
"""Maximum seconds to search a shared folder."""
_MAX_REMOVED_ENTRIES = 100_000
"""Maximum entries to remove from an abandoned folder."""
_MAX_CREATE_ATTEMPTS = 10


def home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns `HOME`, else the passwd entry's home; None without either, as for a random user ID in a container."""
    folder = environ.get("HOME", "")
    return Path(folder) if folder.startswith("/") else passwd_home()


def passwd_home() -> Path | None:
    """Returns the home folder in the user's passwd entry; None if unknown."""
    with suppress(KeyError):
        folder = pwd.getpwuid(os.getuid()).pw_dir
        return Path(folder) if folder.startswith("/") else None
    return None


def homes() -> list[Path]:
    """Returns the results of `home` and `passwd_home`, omitting None."""
    return [folder for folder in (home(), passwd_home()) if folder is not None]


def config_folder() -> Path | None:
    """Returns `XDG_CONFIG_HOME`, else `~/.config`; None without a home folder."""
    return _folder("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path | None:
    """Returns `XDG_STATE_HOME`, else `~/.local/state`; None without a home folder."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, below_home: str) -> Path | None:
    given = os.environ.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    folder = home()
    return folder / below_home if folder is not None else None


class OpenFolder(NamedTuple):
    """A folder with a descriptor, which never refers to another folder of that name, and may hold the folder's lock."""

    path: Path
    descriptor: int

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens the folder at `path`, which must not be a link. Raises `OSError`."""
        return cls(path, os.open(path, _FOLDER_FLAGS))

    @property
    def id(self) -> str:
        """The device and inode, which no other folder has while this one is open."""
        status = os.fstat(self.descriptor)
        return f"{status.st_dev}:{status.st_ino}"

    def restore(self) -> "OpenFolder":
        """Returns itself, or the folder made and locked again if it was removed. Raises `OSError`."""
        if os.fstat(self.descriptor).st_nlink:
            return self
        folder = make_locked(self.path)
        os.close(self.descriptor)
        return folder

    def remove(self, max_entries: int | None = None) -> None:
        """Removes up to `max_entries` entries, then the folder if it is empty; closes the descriptor. Ignores errors."""
        with suppress(OSError):
            empty_folder(self.descriptor, max_entries)
            self.path.rmdir()
        os.close(self.descriptor)


def distrust(folder: Path, *, shared: bool = False, must_exist: bool = False) -> str | None:
    """Returns the reason why another user could change, replace or create `folder`; None if nobody could.

    An existing folder must belong to this user. Its parents, and with `shared` the folder itself, may also be root's,
    and writable by others with the sticky bit, unless the rest of the path is missing: anyone could then create it.
    With `must_exist`, raises `OSError` if anything is missing.
    """
    trusted, public = administrators(), None
    try:
        for component, status, is_last in components(folder):
            if stat.S_ISREG(status.st_mode):  # only folders like `/` and `/tmp` must be an unmapped root's
                trusted = (0,)
            if (reason := _distrust(status, trusted, own=is_last and not shared)) is not None:
                return f"{component} {reason}"
            if component.parts[1:2] == ("proc",):
                return f"{component} is not the same for all processes"
            public = component if stat.S_ISDIR(status.st_mode) and others_can_write(status) else None
            # Inside a shared folder, an unmapped owner may be anyone.
            trusted = (0,) if public is not None else administrators()
    except OSError as error:
        if must_exist:
            raise
        if not isinstance(error, MISSING):
            return f"{folder} cannot be used: {error.strerror}"
        return f"{folder} is missing, and {public} can be changed by others" if public is not None else None
    return None


def check_own(folder: Path, *, shared: bool = False) -> None:
    """Raises `OSError` if a folder is missing, or another user could change or replace it; `shared` as in `distrust`."""
    if reason := distrust(folder, shared=shared, must_exist=True):
        raise PermissionError(errno.EACCES, reason, str(folder))


def _distrust(status: os.stat_result, trusted: tuple[int, ...], *, own: bool) -> str | None:
    user = os.getuid()
    is_link = stat.S_ISLNK(status.st_mode)
    if status.st_uid != user and ((own and not is_link) or status.st_uid not in trusted):
        return f"belongs to user {status.st_uid}"
    if is_link or (status.st_mode & stat.S_ISVTX and not own):
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be changed by all users"
    if status.st_mode & stat.S_IWGRP and not is_own_group(status.st_gid):
        return f"can be changed by group {status.st_gid}"
    return None


def make_own(folder: Path) -> None:
    """Creates `folder` for this user alone (mode 0700), or checks an existing one, without following links.

    Raises `OSError` if it cannot be created, or if another user owns it, could replace it, or could have moved it here.
    """
    check_own(folder.parent, shared=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EACCES, "it is a link, or belongs to another user", str(folder))
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EACCES, "other users can change it", str(folder))
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)


def make_private(folder: Path) -> None:
    """Creates `folder` and its missing parents, private to this user (mode 0700).

    Raises `OSError` if it cannot be created, or if another user could change or replace it.
    """
    if not os.path.isdir(folder.parent):
        make_private(folder.parent)
    check_own(folder.parent, shared=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_own(folder)  # another user may have been faster


def make_locked(path: Path) -> OpenFolder:
    """Creates a private folder, whose parent may be shared, or takes an own one, and locks it. Raises `OSError`."""
    check_own(path.parent, shared=True)
    for _ in range(_MAX_CREATE_ATTEMPTS):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            path.chmod(0o700)  # whatever the umask
        if (folder := _lock(path)) is not None:
            return folder
    with suppress(OSError):
        path.rmdir()
    raise OSError(errno.EBUSY, "another user or process has taken it", str(path))


def remove_abandoned(
    parent: Path, prefix: str, is_wanted: Callable[[str, int], bool] | None = None, before: float = math.inf
) -> None:
    """Removes this user's unlocked private folders in `parent` with this prefix, unless `is_wanted(name, descriptor)`.

    Leaves those alone that were changed after the Unix time `before`: they may be about to be locked. Others can neither
    move a private folder here nor rename one, except in a `parent` that is not safe to share. They may have made any number
    of entries: stops after `_MAX_SEARCH_S`.
    """
    if distrust(parent, shared=True) is not None:
        return
    until = time.monotonic() + _MAX_SEARCH_S
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in takewhile(lambda _: time.monotonic() < until, entries):
            if not (entry.name.startswith(prefix) and _is_own(entry, before)):
                continue
            if (folder := _lock(Path(entry.path))) is not None:
                if is_wanted is not None and is_wanted(entry.name, folder.descriptor):
                    os.close(folder.descriptor)
                else:
                    folder.remove(_MAX_REMOVED_ENTRIES)


def _is_own(entry: os.DirEntry[str], before: float) -> bool:
    """True for an existing entry of this user that was not changed after the Unix time `before`."""
    try:
        status = entry.stat(follow_symlinks=False)
        return status.st_uid == os.getuid() and status.st_mtime < before
    except OSError:
        return False


def _lock(path: Path) -> OpenFolder | None:
    """Locks a private folder of this user. Returns None if it is not one, or another process locked or removed it."""
    with ExitStack() as stack, suppress(OSError):
        descriptor = os.open(path, _FOLDER_FLAGS)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        is_private = status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == 0o700
        if is_private and os.path.samestat(status, path.lstat()):
            stack.pop_all()
            return OpenFolder(path, descriptor)
    return None


def remove_tree(folder: Path) -> None:
    """Removes a folder with its contents, at any depth and of any mode, without following links. Raises `OSError`."""
    descriptor = _open_folder(str(folder), None)
    try:
        empty_folder(descriptor)
    finally:
        os.close(descriptor)
    folder.rmdir()


def remove_own(folder: Path) -> None:
    """Removes a gmg-tui folder, unless another user could have replaced it; ignores errors."""
    with suppress(OSError):
        check_own(folder)
        remove_tree(folder)


def empty_folder(descriptor: int, max_entries: int | None = None) -> None:
    """Removes up to `max_entries` entries of an open folder, without entering another file system.

    Moves inner folders up and empties them one by one, so that depth costs neither stack nor descriptors. Raises `OSError`
    if an entry cannot be removed, or if there are more.
    """
    for removed, (name, is_folder, parent) in enumerate(_entries(descriptor), 1):
        if max_entries is not None and removed > max_entries:
            raise OSError(errno.EFBIG, "too many files", name)
        if not is_folder:
            os.unlink(name, dir_fd=parent)
        elif parent == descriptor:
            os.rmdir(name, dir_fd=parent)
        else:
            os.close(_open_folder(name, parent))  # a folder can be moved only if it is writable
            os.rename(name, f".{os.urandom(8).hex()}", src_dir_fd=parent, dst_dir_fd=descriptor)


def files_in(folder: Path) -> Iterator[os.stat_result]:
    """Yields the status of each file in a folder, at any depth, skipping links and anything unreadable."""
    folders = [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:  # removed, unreadable, or nested too deeply
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False)


def write_own(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replaces a file in a gmg-tui folder, or anything that a script has put in its place.

    Raises `OSError` like `write_atomic`, and if another user could have replaced the folder.
    """
    check_own(path.parent)
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            remove_tree(path)
        elif not stat.S_ISREG(mode):
            path.unlink()
    write_atomic(path, data)


def _entries(descriptor: int) -> Iterator[tuple[str, bool, int]]:
    """Yields entries of a folder and its inner folders until the caller has removed all: name, is folder, parent."""
    while entries := _list(descriptor):
        for name, is_folder in entries:
            if is_folder:
                inner = _open_folder(name, descriptor)
                try:
                    if os.fstat(inner).st_dev != os.fstat(descriptor).st_dev:
                        raise OSError(errno.EXDEV, "another file system is mounted there", name)
                    while inner_entries := _list(inner):
                        yield from ((*entry, inner) for entry in inner_entries)
                finally:
                    os.close(inner)
            yield name, is_folder, descriptor


def _list(descriptor: int) -> list[tuple[str, bool]]:
    with os.scandir(descriptor) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, _MAX_LISTED_ENTRIES)]


def _open_folder(name: str, parent: int | None = None) -> int:
    """Opens a folder, in the open folder `parent` if given; first makes it accessible if it is this user's. Raises `OSError`."""
    path_only = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        status, link = os.fstat(path_only), f"/proc/self/fd/{path_only}"
        if status.st_uid == os.getuid() and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(link, stat.S_IRWXU)  # noqa: PTH101 - by its descriptor
        return os.open(link, _FOLDER_FLAGS & ~os.O_NOFOLLOW)
    finally:
        os.close(path_only)


def temporary_folders() -> list[Path]:
    """Returns the folder for temporary files; none if none can be written, as in a read-only container."""
    with suppress(FileNotFoundError):
        return [Path(tempfile.gettempdir())]
    return []


def runtime_folder() -> Path | None:
    """Returns `$XDG_RUNTIME_DIR`, which may not exist; None if unset, or if another user could change it."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder) if folder and distrust(Path(folder)) is None else None
