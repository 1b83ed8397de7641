"""A real browser without a window, driven by its debugging port, and what the terminal on its page shows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pyte

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WAIT_S = 90.0
_LOOK_S = 0.1
_CODES = {"Escape": ("Escape", 27, ""), "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, "\t")}


class Page:
    """One page. `screen()` is drawn from what its websocket has received, as xterm.js draws it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.refused: list[str] = []
        """What the page was not allowed, and what failed in it."""
        self.asked: list[str] = []
        """The addresses that it has asked for."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._received: list[bytes] = []
        self._size = (80, 24)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            waiting = self._answers.pop(told.get("id", 0), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(told)
            self._hear(told.get("method", ""), told.get("params", {}))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.webSocketFrameReceived" and params["response"]["opcode"] == 2:
            self._received.append(base64.b64decode(params["response"]["payloadData"]))
        elif method == "Network.webSocketFrameSent":
            sent = json.loads(params["response"]["payloadData"])
            if sent[0] == "resize":
                self._size = sent[1]["width"], sent[1]["height"]
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.refused.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.refused.append(str(params["exceptionDetails"]))

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the Chrome DevTools Protocol."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        told = await asyncio.wait_for(answer, WAIT_S)
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to an address."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        self._received.clear()
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """What a script of the page returns."""
        return (await self.call("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script of the page is true."""
        async with asyncio.timeout(WAIT_S):
            while not await self.evaluate(script):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(_LOOK_S)

    def screen(self) -> list[str]:
        """The rows that the terminal shows."""
        screen = pyte.Screen(*self._size)
        stream = pyte.ByteStream(screen)
        for data in self._received:
            stream.feed(data)
        return [row.rstrip() for row in screen.display]

    async def sees(self, *texts: str) -> None:
        """Wait until the terminal shows all of `texts`."""
        await self.shows(lambda rows: all(any(text in row for row in rows) for text in texts), texts)

    async def shows(self, holds: Callable[[list[str]], bool], wanted: object) -> None:
        """Wait until the terminal's rows are so."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not holds(self.screen()):  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            shown = "\n".join(self.screen())
            raise AssertionError(f"never came: {wanted}\n{shown}\n{self.refused}") from None

    async def press(self, *keys: str) -> None:
        """Type keys: characters, or `Escape`, `Enter` and `Tab`."""
        for key in keys:
            code, number, text = _CODES.get(key, ("", ord(key.upper()[0]), key))
            common = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def click(self, text: str) -> None:
        """Click on the first place where the terminal shows `text`."""
        rows = self.screen()
        row = next(number for number, line in enumerate(rows) if text in line)
        column = rows[row].index(text) + len(text) // 2
        box = await self.evaluate(
            "(() => { const b = document.querySelector('.xterm-screen').getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        x = box[0] + (column + 0.5) * box[2] / self._size[0]
        y = box[1] + (row + 0.5) * box[3] / self._size[1]
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            pressed = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    async def picture(self, path: Path) -> None:
        """Save what the page looks like."""
        told = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(told["data"]))

    async def close(self) -> None:
        """Leave the browser."""
        await self._socket.close()
        self._reading.cancel()


@contextlib.asynccontextmanager
async def browser(width: int = 1280, height: int = 800) -> AsyncIterator[Page]:
    """A page of a browser of its own."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(prefix="gmg-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run"),
            *("--disable-background-networking", "--hide-scrollbars", f"--window-size={width},{height}"),
            *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"),
            *(f"--user-data-dir={profile}", "about:blank"),
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        try:
            port = await _port(Path(profile, "DevToolsActivePort"))
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    pages = await answer.json()
                url = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    page = Page(socket)
                    try:
                        yield page
                    finally:
                        await page.close()
        finally:
            process.terminate()
            await process.wait()


async def _port(path: Path) -> int:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(OSError, IndexError, ValueError):
                return int(path.read_text().splitlines()[0])
            await asyncio.sleep(_LOOK_S)
