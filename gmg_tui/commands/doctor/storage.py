"""The caches of Genesis and Quadrants, and the folder for sessions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.commands.doctor import filesystem
from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.errors import GmgError
from gmg_tui.genesis import caches, locks

_LOW_MIB = 1024
"""Of free disk: a day of eight talkative workers fills it."""
_FULL_MIB = 16


def mesh_cache(environ: Mapping[str, str], mounts: str) -> Finding:
    """Genesis's cache, without which a worker does not start."""
    return _cache("mesh cache", caches.mesh_cache(environ), "GS_CACHE_FILE_PATH", mounts)


def kernel_cache(environ: Mapping[str, str], mounts: str) -> Finding:
    """Quadrants' cache."""
    return _cache("kernel cache", caches.kernel_cache(environ), "QD_OFFLINE_CACHE_FILE_PATH", mounts)


def _cache(check: str, path: Path, variable: str, mounts: str) -> Finding:
    if not filesystem.writable(path):
        return fail(check, f"{path} cannot be written", f"set {variable} to a folder that can")
    kind = filesystem.network(path, mounts)
    if path.is_dir():
        mib, whole = filesystem.size_mib(path)
        found = f"{path}, {'' if whole else 'more than '}{units.mib(mib)}"
    else:
        found = f"{path}, cold"
    if kind is not None:
        return warn(
            check, f"{found}, on a network disk ({kind})", f"set {variable} to a folder on a disk of this machine"
        )
    return ok(check, found)


def stale_locks(environ: Mapping[str, str]) -> Finding:
    """Whether killed workers have left locks on the kernel cache, which keep everybody else from using it."""
    found = locks.stale(environ)
    if found:
        paths = ", ".join(map(str, found))
        return warn("cache locks", f"left behind by a killed process: {paths}", "nothing: the next run removes it")
    return ok("cache locks", "none is left behind")


def sessions_folder(mounts: str) -> Finding:
    """Whether sessions can be kept, and how much of their logs."""
    folder = sessions.sessions_folder()
    there = filesystem.existing(folder)
    if not filesystem.writable(folder):
        return fail("sessions", f"{folder} cannot be written", "set XDG_STATE_HOME to a folder that can")
    free_mib = shutil.disk_usage(there).free / (1 << 20)
    found = f"{folder}, {units.mib(free_mib)} free"
    if free_mib < _FULL_MIB:
        return fail("sessions", found, "make room there, or set XDG_STATE_HOME")
    kind = filesystem.network(folder, mounts)
    if kind is not None:
        return warn("sessions", f"{found}, on a network disk ({kind})", "set XDG_STATE_HOME to a disk of this machine")
    if free_mib < _LOW_MIB:
        return warn("sessions", found, "make room there: the workers' logs keep all that they print")
    return ok("sessions", found)


def socket() -> Finding:
    """Whether an engine finds a place for its socket."""
    try:
        path = sessions.socket_path("x" * 40)
    except GmgError as error:
        return fail("socket", str(error), None)
    return ok("socket", f"{path.parent}{os.sep}")
