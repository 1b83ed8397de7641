"""Which locks the file system of a folder has: Lustre without `-o flock` and some NFS have none."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path


def flock_trouble(folder: Path) -> str | None:
    """Returns why files in `folder` cannot be locked by flock(2); None if they can, or if that cannot be tested."""
    return _trouble(folder, "flock", fcntl.flock)


def record_lock_trouble(folder: Path) -> str | None:
    """Returns why SQLite cannot lock parts of files in `folder` by fcntl(2); None if it can, or that cannot be tested."""
    return _trouble(folder, "fcntl", fcntl.lockf)


def _trouble(folder: Path, name: str, lock: Callable[[int, int], object]) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            try:
                lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return f"{name}: {error.strerror}"
    except OSError:
        return None
    return None
