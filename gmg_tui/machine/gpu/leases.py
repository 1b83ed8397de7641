"""Leases of GPUs among sessions of gmg-tui, which hold before any process is on a GPU.

A lease is a lock by flock(2) on an empty file for each GPU, and ends with its process. The files are in a shared folder
that is root's and sticky, so that nobody can replace another user's file. Only plain files are used.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gmg_tui.machine.folders import distrust, make_private, state_folder, user_name

SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - the same for all users, whatever their TMPDIR
_LOCKS = Path("/proc/locks")
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_TRIES = 50
_READABLE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_NEW_S = 1.0
"""Age up to which a file may be incomplete."""
_RETRY_S = 0.01
_CHOOSING = "choosing"
_COLLECTING = "collecting-"
_CHOICE_S = 5.0
"""Limit of the wait for another session's choice, which takes a fraction of it."""


class Leases:
    """The leases that this process holds, by the GPUs' UUIDs.

    Attributes:
        warning: The reason that some of them do not bind other users; None if all do.
    """

    def __init__(self) -> None:
        state = state_folder()
        self._own = state / "gmg-tui" / "leases" if state is not None else None
        """The private folder, used if no shared folder has locks."""
        self.warning: str | None = None
        self._held: dict[str, tuple[Path, int]] = {}
        """The file of each lease, and its locked descriptor."""

    def acquire(self, uuid: str, *, shared: bool = False) -> bool:
        """Acquires the lease of a GPU, exclusively or `shared`. Returns False if others have it.

        If no folder has locks, returns True.
        """
        if uuid in self._held:
            return True
        lock, in_the_way = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, self.warning
        for folder in (*filter(_is_common, SHARED_FOLDERS), *([self._own] if self._own is not None else [])):
            private = folder == self._own
            file = _file(folder, uuid)
            try:
                if private:
                    make_private(folder)
                self._held[uuid] = file, _lock(file, lock, private)
            except BlockingIOError:
                return False
            except OSError:
                in_the_way = self.warning or _warning(file)
                continue
            self.warning = in_the_way if private else self.warning
            return True
        self.warning = in_the_way
        return True

    def release(self, *uuids: str) -> None:
        """Releases the leases of these GPUs."""
        for uuid in uuids:
            held = self._held.pop(uuid, None)  # at once: a thread may collect GPUs
            if held is None:
                continue
            file, descriptor = held
            if os.fstat(descriptor).st_uid == os.geteuid():  # else another user has replaced the file
                with suppress(OSError):  # shared with others
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
            os.close(descriptor)

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Lets no other session choose in the context: two that take GPUs at once could both get too few."""
        until = time.monotonic() + _CHOICE_S
        while not self.acquire(_CHOOSING) and time.monotonic() < until:
            time.sleep(_RETRY_S)
        try:
            yield
        finally:
            self.release(_CHOOSING)

    def may_collect(self, uuids: Iterable[str]) -> bool:
        """True if this session may hold some of these GPUs while it waits for others; two at once could deadlock."""
        marks = [_COLLECTING + uuid for uuid in uuids]
        if all(self.acquire(mark) for mark in marks):
            return True
        self.release(*marks)
        return False

    def end_collecting(self) -> None:
        """Lets another session collect GPUs."""
        self.release(*(each for each in self._held if each.startswith(_COLLECTING)))


def holders(uuid: str) -> tuple[int, ...]:
    """Returns the PIDs of the processes that have the lease of a GPU, by /proc/locks."""
    pids = []
    for folder in filter(_is_common, SHARED_FOLDERS):
        with suppress(OSError, ValueError):
            about = _file(folder, uuid).lstat()
            file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
            for line in _LOCKS.read_text("ascii").splitlines():
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == file and int(fields[4]) > 0:
                    pids.append(int(fields[4]))
    return tuple(dict.fromkeys(pids))


def _file(folder: Path, uuid: str) -> Path:
    return folder / f"gmg-tui-{re.sub('[^A-Za-z0-9-]', '_', uuid)}.lock"


def _warning(file: Path) -> str | None:
    """Returns the warning about another user's file in place of a lease's; None without one."""
    with suppress(OSError):
        if (owner := file.lstat().st_uid) != os.geteuid():
            return f"leases of GPUs do not bind other users: {file} of {user_name(owner)} is in the way"
    return None


def _is_common(folder: Path) -> bool:
    """True for a folder of root's where all users can create files and nobody can replace another's."""
    with suppress(OSError):
        mode = folder.lstat().st_mode
        is_open = stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH
        return bool(is_open) and distrust(folder, shared=True) is None
    return False


def _lock(path: Path, lock: int, private: bool) -> int:
    """Locks an empty file, which is created if missing. Returns its descriptor.

    Raises:
        BlockingIOError: Another process has the lock.
        OSError: There are no locks, or the file is not an empty plain file that all users can read.
    """
    for _ in range(_MAX_TRIES):
        with ExitStack() as stack, suppress(PermissionError, FileNotFoundError):  # not readable yet; or just removed
            descriptor = _open(path, private)
            stack.callback(os.close, descriptor)
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1 or about.st_size:
                break
            if not private and about.st_mode & _READABLE != _READABLE:  # root could open it, but other users could not
                raise PermissionError
            fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
            if os.path.samestat(about, path.lstat()):
                stack.pop_all()
                return descriptor
        with suppress(FileNotFoundError):
            if time.time() - path.lstat().st_ctime > _NEW_S:
                break
        time.sleep(_RETRY_S)  # another process creates or has removed the file
    raise FileExistsError(f"{path} is not a lease")


def _open(path: Path, private: bool) -> int:
    """Opens or creates a lease's file: for reading, as other users' files can be, but a private one for writing, for NFS."""
    access, mode = (os.O_RDWR, 0o600) if private else (os.O_RDONLY, 0o444)
    with suppress(FileNotFoundError):
        # Without O_CREAT, with which the kernel's `protected_regular` refuses another user's file.
        return os.open(path, _FLAGS | access)
    with suppress(FileExistsError):
        descriptor = os.open(path, _FLAGS | access | os.O_CREAT | os.O_EXCL, mode)
        os.fchmod(descriptor, mode)  # independent of the umask
        return descriptor
    return os.open(path, _FLAGS | access)
