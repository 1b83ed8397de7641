"""The logs that a node keeps in a separate folder, as the session's is not visible there: they are copied while they grow."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.errors import GmgError
from gmg_tui.files import make_private
from gmg_tui.protocol import LogPart

_log = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20
_PAUSE_S = 1.0


class Logs:
    """The logs of one node; `folder` is the session's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copied: dict[str, tuple[int, int]] = {}
        """How many bytes of each log are here, and the inode of its file, which another replaces once it was cut."""
        self._grown: dict[str, None] = {}
        """Logs of which more may come, the next first."""
        self._marks: dict[str, object] = {}
        """By log, the mark of its worker when it last grew."""
        self._writing: asyncio.Future[None] | None = None

    def check(self, path: str, mark: object) -> None:
        """There is more of the log at this path of the session's folder if `mark` is another than the last time."""
        if self._marks.get(path) != mark:
            self._marks[path] = mark
            self._grown[path] = None

    async def keep_up(self, read: Callable[[str, int], Awaitable[LogPart]]) -> None:
        """Copy what grows until cancelled; `read` asks the node for the part of a log after an offset."""
        while True:
            try:
                await self.catch_up(read)
            except (GmgError, OSError) as error:
                _log.warning("a log cannot be copied: %s", error)
            await asyncio.sleep(_PAUSE_S)

    async def catch_up(self, read: Callable[[str, int], Awaitable[LogPart]]) -> None:
        """Copy all that is missing, a part of each log in turn. Raises `GmgError`, `OSError`."""
        while self._grown:
            path = next(iter(self._grown))
            del self._grown[path]
            try:
                more = await self._copy(path, read)
            except BaseException:
                self._grown[path] = None
                raise
            if more:
                self._grown[path] = None

    async def _copy(self, path: str, read: Callable[[str, int], Awaitable[LogPart]]) -> bool:
        """Copy a part of a log. Returns whether there may be more."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        offset, file = self._copied.get(path, (0, 0))
        part = await read(path, offset)
        if offset and part.file != file:  # its middle was cut out: it comes whole again
            await in_daemon_thread(_cut_back, self._folder / path, offset)
            self._copied[path] = 0, 0
            return True
        if part.data:
            self._writing = asyncio.ensure_future(self._write(path, offset, part))
            await asyncio.shield(self._writing)  # it goes on when this is cancelled: what is written is counted
        return bool(part.data)

    async def _write(self, path: str, offset: int, part: LogPart) -> None:
        await in_daemon_thread(_append, self._folder / path, part.data)
        self._copied[path] = offset + len(part.data), part.file


def _append(path: Path, data: bytes) -> None:
    make_private(path.parent)
    with path.open("ab") as file:
        file.write(data)


def _cut_back(path: Path, length: int) -> None:
    """Take the last `length` bytes off a file; it is replaced, for who reads it to notice."""
    temporary = path.with_name(f".{path.name}.cut")
    with path.open("rb") as old, temporary.open("wb") as file:
        left = max(0, os.fstat(old.fileno()).st_size - length)
        while left and (data := old.read(min(left, _COPY_BYTES))):
            file.write(data)
            left -= len(data)
    temporary.replace(path)
