"""The folders in which an attempt's processes report to the engine."""

import os
import secrets
import time
import zlib
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from threading import Thread

from gmg_tui.machine.folders import OpenFolder, make_locked, remove_abandoned, runtime_folder, temporary_folders
from gmg_tui.model import Checkpoint
from gmg_tui.model.attempt import MAX_JOB_CHECKPOINTS
from gmg_tui.scripts.probe.reports import Reports
from gmg_tui.scripts.probe.site.gmg_reports import SAVED

PREFIX, _RANDOM_CHARS = "gmg-probe-", 8
"""Prefix of an attempt's folder, and number of random characters at its end, after the session and a dot."""
MAX_FOLDER_AGE_S = 86_400.0
"""Age at which a killed engine's folder is removed, unless its session is resumed earlier."""
_SPARE_PARENT = Path("/tmp")  # noqa: S108 - made private below
"""The folder of spare folders: systemd does not remove them at a logout, nor while they are locked."""
MAX_FILES = 1000
"""Maximum entries of an attempt's folder to read, and to remove at its end."""
_CLOCK_STEP_S = 1.0
"""Time by which a new folder may seem older than it is: file systems use a coarse clock."""
_MIN_ROOM_BYTES = 4 << 20
"""Room for the counts of all processes, and the reports of some."""
_MAX_ABANDONED_READS = 8
"""Maximum reads of the saved files that a killed engine left."""


def make_folders(session: Path) -> list[OpenFolder]:
    """Creates folders for an attempt of the session in the folder `session`: one in memory if possible, and a spare one.

    Both are private to the user and have the same name. The first may be removed during the attempt, as by systemd at the
    user's last logout. Also starts to remove folders of killed engines. Returns no folder if none can be created, or all
    disks are full: the attempt then runs without a probe.
    """
    _start_removal(session)
    name = _prefix(session) + secrets.token_hex(_RANDOM_CHARS // 2)
    first = next(filter(None, (_make(parent / name) for parent in _parents())), None)
    has_spare = first is not None and first.path.parent != _SPARE_PARENT
    spare = _make(_SPARE_PARENT / name) if has_spare else None
    return [folder for folder in (first, spare) if folder is not None]


def _make(path: Path) -> OpenFolder | None:
    """Creates a locked folder with room for reports. Returns None if that fails."""
    with suppress(OSError), ExitStack() as stack:
        folder = make_locked(path)
        stack.callback(folder.remove, MAX_FILES)
        _reserve(folder)
        stack.pop_all()
        return folder
    return None


def _prefix(session: Path) -> str:
    """Returns the beginning of the names of a session's folders; other state folders may have a session of the same name."""
    return f"{PREFIX}{session.name}-{zlib.crc32(os.fsencode(session)):08x}."


def _reserve(folder: OpenFolder) -> None:
    """Creates the file of saved files, so that it keeps a page of memory. Raises `OSError` if there is not enough room."""
    descriptor = os.open(SAVED, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder.descriptor)
    try:
        os.posix_fallocate(descriptor, 0, _MIN_ROOM_BYTES)
        os.ftruncate(descriptor, 1)
    finally:
        os.close(descriptor)


def _parents() -> tuple[Path, ...]:
    own, shared = runtime_folder(), (Path("/dev/shm"), *temporary_folders(), _SPARE_PARENT)  # noqa: S108 - made private
    return tuple(dict.fromkeys(shared if own is None else (own, *shared)))


@cache
def _start_removal(session: Path) -> None:
    """Removes, once per engine, the folders of the session's killed engines, and those of others that are a day old.

    The latter may be resumed. Does not wait, as other users may have made any number of such names.
    """
    with suppress(RuntimeError):  # no thread can be started
        Thread(target=_remove_abandoned, args=(session, time.time() - _CLOCK_STEP_S), daemon=True).start()


def _remove_abandoned(session: Path, before: float) -> None:
    def is_wanted(name: str, folder: int) -> bool:
        is_recent = time.time() - os.fstat(folder).st_mtime < MAX_FOLDER_AGE_S
        return is_recent and name[:-_RANDOM_CHARS] != _prefix(session)

    for parent in _parents():
        remove_abandoned(parent, PREFIX, is_wanted, before)


def read_abandoned(session: Path) -> Mapping[int, tuple[Checkpoint, ...]]:
    """Returns the files that processes of the session's killed engines saved, by PID.

    Such an engine may have missed some of these reports. Their folders stay until the first attempt starts: this engine may
    end before it has stored them.
    """
    pids: dict[str, set[int]] = {}
    files: dict[str, list[Checkpoint]] = {}

    def read(name: str, folder: int) -> bool:
        reports, names = Reports(), []
        with suppress(OSError), os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_FILES)]
        found = chain.from_iterable(reports.read(folder)[1] for _ in range(_MAX_ABANDONED_READS))
        files.setdefault(name, []).extend(deque(found, MAX_JOB_CHECKPOINTS))
        pids.setdefault(name, set()).update(int(name) for name in names if name.isascii() and name.isdecimal())
        return True

    for parent in _parents():
        remove_abandoned(parent, _prefix(session), read)
    saved: dict[int, tuple[Checkpoint, ...]] = {}
    for name, checkpoints in files.items():
        newest = sorted(checkpoints, key=lambda file: file.saved)[-MAX_JOB_CHECKPOINTS:]
        for pid in pids[name]:
            saved[pid] = () if pid in saved else tuple(newest)  # a script can write a file with another's PID
    return saved
