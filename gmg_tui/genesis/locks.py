"""Stale lock files of the kernel caches.

A lock of Quadrants, as of Taichi before it, is an empty file made with `O_CREAT | O_EXCL` (quadrants/util/lock.h): it names
no owner, does not expire, and exists for well under a second, while kernels are loaded or saved. A process that is killed
meanwhile leaves it behind, and from then on every start warns `Lock … failed`, and neither loads nor saves a kernel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from gmg_tui.genesis import caches

STALE_S = 60.0
"""The age from which a lock counts as left behind."""

_NAMES = ("qdcache.lock", "ptxcache.lock", "ticache.lock", "metadata.lock")
"""Of Quadrants' kernels and of its PTX, and of both as Taichi called them."""


def stale(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The stale locks of the kernel caches that a worker with this whole environment would use."""
    old = [path for root in caches.kernel_caches(environ) for path in _locks(root) if _is_old(path)]
    if not old:
        return ()
    in_use = set(_open_files())
    return tuple(path for path in old if os.path.realpath(path) not in in_use)


def remove(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Remove these locks, except those recreated meanwhile. Returns those that this call has removed."""
    removed = []
    for path in paths:
        with suppress(OSError):
            if _is_old(path):
                path.unlink()
                removed.append(path)
    return tuple(removed)


def _locks(root: Path) -> Iterator[Path]:
    """The paths where locks may be: in the cache itself, and in `kernel_compilation_manager` or `ptx_cache_sm_90` in it."""
    folders = [root]
    with suppress(OSError), os.scandir(root) as entries:
        folders += [Path(entry.path) for entry in entries if entry.is_dir()]
    for folder in folders:
        for name in _NAMES:
            yield folder / name


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_S
    except OSError:
        return False


def _open_files() -> Iterator[str]:
    """The paths of all files that processes of this user have open (those of others cannot be read)."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if name.isdigit():
            with suppress(OSError):
                for entry in os.scandir(f"/proc/{name}/fd"):
                    with suppress(OSError):
                        yield os.readlink(entry.path)  # noqa: PTH115 - as a Path it would cost three times as much
