"""One page that is open in a browser, and the process that draws the screen for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE, Process
from typing import Any

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

MOST_COLUMNS, MOST_ROWS = 1000, 400
"""What a page may ask for; it would be drawn, cell by cell."""
_BEGIN = b"__GANGLION__\n"
"""What Textual's web driver says first (`WebDriver.start_application_mode`)."""
_END_S = 5.0
"""How long the process may take to end in order."""
_NOT_PASSED_ON = frozenset({"COLUMNS", "ROWS", "LINES", "TEXTUAL", "TEXTUAL_FPS", "TEXTUAL_DEBUG"})


class Viewer(AppService):
    """Runs `command` in a process of its own, whose screen `websocket` shows."""

    def __init__(self, command: tuple[str, ...], websocket: web.WebSocketResponse) -> None:
        super().__init__(
            " ".join(command),
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=self._part,
            download_manager=DownloadManager(),
        )
        self._words = command
        self._websocket = websocket

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        known = super()._build_environment(width, height)
        kept = {name: value for name, value in known.items() if name not in _NOT_PASSED_ON}
        return {**kept, "COLUMNS": str(width), "ROWS": str(height), "TERM": "xterm-256color"}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # Of a session of its own: the server tells it of ctrl+c, once, after the page.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=PIPE,
            stdout=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._stdin = process.stdin
        return process

    async def run(self) -> None:
        """Pass on what the process draws, and close the page when it has ended, however it did.

        What it says on standard error goes to this program's.
        """
        process = self._process
        assert process is not None
        assert process.stdout is not None
        read = process.stdout.readexactly
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):  # the page, or the process, is gone
                await process.stdout.readuntil(_BEGIN)
                while True:
                    kind = await read(1)
                    payload = await read(int.from_bytes(await read(4), "big"))
                    if kind == b"D":
                        await self.on_data(payload)
                    elif kind == b"M":
                        await self.on_meta(payload)
        finally:
            await self._part()

    async def _part(self) -> None:
        await self._websocket.close()

    async def serve(self, width: int, height: int) -> None:
        """Show the screen until the page is closed, or the screen ends."""
        await self.start(*_bounded(width, height))
        try:
            async for message in self._websocket:
                if message.type is WSMsgType.TEXT:
                    await self._take(message.data)
        except _MALFORMED:
            return  # not what the page sends
        finally:
            await self.end()

    async def _take(self, text: str) -> None:
        """Pass on what the page has sent. Raises one of `_MALFORMED`."""
        kind, *rest = json.loads(text)
        match kind:
            case "stdin":
                await self.send_bytes(rest[0].encode("utf-8", "replace"))
            case "resize":
                await self.set_terminal_size(*_bounded(int(rest[0]["width"]), int(rest[0]["height"])))
            case "ping":
                await self._websocket.send_json(["pong", rest[0]])
            case "blur":
                await self.blur()
            case "focus":
                await self.focus()

    async def end(self) -> None:
        """End the process: as its page would, and if that takes long, by force."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None


_MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError)


def _bounded(width: Any, height: Any) -> tuple[int, int]:
    return max(1, min(int(width), MOST_COLUMNS)), max(1, min(int(height), MOST_ROWS))
