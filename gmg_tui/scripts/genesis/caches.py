"""The caches of Genesis and Quadrants, and the stale locks of killed processes in them.

Quadrants, like Taichi before it, locks its cache by an empty file made with `O_CREAT | O_EXCL` (quadrants/util/lock.h), which
has no owner and does not expire. It exists for well under a second, while kernels are loaded or saved. If the process is
killed in that time, the file stays: every later start warns `Lock … failed`, and neither loads nor saves kernels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from gmg_tui.machine.folders import distrust, passwd_home
from gmg_tui.scripts.interpreter import version_numbers

STALE_S = 60.0
"""The age of a stale lock."""

CACHE_LIMIT = "QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES"
LARGE_LIMIT = (1 << 31) - 1
"""The limit that Genesis sets from version `_OWN_LIMIT` on, bytes."""
_OWN_LIMIT = (1, 4, 5)
_COMPILERS_LIMIT = 100 << 20

_LOCK_NAMES = ("qdcache.lock", "ptxcache.lock", "ticache.lock", "metadata.lock")
"""The locks of kernels and of PTX: Quadrants' names, then Taichi's."""


def mesh_cache(environ: Mapping[str, str], cwd: str = "") -> Path | None:
    """Returns the mesh cache: `GS_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (1.4.5: genesis/utils/cache.py).

    Genesis and its compiler resolve relative folders against the script's working directory `cwd`, contrary to the XDG
    specification. None for a user without a home folder.
    """
    return _cache("GS_CACHE_FILE_PATH", "genesis", environ, cwd)


def kernel_cache(environ: Mapping[str, str], cwd: str = "") -> Path | None:
    """Returns the kernel cache: `QD_OFFLINE_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (compile_config.h)."""
    return _cache("QD_OFFLINE_CACHE_FILE_PATH", "quadrants/qdcache", environ, cwd)


def kernel_cache_use(environ: Mapping[str, str], genesis: str | None) -> tuple[int, int | None]:
    """Returns the kernel cache's size, and the size at which kernels are evicted (bytes; None if unknown).

    Genesis sets a limit of 2 GiB since 1.4.5; older versions leave it to their compiler.
    """
    folder = kernel_cache(environ)
    size = sum(_size(file) for file in folder.rglob("*")) if folder is not None else 0
    given = environ.get(CACHE_LIMIT, "")
    if given.isdigit():
        return size, int(given)
    version = version_numbers(genesis)
    return size, None if not version else LARGE_LIMIT if version >= _OWN_LIMIT else _COMPILERS_LIMIT


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # a worker has removed it
        return 0


def _cache(variable: str, name: str, environ: Mapping[str, str], cwd: str) -> Path | None:
    if path := environ.get(variable):
        return Path(cwd, path)
    base = environ.get("XDG_CACHE_HOME")
    if base is None:
        home = environ.get("HOME", passwd_home())
        base = f"{home}/.cache" if home is not None else None
    return Path(cwd, base, name) if base is not None else None


def mesh_count(environ: Mapping[str, str], cwd: str) -> int:
    """Returns the number of files in the mesh cache."""
    cache = mesh_cache(environ, cwd)
    try:
        return sum(1 for _ in cache.glob("*/*")) if cache is not None else 0
    except OSError:
        return 0


def exist(environ: Mapping[str, str], cwd: str) -> bool:
    """Returns True if there are compiled kernels, whichever script's."""
    cache = kernel_cache(environ, cwd)
    try:
        return cache is not None and any(cache.iterdir())
    except OSError:
        return False


def remove_stale_locks(environ: Mapping[str, str], cwd: str = "") -> tuple[Path, ...]:
    """Removes the stale locks of the kernel caches of a worker with this environment, and returns them.

    Caches that another user could change are left alone.
    """
    # Before Genesis 0.4 the compiler was Taichi or GsTaichi.
    old = [_cache("TI_OFFLINE_CACHE_FILE_PATH", f"{name}/ticache", environ, cwd) for name in ("gstaichi", "taichi")]
    roots = [root for root in dict.fromkeys((kernel_cache(environ, cwd), *old)) if root is not None]
    removed = []
    for lock in (lock for root in roots if distrust(root) is None for lock in _locks(root)):
        with suppress(OSError):
            if time.time() - lock.lstat().st_mtime > STALE_S:
                lock.unlink()
                removed.append(lock)
    return tuple(removed)


def _locks(root: Path) -> Iterator[Path]:
    """Yields the locks in the cache and in its folders, such as `kernel_compilation_manager` and `ptx_cache_sm_90`."""
    return (path for pattern in ("*.lock", "*/*.lock") for path in root.glob(pattern) if path.name in _LOCK_NAMES)
