"""`serve`: the screen of a running session in a browser of this machine, read-only.

textual-serve's page lies below a path that begins with a token; without the token there is nothing. On each open page a
`gmg-tui attach --readonly` draws, a client like any other.
"""

from __future__ import annotations

import asyncio
import errno
import re
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Callable

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.server import Server

from gmg_tui import session as sessions
from gmg_tui.commands.messages import note
from gmg_tui.errors import GmgError

_HOST = "127.0.0.1"
_CLOSE_S = 0.5
"""How long open pages may take to end with the server; then they are cut off."""
_FOREIGN_LINK = re.compile(r'<link[^>]*href="https://[^>]*>')


def serve(name: str | None, port: int) -> int:
    """Show a running session to browsers until ctrl+c; the exit status. Raises `GmgError`."""
    sessions.clear_lost(note)
    entry = sessions.find(name, running=True)
    command = shlex.join([sys.executable, "-m", "gmg_tui", "attach", "--readonly", entry.name])

    def opened(url: str) -> None:
        print(url, flush=True)
        note(f"{entry.name} is displayed there, read-only; ctrl+c ends that")

    try:
        with socket.create_server((_HOST, port)) as listening:
            asyncio.run(_serve(listening, f"exec {command}", entry.name, opened))
    except OSError as error:
        why = "it is in use; 0 takes a free one" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise GmgError(f"--port {port}: {why}", 1) from None
    return 0


async def _serve(listening: socket.socket, command: str, title: str, opened: Callable[[str], None]) -> None:
    """Serve pages, on each of which the shell `command` draws, until SIGINT or SIGTERM; then end them.

    `opened` is called with the address once it answers.
    """
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    host, port = listening.getsockname()
    root = f"http://{host}:{port}"
    token = secrets.token_urlsafe(24)
    runner = web.AppRunner(_application(command, title, root, token), access_log=None, shutdown_timeout=_CLOSE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        opened(f"{root}/{token}/")
        await ended.wait()
    finally:
        await runner.cleanup()


def _application(command: str, title: str, root: str, token: str) -> web.Application:
    server = Server(command, title=title, public_url=root)

    async def index(request: web.Request) -> web.StreamResponse:
        page = await server.handle_index(request)
        assert isinstance(page, web.Response)
        page.text = _FOREIGN_LINK.sub("", page.text or "").replace("<head>", f"<head><title>{title}</title>", 1)
        return page

    application = web.Application()
    aiohttp_jinja2.setup(application, loader=jinja2.FileSystemLoader(server.templates_path))
    application.add_routes(
        [
            web.get(f"/{token}/", index),
            web.get(f"/{token}/ws", server.handle_websocket, name="websocket"),
            web.static(f"/{token}/static", server.statics_path, name="static"),
        ]
    )
    return application
