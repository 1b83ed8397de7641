"""The caches of Genesis and Quadrants, and the sessions folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.commands.doctor import filesystem
from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.errors import GmgError
from gmg_tui.genesis import caches, locks

_LOW_MIB = 1024
"""Free disk space that eight verbose workers fill in a day."""
_FULL_MIB = 16
_CACHES = {
    "mesh cache": (caches.mesh_cache, "GS_CACHE_FILE_PATH"),
    "kernel cache": (caches.kernel_cache, "QD_OFFLINE_CACHE_FILE_PATH"),
}


def cache(check: str, environ: Mapping[str, str], mounts: str) -> Finding:
    """The `mesh cache` of Genesis, which a worker needs to start, or the `kernel cache` of Quadrants."""
    locate, variable = _CACHES[check]
    path = locate(environ)
    if not filesystem.writable(path):
        return fail(check, f"{path} cannot be written", f"set {variable} to a writable folder")
    kind = filesystem.network(path, mounts)
    if path.is_dir():
        mib, whole = filesystem.size_mib(path)
        found = f"{path}, {'' if whole else 'more than '}{units.mib(mib)}"
    else:
        found = f"{path}, cold"
    if kind is not None:
        return warn(check, f"{found}, on a network disk ({kind})", f"set {variable} to a folder on a local disk")
    return ok(check, found)


def stale_locks(environ: Mapping[str, str]) -> Finding:
    """Whether killed workers have left locks on the kernel cache, which block all others."""
    found = locks.stale(environ)
    if found:
        paths = ", ".join(map(str, found))
        return warn(
            "cache locks", f"left behind by a killed process: {paths}", "nothing to do: the next run removes it"
        )
    return ok("cache locks", "none left behind")


def sessions_folder(mounts: str) -> Finding:
    """Whether sessions can be stored, and whether there is room for their logs."""
    folder = sessions.sessions_folder()
    there = filesystem.existing(folder)
    if not filesystem.writable(folder):
        return fail("sessions", f"{folder} cannot be written", "set XDG_STATE_HOME to a writable folder")
    free_mib = shutil.disk_usage(there).free / (1 << 20)
    found = f"{folder}, {units.mib(free_mib)} free"
    if free_mib < _FULL_MIB:
        return fail("sessions", found, "free some space there, or set XDG_STATE_HOME")
    kind = filesystem.network(folder, mounts)
    if kind is not None:
        return warn("sessions", f"{found}, on a network disk ({kind})", "set XDG_STATE_HOME to a local disk")
    if free_mib < _LOW_MIB:
        return warn("sessions", found, "free some space there: the logs keep everything that workers print")
    return ok("sessions", found)


def socket() -> Finding:
    """Whether there is a place for an engine's socket."""
    try:
        path = sessions.socket_path("x" * 40)
    except GmgError as error:
        return fail("socket", str(error), None)
    return ok("socket", f"{path.parent}{os.sep}")
