"""Files that appear whole or not at all, and folders that are private to the user."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_atomic(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write `data`, or its parts, to `path` atomically, replacing the file that is there; links are followed.

    The data reaches the disk before the name, so that a power cut leaves the old file or the complete one.

    Raises:
        OSError: The folder is missing, full or not writable, or `path` is not a regular file; nothing is left behind.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def open_regular(path: Path) -> int:
    """A descriptor to read a regular file by.

    Raises:
        OSError: It is not there, or is no regular file: a pipe may block for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def make_own(folder: Path) -> None:
    """Create `folder`, or take one that is there, for this user alone (mode 0700); links are not followed.

    Raises:
        OSError: It cannot be made, or belongs to another user, who may have made it first in a shared folder.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise PermissionError(errno.EACCES, "it belongs to another user", str(folder))
    if stat.S_IMODE(about.st_mode) != 0o700:
        folder.chmod(0o700)


def make_private(folder: Path) -> None:
    """Create `folder` and its missing parents, private to this user (mode 0700). Raises `OSError`."""
    if not folder.parent.is_dir():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
