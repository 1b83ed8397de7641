"""Files that appear whole or not at all, and folders that are private to the user."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

_READER_S = 2.0
"""How long a pipe may have no reader, or one that does not read."""
_LOOK_S = 0.05
_PIECE_BYTES = select.PIPE_BUF
"""A pipe that can be written takes so much without a wait (pipe(7))."""
_MOST_LINKS = 40


def write_atomic(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write `data`, or its parts, to `path` atomically, replacing what may be there.

    The data reaches the disk before the name, so that a power cut leaves the old file or the complete one.

    Raises:
        OSError: The folder is missing, full or not writable; nothing is left behind.
    """
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


def write_where_asked(path: Path, data: bytes) -> bool:
    """Put `data` into the file that a person has named.

    Links are followed. A regular file is replaced at once, as by `write_atomic`; all else is written into: a pipe, a
    terminal, `/dev/null`, `/dev/stdout`.

    Returns:
        Whether it is a regular file's name.

    Raises:
        OSError: It cannot be written, nobody reads the pipe, or it is a block device.
    """
    if is_replaced(path):
        write_atomic(path.resolve(), data)
        return True
    if stat.S_ISBLK(path.stat().st_mode):
        raise OSError(errno.EINVAL, "a block device, which is not written to", str(path))
    descriptor = _open(path)
    try:
        for start in range(0, len(data), _PIECE_BYTES):
            _write_piece(descriptor, data[start : start + _PIECE_BYTES])
    finally:
        os.close(descriptor)
    return False


def is_replaced(path: Path) -> bool:
    """Whether the name is a regular file's, or free; not where it stands for an open file (`/dev/stdout`)."""
    try:
        return stat.S_ISREG(path.stat().st_mode) and open_file(path) is None
    except FileNotFoundError:
        return True


def open_file(path: Path) -> Path | None:
    """The open file of a process, `/proc/PID/fd/N`, that `/dev/stdout`, `/dev/fd/3` and the like lead to; else None."""
    for _ in range(_MOST_LINKS):
        path = path.parent.resolve() / path.name
        if re.fullmatch(r"/proc/\d+(/task/\d+)?/fd", str(path.parent)):
            return path
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _open(path: Path) -> int:
    """A descriptor for what is no regular file, or an open one."""
    opened = open_file(path)
    if opened is not None and opened.parts[2] == str(os.getpid()):
        return os.dup(int(opened.name))  # with its own offset, and where it is a socket, which cannot be opened
    deadline = time.monotonic() + _READER_S
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_S)  # a pipe without a reader, which may be about to come


def _write_piece(descriptor: int, piece: bytes) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    while piece:
        if not poll.poll(_READER_S * 1000):
            raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")
        try:
            piece = piece[os.write(descriptor, piece) :]
        except BlockingIOError:
            continue  # a terminal that takes less than a pipe does


def open_regular(path: Path) -> int:
    """A descriptor to read a regular file by, of which anything else may have taken the place.

    Raises:
        OSError: It is not there, or is no regular file: a pipe may block for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "no regular file", str(path))


def make_private(folder: Path) -> None:
    """Create `folder` and its missing parents, private to this user (mode 0700). Raises `OSError`."""
    if not folder.parent.is_dir():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
