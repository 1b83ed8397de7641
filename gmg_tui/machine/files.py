"""Atomic writes, safe reads, locks, and logs of limited size.

A log that grows too large loses its middle. Readers' offsets refer to the stream of all bytes ever written; `Cut` maps
them to offsets in the file.
"""

import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gmg_tui.machine.ownership import MAX_LINKS, ambiguous_id, components, is_public_folder

HEAD_BYTES = 1 << 20
"""Bytes to keep at the beginning; at most a quarter of the log's limit."""
TAIL_BYTES = 64 << 20
"""Bytes to keep at the end, which each cut copies; at most a quarter of the log's limit."""
_MAX_LINE_BYTES = 64 << 10
"""Bytes to search for the end of a line; a longer line is cut in two."""
_COPY_BYTES = 1 << 20
_CUT_NOTE = re.compile(rb"\n\[gmg-tui\] (\d{1,3}(?:,\d{3}){0,5}) bytes are cut out here: [^\n]*\n")
_MAX_NOTE_BYTES = 200


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> os.stat_result:
    """Atomically replaces the file at `path` with `data` (bytes, or chunks of them), even across a power cut.

    Follows links, except other users'. Returns the new file's status, for `remove_written`. Raises `OSError` and leaves
    nothing behind if writing fails, or if `path` is not a regular file.
    """
    path = _resolve(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        Path(temporary).replace(path)
        return written
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_written(path: Path, written: os.stat_result) -> None:
    """Removes the file that `write_atomic` wrote to `path`, unless it was replaced or changed. Raises `OSError`."""
    with suppress(FileNotFoundError):
        path = _resolve(path)
        status = path.lstat()
        if (status.st_dev, status.st_ino, status.st_mtime_ns) == (written.st_dev, written.st_ino, written.st_mtime_ns):
            path.unlink()


def _resolve(path: Path) -> Path:
    """Resolves a path. Raises `OSError` for another user's link (except root's) at its end or in a folder like `/tmp`.

    The kernel's `protected_symlinks` covers only folders with the sticky bit. Checks each component once, since in a
    folder that others can write to, it may change between two checks.
    """
    trusted_owners = {os.geteuid(), 0} - {ambiguous_id()}
    for _ in range(MAX_LINKS):
        folder, is_public = Path("/"), False
        for folder, status, _ in components(path.parent):
            if stat.S_ISLNK(status.st_mode) and is_public and status.st_uid not in trusted_owners:
                raise PermissionError(errno.EACCES, "a link of another user", str(folder))
            is_public = is_public_folder(status)
        path = folder / path.name
        try:
            status = path.lstat()
        except FileNotFoundError:
            return path
        if not stat.S_ISLNK(status.st_mode):
            return path
        if status.st_uid not in trusted_owners:
            raise PermissionError(errno.EACCES, "a link of another user", str(path))
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def open_regular(path: Path | str, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """Opens a regular file, for reading by default. Returns its descriptor.

    With an open `folder`, the path is relative to it and must not be a link. Raises `OSError` if the file cannot be
    opened or is not a regular one: merely opening a device or a pipe may have side effects, or block forever.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (os.O_NOFOLLOW if folder is not None else 0)
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC | (flags & os.O_NOFOLLOW), dir_fd=folder)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    else:
        try:
            _check_regular(found, path)
            # Not by its path, which may lead elsewhere by now.
            descriptor = os.open(f"/proc/self/fd/{found}", flags & ~(os.O_CREAT | os.O_NOFOLLOW))
        finally:
            os.close(found)
    try:
        _check_regular(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(descriptor: int, path: Path | str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def open_for_reading(path: Path) -> BinaryIO:
    """Opens a regular file for reading. Raises `OSError`."""
    return os.fdopen(open_regular(path), "rb")


def lock_trouble(folder: Path, lock: Callable[[int, int], object]) -> str | None:
    """Returns the reason why `fcntl.flock` or `fcntl.lockf` (`lock`) fails in `folder`; None if it works or is unknown.

    Lustre without `-o flock`, and some NFS mounts, have no locks.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            try:
                lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return f"{'flock' if lock is fcntl.flock else 'fcntl'}: {error.strerror}"
    except OSError:
        return None
    return None


def start_of_last_lines(file: int, lines: int) -> int:
    """Returns the offset at which the last `lines` lines of an open file begin. Raises `OSError`."""
    offset = os.fstat(file).st_size
    line_ends = lines + (os.pread(file, 1, offset - 1) == b"\n") if offset and lines else 0
    while line_ends > 0 and offset > 0:
        begin = max(0, offset - _MAX_LINE_BYTES)
        block = os.pread(file, offset - begin, begin)
        if (count := block.count(b"\n")) >= line_ends:
            cut = len(block)
            for _ in range(line_ends):
                cut = block.rfind(b"\n", 0, cut)
            return begin + cut + 1
        line_ends, offset = line_ends - count, begin
    return offset


class Cut(NamedTuple):
    """A gap in a log: the offsets of its note in the file, and the number of missing bytes."""

    start: int = 0
    end: int = 0
    missing: int = 0

    def in_stream(self, offset: int) -> int:
        """Converts an offset in the file to one in the stream."""
        return offset if offset <= self.start else max(offset, self.end) - self.end + self.start + self.missing

    def in_file(self, offset: int) -> int:
        """Converts an offset in the stream to one in the file; in the gap, the offset of the note."""
        if offset <= self.start:
            return offset
        return self.start if offset < self.start + self.missing else offset - self.missing - self.start + self.end


def find_cut(log: BinaryIO) -> Cut:
    """Returns the gap in the middle of `log`, empty if nothing is missing. Raises `OSError`."""
    log.seek(0)
    note = _CUT_NOTE.search(log.read(HEAD_BYTES + _MAX_NOTE_BYTES))
    return Cut() if note is None else Cut(note.start(), note.end(), int(note[1].replace(b",", b"")))


def cut_log(path: Path, max_bytes: int) -> None:
    """Cuts out the middle of a log larger than `max_bytes`. On failure, raises `OSError` and leaves the log unchanged.

    Replaces the file: open descriptors keep the old one.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.cut")
    try:
        new_file = open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(new_file, "wb") as new, open_for_reading(path) as old:
            old_cut = find_cut(old)
            size = old.seek(0, os.SEEK_END)
            head = old_cut.start or _after_line(old, min(HEAD_BYTES, max_bytes // 4) - _MAX_LINE_BYTES)
            tail = _after_line(old, max(size - min(TAIL_BYTES, max_bytes // 4), old_cut.end, head))
            missing = old_cut.in_stream(tail) - head
            _copy(old, 0, new, head)
            new.write(f"\n[gmg-tui] {missing:,} bytes are cut out here: --log-max is {max_bytes >> 20} MiB\n".encode())
            _copy(old, tail, new, size - tail)
            new.flush()
            os.fsync(new.fileno())  # before the rename: a power cut could otherwise leave neither
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _after_line(log: BinaryIO, offset: int) -> int:
    """Returns the offset after the line at `offset`, or `offset` if the line is too long."""
    log.seek(offset)
    return offset + log.read(_MAX_LINE_BYTES).find(b"\n") + 1


def _copy(source: BinaryIO, offset: int, target: BinaryIO, size: int) -> None:
    source.seek(offset)
    while size > 0 and (data := source.read(min(_COPY_BYTES, size))):
        target.write(data)
        size -= len(data)
