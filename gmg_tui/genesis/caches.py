"""The caches of Genesis and Quadrants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def mesh_cache(environ: Mapping[str, str]) -> Path:
    """The mesh cache: `GS_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (1.4.5: genesis/utils/cache.py)."""
    own = environ.get("GS_CACHE_FILE_PATH")
    return Path(own) if own else _base(environ) / "genesis"


def kernel_cache(environ: Mapping[str, str]) -> Path:
    """The kernel cache: `QD_OFFLINE_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (compile_config.h)."""
    own = environ.get("QD_OFFLINE_CACHE_FILE_PATH")
    return Path(own) if own else _base(environ) / "quadrants" / "qdcache"


def kernel_caches(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The kernel cache, and where it was when Quadrants was GsTaichi (Genesis 0.3) and Taichi (0.2)."""
    own = environ.get("TI_OFFLINE_CACHE_FILE_PATH")
    before = (Path(own),) if own else tuple(_base(environ) / name / "ticache" for name in ("gstaichi", "taichi"))
    return kernel_cache(environ), *before


def _base(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache")


def exist(environ: Mapping[str, str]) -> bool:
    """Whether there are compiled kernels at all; whether they are this script's cannot be told from outside."""
    try:
        return any(kernel_cache(environ).iterdir())
    except OSError:
        return False
