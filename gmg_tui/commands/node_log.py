"""A log of a running session that its node keeps, as that does not see the session's folder: it is brought when asked for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gmg_tui import units
from gmg_tui.client import EngineClient
from gmg_tui.commands.messages import notice, tell
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from gmg_tui.protocol import Bye, Update

_PERIOD_S = 1.0
"""At most so often the engine is asked while a log is followed."""
_MIB = 1 << 20


class NodeLog:
    """Has the engine of a running session bring a log, until that has ended.

    It is a context manager. `path` is that of the log in the session's folder.
    """

    def __init__(self, session: Session, path: str) -> None:
        self._session, self._path = session, path
        self._wanted = True
        self._due = 0.0
        self._runner: asyncio.Runner | None = None
        self._client: EngineClient | None = None
        self._listening: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        """Let the engine go, which waits for its clients at its end."""
        if self._runner is not None:
            if self._client is not None:
                self._runner.run(self._client.close())
            self._runner.close()
        self._runner = self._client = None

    def bring(self) -> None:
        """Wait until all of the log is here that there is; what keeps it away is said on standard error, once."""
        if not self._wanted or time.monotonic() < self._due:
            return
        self._runner = self._runner or asyncio.Runner()
        try:
            self._runner.run(self._bring())
        except GmgError as error:
            if self._wanted:
                tell(f"gmg-tui: the log is shown as far as it is here: {error}")
            self._wanted = False
        if not self._wanted:
            self._close()
        self._due = time.monotonic() + _PERIOD_S

    async def _bring(self) -> None:
        if self._client is None:
            self._client = client = await EngineClient.connect(Path(self._session.spec.socket), self._session.id)
            self._listening = asyncio.create_task(self._listen(client))
        size = 0

        def say(size_bytes: int) -> None:
            nonlocal size
            size = size_bytes

        bringing = asyncio.create_task(self._client.bring_log(self._path, say))
        while not bringing.done():
            with notice(f"{units.mib(size / _MIB)} of the log have come from its node" if size else ""):
                await asyncio.wait([bringing], timeout=_PERIOD_S)
        bringing.result()

    async def _listen(self, client: EngineClient) -> None:
        async for event in client.events():
            if isinstance(event, Bye) or (isinstance(event, Update) and event.snapshot.ended):
                self._wanted = False  # the engine brings all logs at its end
