"""`serve`: show the screen of a running session in a browser on this machine, read-only.

The path of textual-serve's page begins with a secret token. Each open page runs its own `gmg-tui attach --readonly`.
"""

import asyncio
import errno
import json
import logging
import os
import re
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager
from textual_serve.server import Server

from gmg_tui import session as sessions
from gmg_tui.cli.attach import SERVED_VARIABLE
from gmg_tui.cli.printing import note
from gmg_tui.machine.address import LOOPBACKS, listening
from gmg_tui.model.errors import GmgError
from gmg_tui.ui.terminal import MAX_CELLS

_HOST = "127.0.0.1"
_CLOSE_TIMEOUT_S = 0.5
"""Timeout for open pages to close when the server ends."""
_HEARTBEAT_INTERVAL_S = 15.0
REQUEST_TIMEOUT_S = 5.0
"""Timeout for a connection to request the page."""
MAX_PENDING, MAX_VIEWERS = 64, 32
"""Limits on connections that have not requested the page, and on open pages."""
MAX_MESSAGE_BYTES, MAX_BYTES_PER_S = 16 << 10, 4 << 10
"""Limits on the size of a message from a page, and on the page's input rate."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers that hide the address, with its token, from other sites, and keep them from embedding the page."""
_EXTERNAL_LINK = re.compile(r'<link[^>]*href="https://[^>]*>')


def serve(name: str | None, port: int) -> int:
    """Shows a running session to browsers until ctrl+c; returns the exit status. Raises `GmgError`."""
    sessions.clear_lost(note)
    entry = sessions.find(name, running=True)
    os.environ[SERVED_VARIABLE] = entry.record.session.id  # for its pages' clients; not for other users, like arguments
    try:
        with listening(_HOST, port) as listeners:
            asyncio.run(_serve(listeners, entry.name))
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE and port
        reason = "in use; --port 0 picks a free one" if in_use else error.strerror or str(error)
        raise GmgError(f"--port {port}: {reason}", 1) from None
    return 0


class _ConnectionLimiter:
    """Closes connections that do not request the page in time, so that they cannot lock out viewers."""

    def __init__(self, connect: Callable[[], RequestHandler]) -> None:
        self._connect = connect
        self._pending: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Connections that have not requested the page, oldest first. Their handlers may hold megabytes, even once closed."""

    def connect(self) -> RequestHandler:
        """Returns the handler of a new connection."""
        handler, loop = self._connect(), asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._add, handler)  # the loop gives it its transport before the second call
        return handler

    def _add(self, handler: RequestHandler) -> None:
        if (transport := handler.transport) is None:
            return  # it is closed already
        for other in [other for other in self._pending if other.is_closing()]:
            self._forget(other)
        if len(self._pending) >= MAX_PENDING:
            next(iter(self._pending)).abort()
        self._pending[transport] = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, transport.abort)

    def accept(self, transport: asyncio.Transport | None) -> None:
        """Exempts a connection that has requested the page."""
        if transport in self._pending:
            self._forget(transport)

    def _forget(self, transport: asyncio.Transport) -> None:
        self._pending.pop(transport).cancel()


async def _run_client(request: web.Request, command: str, downloads: DownloadManager) -> web.StreamResponse:
    """Runs `command` for a page while its websocket is open."""
    page = web.WebSocketResponse(heartbeat=_HEARTBEAT_INTERVAL_S, max_msg_size=MAX_MESSAGE_BYTES)
    await page.prepare(request)
    size = [_parse_size(request.query.get(name), default) for name, default in (("width", 80), ("height", 24))]

    async def close() -> None:
        await page.close()

    service = AppService(
        command, write_bytes=page.send_bytes, write_str=page.send_str, close=close, download_manager=downloads
    )
    await service.start(*size)
    try:
        async for message in page:
            length = len(message.data) if isinstance(message.data, str | bytes) else 0
            match json.loads(message.data) if message.type is WSMsgType.TEXT else None:
                case ["stdin", str(text)]:
                    await service.send_bytes(text.encode(errors="replace"))
                case ["resize", {"width": width, "height": height}]:
                    await service.set_terminal_size(_parse_size(width, 80), _parse_size(height, 24))
                case ["ping", str(text)]:
                    await page.send_json(["pong", text])
                case ["blur"]:
                    await service.blur()
                case ["focus"]:
                    await service.focus()
            await asyncio.sleep(length / MAX_BYTES_PER_S)  # the screen's event queue is unbounded
            if request.transport is None:
                break  # the page is closed: drop the rest of its input
    except (ValueError, OSError, RecursionError):  # an invalid message, or the page is closed
        pass
    finally:
        service.stdin.close()  # ends even a busy process
        await service.stop()
    return page


def _parse_size(value: object, default: int) -> int:
    """Returns the size that a page requests, clamped to 1–`MAX_CELLS`; the default if it is not a number."""
    try:
        return max(1, min(int(str(value)), MAX_CELLS))
    except ValueError:
        return default


async def _serve(listeners: Sequence[socket.socket], name: str) -> None:
    """Serves pages, each with a client of the session `name`, until SIGINT, SIGTERM or SIGHUP."""
    stop_requested = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    root, token = f"http://{_HOST}:{listeners[0].getsockname()[1]}", secrets.token_urlsafe(24)
    command = shlex.join([sys.executable, "-P", "-m", "gmg_tui", "attach", "--readonly", name])
    files = Server(command)
    logging.getLogger().addHandler(logging.NullHandler())  # no traceback for each broken connection

    async def index(request: web.Request) -> web.StreamResponse:
        # A tunnel may have another port: on that machine, another user may listen on this one.
        server = Server(command, title=name, public_url=f"http://{request.host}")
        page = await server.handle_index(request)
        assert isinstance(page, web.Response)
        page.text = _EXTERNAL_LINK.sub("", page.text or "").replace("<head>", f"<head><title>{name}</title>", 1)
        return page

    downloads, viewers = DownloadManager(), 0

    async def websocket(request: web.Request) -> web.StreamResponse:
        nonlocal viewers
        if urlsplit(request.headers.get("Origin", root)).hostname not in {*LOOPBACKS, "localhost"}:
            raise web.HTTPForbidden  # another site's page
        if viewers >= MAX_VIEWERS:
            raise web.HTTPServiceUnavailable
        viewers += 1
        try:
            return await _run_client(request, f"exec {command}", downloads)
        finally:
            viewers -= 1

    @web.middleware
    async def accept(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is None:
            limiter.accept(request.transport)
        return await handler(request)

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)

    application = web.Application(middlewares=[accept])
    application.on_response_prepare.append(add_headers)
    aiohttp_jinja2.setup(application, loader=jinja2.FileSystemLoader(files.templates_path))
    application.add_routes(
        [
            web.get(f"/{token}/", index),
            web.get(f"/{token}/ws", websocket, name="websocket"),
            web.static(f"/{token}/static", files.statics_path, name="static"),
        ]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
    await runner.setup()
    assert runner.server is not None
    limiter = _ConnectionLimiter(runner.server)
    try:
        for listener in listeners:
            await asyncio.get_running_loop().create_server(limiter.connect, sock=listener, backlog=MAX_PENDING)
        print(f"{root}/{token}/", flush=True)
        note(f"serving {name} read-only; ctrl+c stops")
        await stop_requested.wait()
    finally:
        await runner.cleanup()
