"""Which machine this is, and whether a session is this one's: several may share the state folder (a home on NFS)."""

from __future__ import annotations

import functools
import os
from enum import Enum, auto
from pathlib import Path

from gmg_tui.model import Session


class Place(Enum):
    """Where a session's engine was started."""

    HERE = auto()
    EARLIER = auto()
    """On this machine, before it was booted last."""
    CONTAINER = auto()
    """On this machine's kernel, in another container: its locks are seen here, its processes and sockets are not."""
    ELSEWHERE = auto()
    """On another machine. Whether that one's locks are seen here is up to the file system; they prove nothing."""

    @property
    def lock_tells(self) -> bool:
        """Whether an engine that lives holds a lock which is seen here."""
        return self is not Place.ELSEWHERE


def name() -> str:
    """This machine's name (`uname -n`), which others may have too."""
    return os.uname().nodename


@functools.cache
def boot_id() -> str:
    """A random id of this boot of this machine, the same in all its containers (random(4)); empty if not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@functools.cache
def pid_namespace() -> str:
    """The id of the PID namespace, which a container has for itself (pid_namespaces(7)); empty if not known."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


@functools.cache
def booted() -> float:
    """When this machine was booted, Unix seconds; 0.0 if not known."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)


def place_of(session: Session, written: float) -> Place:
    """Where a session was started whose record was written last at `written`, Unix seconds.

    A record of a machine of this name from before this one was booted is this one's. One that has been written since,
    in another boot, comes from a machine with the same name.
    """
    named_so = session.spec.host in {"", name()}
    if not session.boot_id or not boot_id():
        return Place.HERE if named_so else Place.ELSEWHERE
    if session.boot_id == boot_id():
        return Place.HERE if session.pid_namespace in {"", pid_namespace()} else Place.CONTAINER
    return Place.EARLIER if named_so and written < booted() else Place.ELSEWHERE
