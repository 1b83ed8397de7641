"""The caches of Genesis and Quadrants, and the locks that a killed process leaves there.

A lock of Quadrants, as of Taichi before it, is an empty file made with `O_CREAT | O_EXCL` (quadrants/util/lock.h). It has no
owner, does not expire, and exists for well under a second, while kernels are loaded or saved. A process that is killed
meanwhile leaves it behind; from then on every start warns `Lock … failed`, and neither loads nor saves kernels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from gmg_tui.machine.folders import distrust

STALE_S = 60.0
"""The age from which a lock counts as left behind."""

CACHE_LIMIT = "QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES"
LARGE_LIMIT = (1 << 31) - 1
"""What Genesis passes to its compiler since version `_OWN_LIMIT`, bytes."""
_OWN_LIMIT = (1, 4, 5)
_COMPILERS_LIMIT = 100 << 20

_LOCK_NAMES = ("qdcache.lock", "ptxcache.lock", "ticache.lock", "metadata.lock")
"""Of Quadrants' kernels and of its PTX, and of both as Taichi called them."""


def mesh_cache(environ: Mapping[str, str]) -> Path:
    """Returns the mesh cache: `GS_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (1.4.5: genesis/utils/cache.py)."""
    path = environ.get("GS_CACHE_FILE_PATH")
    return Path(path) if path else _base(environ) / "genesis"


def kernel_cache(environ: Mapping[str, str]) -> Path:
    """Returns the kernel cache: `QD_OFFLINE_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (compile_config.h)."""
    path = environ.get("QD_OFFLINE_CACHE_FILE_PATH")
    return Path(path) if path else _base(environ) / "quadrants" / "qdcache"


def kernel_cache_use(environ: Mapping[str, str], genesis: str | None) -> tuple[int, int | None]:
    """Returns the kernel cache's size, and the size beyond which kernels are evicted (bytes).

    From 1.4.5 on Genesis sets a limit of 2 GiB; before, that of its compiler holds. None if the version is unknown.
    """
    size = sum(_size(file) for file in kernel_cache(environ).rglob("*"))
    given = environ.get(CACHE_LIMIT, "")
    if given.isdigit():
        return size, int(given)
    version = tuple(int(part) for part in (genesis or "").split(".")[:3] if part.isdigit())
    return size, None if not version else LARGE_LIMIT if version >= _OWN_LIMIT else _COMPILERS_LIMIT


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # a worker has removed it
        return 0


def _base(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache")


def exist(environ: Mapping[str, str]) -> bool:
    """Whether there are compiled kernels at all; whether they are this script's is not visible from outside."""
    try:
        return any(kernel_cache(environ).iterdir())
    except OSError:
        return False


def remove_stale_locks(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Removes the stale locks of the kernel caches that a worker with this environment would use, and returns them.

    Caches that another user could change are left alone.
    """
    path = environ.get("TI_OFFLINE_CACHE_FILE_PATH")  # as the cache was called before Genesis 0.4
    before = [Path(path)] if path else [_base(environ) / name / "ticache" for name in ("gstaichi", "taichi")]
    removed = []
    for lock in (lock for root in (kernel_cache(environ), *before) if distrust(root) is None for lock in _locks(root)):
        with suppress(OSError):
            if time.time() - lock.lstat().st_mtime > STALE_S:
                lock.unlink()
                removed.append(lock)
    return tuple(removed)


def _locks(root: Path) -> Iterator[Path]:
    """The locks in the cache itself, and in `kernel_compilation_manager` or `ptx_cache_sm_90` in it."""
    return (path for pattern in ("*.lock", "*/*.lock") for path in root.glob(pattern) if path.name in _LOCK_NAMES)
