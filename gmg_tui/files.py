"""Files that are whole or absent, so that a reader never sees half of one; and folders of one user alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Put `data` at `path` at once, over what may be there.

    The data reaches the disk before the name does, so that a power cut leaves the old file or the whole of the other.

    Raises:
        OSError: The folder is missing, full or not writable; nothing is left behind then.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def make_private(folder: Path) -> None:
    """Make `folder`, and whatever is missing above it, for this user alone (mode 0700). Raises `OSError`."""
    if not folder.parent.is_dir():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
