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

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.server import Server

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.model.errors import GmgError

_HOST = "127.0.0.1"
_CLOSE_S = 0.5
"""How long open pages may take to end with the server; then they are cut off."""
_FOREIGN_LINK = re.compile(r'<link[^>]*href="https://[^>]*>')


def serve(name: str | None, port: int) -> int:
    """Show a running session to browsers until ctrl+c; the exit status. Raises `GmgError`."""
    sessions.clear_lost(note)
    entry = sessions.find(name, running=True)
    try:
        with socket.create_server((_HOST, port)) as listening:
            asyncio.run(_serve(listening, entry.name))
    except OSError as error:
        why = "it is in use; 0 takes a free one" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise GmgError(f"--port {port}: {why}", 1) from None
    return 0


async def _serve(listening: socket.socket, name: str) -> None:
    """Serve pages, on each of which a client of the session `name` draws, until SIGINT or SIGTERM; then end them."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    root, token = f"http://{_HOST}:{listening.getsockname()[1]}", secrets.token_urlsafe(24)
    command = shlex.join([sys.executable, "-m", "gmg_tui", "attach", "--readonly", name])
    server = Server(f"exec {command}", title=name, public_url=root)

    async def index(request: web.Request) -> web.StreamResponse:
        page = await server.handle_index(request)
        assert isinstance(page, web.Response)
        page.text = _FOREIGN_LINK.sub("", page.text or "").replace("<head>", f"<head><title>{name}</title>", 1)
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
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_CLOSE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        print(f"{root}/{token}/", flush=True)
        note(f"{name} is displayed there, read-only; ctrl+c ends that")
        await ended.wait()
    finally:
        await runner.cleanup()
