"""The logs that a node keeps in a folder of its own, as it does not see the session's; they are brought here."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.nodes.messages import Piece
from gmg_tui.files import make_private

_COPY_BYTES = 1 << 20


class LogsKept:
    """The logs of one node.

    Args:
        piece: Asks the node for a part of a log, by its path and an offset. Raises `GmgError`.
        folder: The session's.
    """

    def __init__(self, piece: Callable[[str, int], Awaitable[Piece]], folder: Path) -> None:
        self._piece, self._folder = piece, folder
        self._brought: dict[str, _Brought] = {}
        self._bringing: set[asyncio.Task[tuple[int, bool]]] = set()

    def add(self, path: str) -> None:
        """The node has, or will have, a log at this path of the session's folder."""
        self._brought.setdefault(path, _Brought())

    def __contains__(self, path: str) -> bool:
        return path in self._brought

    async def bring(self, path: str, within_s: float) -> tuple[int, bool]:
        """Append what the log has more than here, for about `within_s`: its bytes here, and whether there are more.

        It goes on for that long when this is cancelled: what is written is counted. Raises `GmgError`, `OSError`.
        """
        bringing = asyncio.create_task(self._bring(path, within_s))
        self._bringing.add(bringing)
        bringing.add_done_callback(self._bringing.discard)
        return await asyncio.shield(bringing)

    async def _bring(self, path: str, within_s: float) -> tuple[int, bool]:
        brought, until = self._brought[path], time.monotonic() + within_s
        async with brought.lock:
            while True:
                piece = await self._piece(path, brought.offset)
                if piece.file != brought.file and brought.offset:  # its middle was cut out: it comes whole again
                    await in_daemon_thread(_cut_back, self._folder / path, brought.offset)
                    brought.offset, brought.file = 0, 0
                    continue
                if not piece.data:
                    return brought.offset, False
                await in_daemon_thread(_append, self._folder / path, piece.data)
                brought.offset += len(piece.data)
                brought.file = piece.file
                if time.monotonic() >= until:
                    return brought.offset, True

    async def bring_all(self) -> None:
        """Bring all that is missing of all logs. Raises `GmgError`, `OSError`."""
        for path in list(self._brought):
            await self.bring(path, float("inf"))


class _Brought:
    """How much of a log is here: its first `offset` bytes, of the file with that inode."""

    def __init__(self) -> None:
        self.offset = self.file = 0
        self.lock = asyncio.Lock()


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
