"""Claims on folders: while the process that made a folder lives, no other process may take it over."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_held: list[int] = []
"""Descriptors of the claimed folders. The kernel lets go of the locks when the process ends, however it ends."""


def claim(folder: Path) -> bool | None:
    """Claim `folder` for the life of this process.

    Returns:
        Whether it is claimed: not if another process has claimed or replaced it. None where its file system cannot tell
        (NFS locks no folders).

    Raises:
        OSError: There is no such folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        claimed = os.path.samestat(os.fstat(descriptor), folder.stat())
    except BlockingIOError:
        claimed = False
    except OSError:
        os.close(descriptor)
        return None
    if claimed:
        _held.append(descriptor)
    else:
        os.close(descriptor)
    return claimed
