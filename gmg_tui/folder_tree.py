"""Folders with all that is in them: what they take on the disk, and their removal. No link is followed."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gmg_tui import units

_BLOCK_BYTES = 512
"""Of `st_blocks`, on any file system (stat(2))."""
_PART = 256
"""Entries that are measured at a time."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened, and nothing else."""


class Size:
    """What the files below a folder take on its disk, as `du` counts it, but without the folders themselves.

    Attributes:
        bytes: So far.
        entries: How many files and folders were seen so far.
        complete: Whether that is all; never so for what is no folder.
        mounted: A folder below it that is another file system, which is not counted.
    """

    def __init__(self, folder: Path) -> None:
        self.bytes = 0
        self.entries = 0
        self.complete = False
        self.mounted: str | None = None
        self._parts: dict[tuple[str, ...], int] = {}
        self._steps = self._measure(folder)

    def step(self) -> bool:
        """Measure a part of what is left. Returns whether there is more."""
        return next(self._steps, None) is not None

    @property
    def text(self) -> str:
        """It as a person reads it; a lower limit where it is not complete."""
        if self.complete:
            return units.size(self.bytes)
        return f"> {units.size(self.bytes)}" if self.bytes else units.NOT_KNOWN

    def below(self, *parts: str) -> dict[str, int]:
        """The bytes of each entry of the folder `parts`, at most two levels down, that is a file or has one in it."""
        found: dict[str, int] = {}
        for place, size in self._parts.items():
            if len(place) > len(parts) and place[: len(parts)] == parts:
                found[place[len(parts)]] = found.get(place[len(parts)], 0) + size
        return found

    def _measure(self, folder: Path) -> Iterator[bool]:
        flawed = False
        linked: set[int] = set()
        waiting: list[tuple[str, tuple[str, ...]]] = []
        try:
            about = folder.lstat()
        except OSError:
            return
        if not stat.S_ISDIR(about.st_mode):
            return
        waiting.append((str(folder), ()))
        while waiting:
            path, parts = waiting.pop()
            try:
                with os.scandir(path) as entries:
                    listed = list(entries)  # not read bit by bit: many folders are measured in turns
            except OSError as error:
                listed = []
                flawed |= error.errno != errno.ENOENT  # not readable, or too deep; else removed meanwhile
            for entry in listed:
                self._take(entry, (*parts, entry.name)[:2], about.st_dev, linked, waiting)
                if self.entries % _PART == 0:
                    yield True
            yield True
        self.complete = not flawed

    def _take(
        self,
        entry: os.DirEntry[str],
        place: tuple[str, ...],
        device: int,
        linked: set[int],
        waiting: list[tuple[str, tuple[str, ...]]],
    ) -> None:
        self.entries += 1
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # removed meanwhile
        if stat.S_ISDIR(about.st_mode):
            if about.st_dev == device:  # of files an overlay tells the device of its layers
                waiting.append((entry.path, place))
            else:
                self.mounted = entry.path
        elif about.st_ino not in linked:
            if about.st_nlink > 1:
                linked.add(about.st_ino)
            self.bytes += about.st_blocks * _BLOCK_BYTES
            self._parts[place] = self._parts.get(place, 0) + about.st_blocks * _BLOCK_BYTES


def measure(folders: Sequence[Path], timeout_s: float) -> list[Size]:
    """The sizes of folders, as far as they can be measured in that time: small ones are not kept waiting by large ones."""
    sizes = [Size(folder) for folder in folders]
    left, deadline = list(sizes), time.monotonic() + timeout_s
    while left and time.monotonic() < deadline:
        left = [size for size in left if time.monotonic() < deadline and size.step()]
    return sizes


def remove_content(folder: int, tick: Callable[[], object], *, keep: str) -> list[OSError]:
    """Remove everything in a folder but the file `keep`; what could not be removed.

    A folder in it is first moved to the top, whatever its depth, so that no path can be too long. That also fails for
    the mount point of another file system, whose content therefore stays.

    Args:
        folder: The folder, opened by `FOLDER`.
        tick: Called for each file and folder.
        keep: A file's name.
    """
    troubles: list[OSError] = []
    mark = secrets.token_hex(4)
    names = (f".{mark}-{number}" for number in itertools.count())

    def clear(inner: int) -> list[str]:
        moved = []
        with os.scandir(inner) as entries:
            listed = list(entries)
        for entry in listed:
            tick()
            try:
                if entry.is_dir(follow_symlinks=False):
                    _make_writable(entry.name, inner)
                    os.rename(entry.name, name := next(names), src_dir_fd=inner, dst_dir_fd=folder)
                    moved.append(name)
                elif inner != folder or entry.name != keep:
                    os.unlink(entry.name, dir_fd=inner)
            except OSError as error:
                troubles.append(error)
        return moved

    waiting = clear(folder)
    while waiting:
        name = waiting.pop()
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                waiting += clear(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            troubles.append(error)
    return troubles


def _make_writable(name: str, parent: int) -> None:
    """Let this user change a folder of its own that scripts have protected. Raises `OSError`."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(found).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{found}").chmod(stat.S_IRWXU)
    finally:
        os.close(found)
