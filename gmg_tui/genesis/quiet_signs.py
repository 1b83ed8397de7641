"""What can be seen of a worker whose Genesis prints nothing (`logging_level="warning"`), from outside.

All mesh caches are written before the first kernel of the simulation is compiled (Genesis 1.4.5: engine/scene.py
`build`), so files appear in the cache's folder, and then no more. A script whose meshes are all there writes none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

REST_S = 10.0
"""How long nothing must be written before the meshes count as prepared."""
NOTHING_S = 45.0
"""How long after Genesis was imported; by then a worker has begun to write, or it has nothing to write."""

_COMPILERS = (b"/quadrants/", b"/gstaichi/", b"/taichi/")
"""The folders of the compiler's native library: Genesis' from 0.4, of 0.3, and of 0.2."""
_LATE = (b"/coacd/",)

_State = tuple[int, int, int]


class QuietSigns:
    """Watches the mesh cache in `folder` while a worker prepares its scene."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.restart()

    def restart(self) -> None:
        """Another worker begins: what was seen before says nothing about it."""
        self._state: _State | None = None
        self._written_at: float | None = None
        self._imported_at: float | None = None

    def written(self, pids: Iterable[int]) -> bool:
        """Whether the worker with these processes has written its meshes, as far as can be told; reads the disk."""
        now = time.monotonic()
        state = _state(self._folder)
        if self._state is not None and state != self._state:
            self._written_at = now
        self._state = state
        if self._imported_at is None and any(_holds(pid, _COMPILERS) for pid in pids):
            self._imported_at = now
        if self._written_at is not None:
            return now - self._written_at >= REST_S
        return self._imported_at is not None and now - self._imported_at >= NOTHING_S


def _state(folder: Path) -> _State:
    """How many files there are in a cache, their bytes together, and when the newest was written, nanoseconds."""
    count = size = newest = 0
    folders = [os.fspath(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):  # files come and go meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    count, size, newest = count + 1, size + status.st_size, max(newest, status.st_mtime_ns)
    return count, size, newest


def mostly_imported(pids: Iterable[int]) -> bool:
    """Whether one of these processes has loaded what Genesis imports among the last (1.4.5: utils/mesh.py, `coacd`)."""
    return any(_holds(pid, _LATE) for pid in pids)


def _holds(pid: int, folders: Iterable[bytes]) -> bool:
    """Whether a process has loaded a file from one of the folders."""
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    return any(folder in text for folder in folders)
