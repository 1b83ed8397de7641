"""The files that processes have open for writing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

MAX_FILES = 256
"""Descriptors to read of each process."""
_NO_RESULTS = ("/dev/", "/proc/", "/memfd:", "/tmp/.X", "/run/")  # noqa: S108 - prefixes


def written(pids: Iterable[int]) -> set[str]:
    """Returns the paths of files that processes have open for writing only, but not for appending.

    Reads `/proc` only, which a hung disk does not block.
    """
    paths = set[str]()
    for pid in pids:
        with suppress(OSError):  # it is gone, or another user's
            for number in os.listdir(f"/proc/{pid}/fd")[:MAX_FILES]:  # noqa: PTH208 - half as fast
                with suppress(OSError):
                    path = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
                    is_result = path[:1] == "/" and not path.startswith(_NO_RESULTS) and not path.endswith(" (deleted)")
                    if is_result and _flags(pid, number) & (os.O_ACCMODE | os.O_APPEND) == os.O_WRONLY:
                        paths.add(path)
    return paths


def resolved(paths: Iterable[str], pids: Iterable[int]) -> set[str]:
    """Makes the paths that processes print absolute; drops relative ones if their working directories differ."""
    folders = set[str]()
    for pid in pids:
        with suppress(OSError):  # it is gone, or another user's
            folders.add(os.readlink(f"/proc/{pid}/cwd"))  # noqa: PTH115
    cwd = folders.pop() if len(folders) == 1 else ""
    return {os.path.normpath(f"{cwd}/{path}" if path[0] != "/" else path) for path in paths if cwd or path[0] == "/"}


def _flags(pid: int, number: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:  # noqa: PTH123
        return int(file.read(256).split(b"flags:", 1)[1].split()[0], 8)
