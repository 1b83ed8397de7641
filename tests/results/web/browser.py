"""A real browser without a window, driven by its debugging port, and the terminal on its page."""

import asyncio
import atexit
import base64
import contextlib
import functools
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import aiohttp
import pyte

from tests.patience import LONG_S, wait_until

BROWSER: str | None = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_LOOK_S = 0.1
_CODES = {"Escape": ("Escape", 27, ""), "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, "\t")}


class Page:
    """One page. `screen()` is drawn from what its websocket has received, as xterm.js draws it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.refused: list[str] = []
        """The refused requests and the errors of the page."""
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
            answer = json.loads(message.data)
            waiting = self._answers.pop(answer.get("id", 0), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
            self._take(answer.get("method", ""), answer.get("params", {}))

    def _take(self, method: str, params: dict[str, Any]) -> None:
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
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        answer = await asyncio.wait_for(future, LONG_S)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, url: str) -> None:
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        self._received.clear()
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def until(self, script: str) -> None:
        async with asyncio.timeout(LONG_S):
            while not await self.evaluate(script):  # noqa: ASYNC110 - a page reports nothing
                await asyncio.sleep(_LOOK_S)

    def screen(self) -> list[str]:
        screen = pyte.Screen(*self._size)
        stream = pyte.ByteStream(screen)
        for data in self._received:
            stream.feed(data)
        return [row.rstrip() for row in screen.display]

    async def sees(self, *texts: str) -> None:
        """Wait until the terminal shows all of `texts`."""
        await self.shows(lambda rows: all(any(text in row for row in rows) for text in texts), texts)

    async def shows(self, holds: Callable[[list[str]], bool], wanted: object) -> None:
        """Waits until a condition on the terminal's rows holds."""
        try:
            async with asyncio.timeout(LONG_S):
                while not holds(self.screen()):  # noqa: ASYNC110 - a page reports nothing
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
        """Saves a screenshot of the page."""
        answer = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))

    async def close(self) -> None:
        await self._socket.close()
        self._reading.cancel()


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Page]:
    """The page of the browser, which is started once for all tests."""
    root = _started()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{root}/json") as answer:
            url = next(page["webSocketDebuggerUrl"] for page in await answer.json() if page["type"] == "page")
        async with session.ws_connect(url, max_msg_size=0) as socket:
            page = Page(socket)
            try:
                yield page
                await page.call("Emulation.clearDeviceMetricsOverride")
                await page.call("Page.navigate", url="about:blank")
            finally:
                await page.close()


@functools.cache
def _started() -> str:
    """The address at which the browser takes commands."""
    assert BROWSER is not None
    profile = tempfile.TemporaryDirectory(prefix="gmg-browser-", ignore_cleanup_errors=True)
    process = subprocess.Popen(
        (
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run"),
            *("--disable-background-networking", "--hide-scrollbars", "--window-size=1280,800"),
            "--remote-debugging-port=0",
            *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile.name}"),
            "about:blank",
        ),
        stdout=DEVNULL,
        stderr=DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
    )

    @atexit.register
    def end() -> None:
        process.terminate()
        process.wait()
        profile.cleanup()

    port = Path(profile.name, "DevToolsActivePort")
    wait_until(lambda: port.exists() and port.read_text().count("\n") >= 1)
    return f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
