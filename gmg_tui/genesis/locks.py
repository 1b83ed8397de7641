"""The kernel caches' lock files that nobody holds any more.

A lock of Quadrants, as of Taichi before it, is an empty file made with `O_CREAT | O_EXCL` (quadrants/util/lock.h): it names
no owner, does not expire, and is held for well under a second, while kernels are loaded or saved. A process that is killed
meanwhile leaves it, and from then on every start warns `Lock … failed`, and neither loads nor saves a kernel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from gmg_tui.genesis import caches

STALE_S = 60.0
"""The age from which a lock is taken for left behind."""

_NAMES = ("qdcache.lock", "ptxcache.lock", "ticache.lock", "metadata.lock")
"""Of Quadrants' kernels and of its PTX, and of both as Taichi called them."""


def stale(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The stale locks of the kernel caches that a worker with this environment would use.

    Args:
        environ: The worker's whole environment.
    """
    old = [path for root in caches.kernel_caches(environ) for path in _locks(root) if _is_old(path)]
    if not old:
        return ()
    held = set(_open_files())
    return tuple(path for path in old if os.path.realpath(path) not in held)


def remove(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Remove these locks, but none that has been made anew meanwhile.

    Returns:
        Those that are gone now by this call; others were gone already, or could not be removed.
    """
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
