"""Logs of nodes that do not share the session's folder: agents serve them, and the session's engine copies them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import cut_log, find_cut, open_for_reading, open_regular
from gmg_tui.machine.folders import make_private
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS
from gmg_tui.session.protocol import LogChunk

_CHUNK_BYTES = 256 << 10
"""Size of a chunk: small, so that reports get through a slow connection and the node does not count as lost."""


class AgentLogs:
    """The logs in an agent's `folder`, which is the session's own folder if `shared`."""

    def __init__(self, folder: str, *, shared: bool) -> None:
        self._folder, self._shared = Path(folder), shared
        self._received: dict[Path, int] = {}
        """Bytes of each log that the session's engine has received."""

    async def read(self, path: str, offset: int) -> LogChunk:
        """Returns a log's bytes at `offset`, none at its end; marks those before as received. Raises `GmgError`."""
        if not path.startswith(f"{LOGS}/") or ".." in path.split("/"):
            raise GmgError(f"{path} is not a log", 1)
        file = self._folder / path
        self._received[file] = offset
        return await in_daemon_thread(_read, file, offset)

    async def all_sent(self) -> bool:
        """Returns True if the session's engine has all logs, so that they can be deleted here."""

        def check() -> bool:
            files = [path for glob in ("*", "*/*") for path in (self._folder / LOGS).glob(glob) if os.path.isfile(path)]
            return all(self._received.get(path, 0) >= _length(path) for path in files)

        return self._shared or await in_daemon_thread(check)


def _read(file: Path, offset: int) -> LogChunk:
    try:
        with open_for_reading(file) as stream:
            cut, status = find_cut(stream), os.fstat(stream.fileno())
            start = cut.in_file(offset)
            stream.seek(start if start <= status.st_size else 0)  # a shorter file has replaced the log
            data = stream.read(_CHUNK_BYTES)
            if cut.start < stream.tell() < cut.end:
                data += stream.read(cut.end - stream.tell())  # the rest of the note on the cut
            return LogChunk(data, cut.in_stream(stream.tell()), status.st_ino)
    except FileNotFoundError:
        return LogChunk()
    except OSError as error:
        raise GmgError(f"{file.name} cannot be read: {error.strerror}", 1) from error


def _length(file: Path) -> int:
    """Returns the length of a log, including what was cut out of it."""
    with open_for_reading(file) as stream:
        return find_cut(stream).in_stream(os.fstat(stream.fileno()).st_size)


class LogCopies:
    """The copies of one node's logs in the session's `folder`, cut to `max_bytes` like this machine's logs.

    `writers`, which nodes share, has the node that last ran an attempt with each log: no other writes it.
    """

    def __init__(
        self, folder: Path, max_bytes: int | None = None, writers: "dict[str, LogCopies] | None" = None
    ) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._writers = {} if writers is None else writers
        self._copied: dict[str, tuple[int, int]] = {}
        """Offset up to which each log has been copied, and the inode of the agent's file."""
        self._grown: dict[str, None] = {}
        """Logs that may have grown, in the order of copying."""
        self._progress: dict[str, object] = {}
        """Progress of each log's attempt when the log was last scheduled."""
        self._from_replaced_agents = set[str]()
        """Logs last copied from a replaced agent."""
        self._copying = asyncio.Lock()

    def claim(self, path: str) -> None:
        """Copies the log at `path` from now on, instead of any other node."""
        self._writers[path] = self

    def schedule(self, path: str, progress: object) -> None:
        """Schedules copying of the log at `path` in the session's folder if its attempt's `progress` has changed."""
        if self._progress.get(path) != progress:
            self._progress[path] = progress
            self._grown[path] = None

    def on_agent_replaced(self) -> None:
        """Keeps the copies from a replaced agent, even if its successor's logs are new files."""
        self._from_replaced_agents = set(self._copied)

    async def catch_up(self, read: Callable[[str, int], Awaitable[LogChunk]]) -> None:
        """Copies all missing bytes, one chunk of each log in turn. Raises `GmgError` or `OSError`.

        `read` reads from the agent (`EngineClient.read_log`).
        """
        async with self._copying:
            while self._grown:
                path, more = next(iter(self._grown)), True
                del self._grown[path]
                if self._writers.get(path, self) is not self:
                    continue
                try:
                    more = await self._copy(path, read)
                finally:
                    if more:
                        self._grown[path] = None

    async def _copy(self, path: str, read: Callable[[str, int], Awaitable[LogChunk]]) -> bool:
        """Copies the next chunk of a log. Returns True if there may be more."""
        copied, inode = self._copied.get(path, (0, 0))
        chunk = await read(path, copied)
        is_new_file = path in self._from_replaced_agents and chunk.file != inode
        self._from_replaced_agents.discard(path)
        if copied and is_new_file:
            self._copied[path] = 0, 0
            return True
        if self._writers.get(path, self) is not self:  # its job has moved
            return False
        if chunk.data and chunk.end != copied:
            await in_daemon_thread(_append, self._folder / path, chunk.data, self._max_bytes)
            self._copied[path] = chunk.end, chunk.file
        return bool(chunk.data) and chunk.end != copied


def _append(path: Path, data: bytes, max_bytes: int | None) -> None:
    make_private(path.parent)
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
        file.write(data)
        size = file.tell()
    if max_bytes is not None and size > max_bytes:
        cut_log(path, max_bytes)
