"""Copies the growing logs of a node that does not share the session's folder; its agent keeps them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import cut_log, find_cut, open_regular, reading
from gmg_tui.machine.folders import make_private
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS
from gmg_tui.session.protocol import LogChunk

_PART_BYTES = 256 << 10
"""Size of one message: small, so that reports get through a slow line and the node does not count as lost."""


class KeptLogs:
    """The logs in an agent's `folder`; `shared` if that is the session's folder."""

    def __init__(self, folder: str, *, shared: bool) -> None:
        self._folder, self._shared = Path(folder), shared
        self._sent: dict[Path, int] = {}
        """Bytes of each log that have reached the session's engine."""

    async def read(self, path: str, offset: int) -> LogChunk:
        """Returns a part of a log, empty at its end; `offset` confirms all before it. Raises `GmgError`."""
        if not path.startswith(f"{LOGS}/") or ".." in path:
            raise GmgError(f"{path} is not a log", 1)
        file = self._folder / path
        self._sent[file] = offset
        return await in_daemon_thread(_read, file, offset)

    async def all_sent(self) -> bool:
        """Returns True if the session's engine has all logs, so that they can be deleted here."""

        def check() -> bool:
            files = [path for each in ("*", "*/*") for path in (self._folder / LOGS).glob(each) if path.is_file()]
            return all(self._sent.get(path, 0) >= _end(path) for path in files)

        return self._shared or await in_daemon_thread(check)


def _read(file: Path, offset: int) -> LogChunk:
    try:
        with reading(file) as stream:
            cut, about = find_cut(stream), os.fstat(stream.fileno())
            start = cut.in_file(offset)
            stream.seek(start if start <= about.st_size else 0)  # it was removed, and written again
            data = stream.read(_PART_BYTES)
            if cut.start < stream.tell() < cut.end:
                data += stream.read(cut.end - stream.tell())  # the whole note
            return LogChunk(data, cut.in_stream(stream.tell()), about.st_ino)
    except FileNotFoundError:
        return LogChunk()
    except OSError as error:
        raise GmgError(f"{file.name} cannot be read: {error.strerror}", 1) from error


def _end(file: Path) -> int:
    with reading(file) as stream:
        return find_cut(stream).in_stream(os.fstat(stream.fileno()).st_size)


class LogCopies:
    """The copies of one node's logs in the session's `folder`, cut to `max_bytes` like logs of this machine."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._copied: dict[str, tuple[int, int]] = {}
        """The offset in each log up to which it is copied, and its inode."""
        self._grown: dict[str, None] = {}
        """Logs that may have grown, next first."""
        self._marks: dict[str, object] = {}
        """The worker's mark when each log last grew."""
        self._of_earlier_agent = set[str]()
        """Logs that came from replaced agents."""
        self._copying = asyncio.Lock()

    def check(self, path: str, mark: object) -> None:
        """Schedules a copy of the log at this path of the session's folder, if `mark` has changed."""
        if self._marks.get(path) != mark:
            self._marks[path] = mark
            self._grown[path] = None

    def agent_replaced(self) -> None:
        """Keeps what was copied from a replaced agent: the new agent's logs may be new files."""
        self._of_earlier_agent = set(self._copied)

    async def catch_up(self, read: Callable[[str, int], Awaitable[LogChunk]]) -> None:
        """Copies the missing parts, taking logs in turn, with `read` (`EngineClient.read_log`).

        Raises `GmgError` or `OSError`.
        """
        async with self._copying:
            while self._grown:
                path, more = next(iter(self._grown)), True
                del self._grown[path]
                try:
                    more = await self._copy(path, read)
                finally:
                    if more:
                        self._grown[path] = None

    async def _copy(self, path: str, read: Callable[[str, int], Awaitable[LogChunk]]) -> bool:
        """Copies a part of a log. Returns True if there may be more."""
        copied, inode = self._copied.get(path, (0, 0))
        part = await read(path, copied)
        is_new = path in self._of_earlier_agent and part.file != inode
        self._of_earlier_agent.discard(path)
        if copied and is_new:
            self._copied[path] = 0, 0
            return True
        if part.data:
            await in_daemon_thread(_append, self._folder / path, part.data, self._max_bytes)
            self._copied[path] = part.end, part.file
        return bool(part.data)


def _append(path: Path, data: bytes, max_bytes: int | None) -> None:
    make_private(path.parent)
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
        file.write(data)
        size = file.tell()
    if max_bytes is not None and size > max_bytes:
        cut_log(path, max_bytes)
