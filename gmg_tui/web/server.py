"""The web server. Whoever knows the token in its address sees the screen, and nobody else sees anything.

The page, its script and the way they speak with a Textual app are textual-serve's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import re
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import jinja2
import textual_serve
from aiohttp import web

from gmg_tui.web.screen import Shown
from gmg_tui.web.viewer import Viewer

MOST_VIEWERS: Final = 16
"""Pages that may be open at once; each has a process of its own."""
_TOKEN_BYTES: Final = 24
_GUARDED: Final = {
    # Nothing is loaded from elsewhere (a font of Google's would be), and nobody is told the address.
    "Content-Security-Policy": "default-src 'self' data: blob:; connect-src 'self' ws: wss:; frame-ancestors 'none'; "
    "script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FOLDER: Final = Path(textual_serve.__file__).parent
_FOREIGN: Final = re.compile(r'<link[^>]*href="https://[^>]*>')
_HEAD: Final = """<link rel="icon" href="data:,"><style>@font-face { font-family: "Roboto Mono"; font-weight: 100 700;
  src: url("static/fonts/RobotoMono-VariableFont_wght.ttf"); }
  html, body { margin: 0; height: 100%; overflow: hidden; } #terminal { height: 100vh; }</style>
  <script>window.addEventListener("load", () => setTimeout(  // keys are the terminal's without a click on it
    () => document.querySelector(".xterm-helper-textarea")?.focus()));</script>"""


class WebServer:
    """Shows one session to the browsers that know `token`.

    Args:
        shown: What each page shows.
        title: The name of the page.
        alive: Whether the session is still there.
    """

    def __init__(self, shown: Shown, title: str, alive: Callable[[], bool]) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._shown = shown
        self._title = title
        self._alive = alive
        self._sockets: set[web.WebSocketResponse] = set()
        self._viewers: set[asyncio.Task[object]] = set()
        static = _FOLDER / "static"
        self._files = {f"static/{path.relative_to(static)}": path for path in static.rglob("*") if path.is_file()}
        pages = jinja2.Environment(loader=jinja2.FileSystemLoader(_FOLDER / "templates"), autoescape=True)
        self._page = pages.get_template("app_index.html")

    async def run(self, host: str, port: int, opened: Callable[[int], None]) -> None:
        """Serve until SIGINT or SIGTERM, and end all that was started.

        `opened` is told the port once it is open. Raises `OSError` when it cannot be opened.
        """
        enough = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, enough.set)
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            opened(int(runner.addresses[0][1]))
            await enough.wait()
        finally:
            await self._close()
            await runner.cleanup()

    async def _close(self) -> None:
        """Close all pages, and wait until their processes have ended."""
        for websocket in list(self._sockets):
            await websocket.close(code=1001, message=b"the server has ended")
        if self._viewers:
            await asyncio.wait(self._viewers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token, sign, path = request.match_info["path"].partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return web.Response(status=403, text="403: this is not the address that gmg-tui serve has printed\n")
        if path == "ws":
            return await self._websocket(request)
        if path in self._files:
            return web.FileResponse(self._files[path], headers={**_GUARDED, "Cache-Control": "private, max-age=3600"})
        if path:
            return web.Response(status=404, text="404: there is no such page\n", headers=_GUARDED)
        if not sign:
            raise web.HTTPFound(f"/{self.token}/", headers=_GUARDED)
        if not self._alive():
            return web.Response(status=410, text=f"{self._title} has ended\n", headers=_GUARDED)
        return web.Response(text=self._index(request), content_type="text/html", headers=_GUARDED)

    def _index(self, request: web.Request) -> str:
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        size = request.query.get("fontsize", "")
        page = self._page.render(
            font_size=int(size) if size.isascii() and size.isdecimal() else 16,
            app_websocket_url=f"{'wss' if secure else 'ws'}://{request.host}/{self.token}/ws",
            config={"static": {"url": "static/"}},
            application={"name": self._title},
        )
        page = page.replace("Session ended.", "This screen was closed.").replace(">Restart<", ">Open again<")
        title = html.escape(self._title)
        return _FOREIGN.sub("", page).replace("<head>", f"<head><title>{title}</title>{_HEAD}", 1)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        if len(self._sockets) >= MOST_VIEWERS:
            return web.Response(status=503, text=f"503: {MOST_VIEWERS} pages are open already\n", headers=_GUARDED)
        websocket = web.WebSocketResponse(heartbeat=15.0, max_msg_size=1 << 20)
        self._sockets.add(websocket)
        task = asyncio.current_task()
        assert task is not None
        self._viewers.add(task)
        try:
            await websocket.prepare(request)
            with contextlib.suppress(ConnectionError):
                viewer = Viewer(self._shown.command(), websocket)
                await viewer.serve(_number(request.query.get("width"), 80), _number(request.query.get("height"), 24))
        finally:
            self._sockets.discard(websocket)
            self._viewers.discard(task)
        return websocket


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else default
