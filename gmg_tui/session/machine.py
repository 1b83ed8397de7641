"""Which machine this is, and whether a session belongs to it: several may share the state folder (a home on NFS)."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from gmg_tui.model import Session


def name() -> str:
    """This machine's name (`uname -n`), which others may have too."""
    return os.uname().nodename


@functools.cache
def boot_id() -> str:
    """A random id of this boot of this machine, the same in all its containers (random(4)); empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@functools.cache
def pid_namespace() -> str:
    """The id of the PID namespace, which a container has for itself (pid_namespaces(7)); empty if unknown."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def is_here(session: Session, written: float) -> bool:
    """Whether a session is of this machine, so that its processes are visible; `written` is the Unix time of its record, seconds.

    A container counts as a separate machine.
    """
    if session.boot_id and session.boot_id == boot_id():
        return session.pid_namespace == pid_namespace()
    if session.spec.host not in {"", name()}:
        return False
    import psutil  # seldom needed

    # Either this machine before it was booted last, or another one of the same name.
    return not session.boot_id or written < psutil.boot_time()
