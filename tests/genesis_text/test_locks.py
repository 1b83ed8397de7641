"""Which locks of the kernel caches count as stale."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gmg_tui.genesis import caches

LONG_AGO = time.time() - 2 * caches.STALE_S


def lock(path: Path, moment: float = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (moment, moment))
    return path


def test_only_old_locks_of_caches_are_stale(tmp_path: Path) -> None:
    root = tmp_path / "quadrants" / "qdcache"
    old = {
        lock(root / "qdcache.lock"),
        lock(root / "kernel_compilation_manager" / "qdcache.lock"),
        lock(root / "ptx_cache_sm_90" / "ptxcache.lock"),
        lock(tmp_path / "gstaichi" / "ticache" / "metadata.lock"),
        lock(tmp_path / "taichi" / "ticache" / "ticache.lock"),
    }
    lock(root / "ptx_cache_sm_86" / "ptxcache.lock", time.time())
    lock(root / "kernel_compilation_manager" / "somebody.lock")
    lock(root / "kernel_compilation_manager" / "qdcache.qdb")
    assert set(caches.remove_stale_locks({"XDG_CACHE_HOME": str(tmp_path)})) == old
    assert caches.remove_stale_locks({"XDG_CACHE_HOME": str(tmp_path)}) == ()
    assert len(list(tmp_path.rglob("*.*"))) == 3


def test_caches_are_searched_in_the_folders_of_the_worker(tmp_path: Path) -> None:
    kernels, before = lock(tmp_path / "kernels" / "qdcache.lock"), lock(tmp_path / "before" / "ticache.lock")
    environ = {"QD_OFFLINE_CACHE_FILE_PATH": str(kernels.parent), "TI_OFFLINE_CACHE_FILE_PATH": str(before.parent)}
    assert caches.remove_stale_locks({"HOME": str(tmp_path)}) == ()
    assert set(caches.remove_stale_locks({**environ, "HOME": "/nonexistent"})) == {kernels, before}
