"""`serve`: the screen of a running session in a browser of this machine, read-only."""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
import sys

from gmg_tui import session as sessions
from gmg_tui.commands.messages import note
from gmg_tui.errors import GmgError
from gmg_tui.options import Options
from gmg_tui.session import recovery

_HOST = "127.0.0.1"


def serve(name: str | None, port: int, options: Options) -> int:
    """Show a running session to browsers until ctrl+c; the exit status. Raises `GmgError`."""
    try:
        from gmg_tui.web import server
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in {"textual_serve", "aiohttp", "jinja2"}:
            raise
        raise GmgError("serve needs textual-serve; get it with: pip install 'gmg-tui[serve]'", 1) from None
    recovery.clear(note)
    entry = sessions.find(name, running=True)
    drawing = [f"--theme={options.theme}"] if options.theme else []
    drawing += [flag for flag, wanted in (("--ascii", options.ascii_only), ("--no-mouse", options.no_mouse)) if wanted]
    command = shlex.join([sys.executable, "-m", "gmg_tui", "attach", "--readonly", *drawing, entry.name])

    def opened(url: str) -> None:
        print(url, flush=True)
        note(f"{entry.name} is displayed there, read-only; ctrl+c ends that")

    try:
        with socket.create_server((_HOST, port)) as listening:
            asyncio.run(server.serve(listening, f"exec {command}", entry.name, opened))
    except OSError as error:
        why = "it is in use; 0 takes a free one" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise GmgError(f"--port {port}: {why}", 1) from None
    return 0
