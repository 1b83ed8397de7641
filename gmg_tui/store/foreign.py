"""A store that an engine on another machine may be writing."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gmg_tui.store.records import StoreError

_TRIES = 5
_PAUSE_S = 0.2


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of the store at `path`, or `path` itself where there is none.

    The processes that have a store open share memory (sqlite.org/wal.html, "WAL does not work over a network
    filesystem"): one on another machine would take itself for the only one, and overwrite what the engine writes.

    Raises:
        StoreError: It cannot be copied.
    """
    if not path.exists():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="gmg-tui-") as folder:
        copy = Path(folder, path.name)
        try:
            _copy(path, copy)
        except OSError as error:
            raise StoreError(f"cannot copy {path}: {error.strerror}") from error
        yield copy


def _copy(path: Path, copy: Path) -> None:
    """Copy the file and its log. The log's end may be torn, which SQLite sees; the file is copied again if it changes."""
    for last in range(_TRIES - 1, -1, -1):
        before = path.stat()
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):  # everything is in the file
            shutil.copyfile(path.with_name(f"{path.name}-wal"), copy.with_name(f"{copy.name}-wal"))
        after = path.stat()
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size) or not last:
            return
        time.sleep(_PAUSE_S)  # the engine is moving its log into the file
