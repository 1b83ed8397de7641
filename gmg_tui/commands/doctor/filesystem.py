"""The file system under a path: its type, the size of its files, and whether it is writable."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|lustre|gpfs|beegfs|ceph|glusterfs|afs|pvfs2|orangefs|wekafs|panfs|9p|fuse\..+|fuseblk\.sshfs"
)
"""Types in `/proc/self/mountinfo` whose files are on another machine, which includes most of FUSE (sshfs, s3fs)."""
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.overlayfs", "fuse.mergerfs", "fuse.bindfs", "fuse.lxcfs"})
_WALK_S = 2.0
"""How long the files of a folder are summed up."""


def existing(path: Path) -> Path:
    """`path`, or its nearest parent that exists."""
    path = Path(os.path.realpath(path))
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def writable(path: Path) -> bool:
    """Whether this user can write to the folder `path`, or create it."""
    there = existing(path)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def network(path: Path, mounts: str) -> str | None:
    """The type of the network file system that `path`, which need not exist, is on; None on a disk of this machine.

    `mounts` is the text of `/proc/self/mountinfo` (proc(5)).
    """
    there = existing(path)
    point, kind = Path("/"), ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        mounted = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        # The last of several mounts at one point hides the others.
        if there.is_relative_to(mounted) and len(mounted.parts) >= len(point.parts):
            point, kind = mounted, after.split(" ")[0]
    return kind if _NETWORK.fullmatch(kind) and kind not in _LOCAL_FUSE else None


def size_mib(path: Path) -> tuple[float, bool]:
    """The size of the files below `path`, and whether all of them were counted in time."""
    total, deadline = 0, time.monotonic() + _WALK_S
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - there may be many
            except OSError:
                continue  # removed meanwhile
        if time.monotonic() > deadline:
            return total / (1 << 20), False
    return total / (1 << 20), True
