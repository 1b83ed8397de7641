"""`serve`: the screen of a running session in a browser."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from typing import NamedTuple

from gmg_tui import recovery
from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_theme
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.session import Found

_MOST_PORT = 65535


class Listen(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen:
        """From `HOST:PORT`, an IPv6 address in brackets. Raises `GmgError`."""
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not bare or (":" in bare) != host.startswith("[") or not (port.isascii() and port.isdecimal()):
            raise GmgError(f"--listen {text}: give HOST:PORT, as 127.0.0.1:8400 or [::1]:8400")
        if int(port) > _MOST_PORT:
            raise GmgError(f"--listen {text}: a port is a number up to {_MOST_PORT}")
        return cls(bare, int(port))

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def named(self) -> str:
        """The host as a browser is told it."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return self.host
        if address.is_unspecified:  # any address of this machine
            return socket.gethostname()
        return f"[{self.host}]" if address.version == 6 else self.host


def serve(
    name: str | None,
    *,
    listen: str,
    steer: bool,
    theme: str | None,
    ascii_only: bool,
    mouse: bool,
    confirm: bool,
) -> int:
    """Show a running session to browsers until ctrl+c; the exit status. Raises `GmgError`."""
    check_theme(theme)
    place = Listen.parse(listen)
    try:
        from gmg_tui.web.screen import Shown
        from gmg_tui.web.server import WebServer
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in {"textual_serve", "aiohttp", "jinja2"}:
            raise
        raise GmgError("serve needs textual-serve; get it with: pip install 'gmg-tui[serve]'", 1) from None
    from gmg_tui.ui import remapping

    recovery.clear(tell)
    found = sessions.find(name, running=True)
    session = found.record.session
    shown = Shown(
        session.spec.socket,
        session.id,
        readonly=not steer,
        theme=theme,
        ascii_only=ascii_only,
        mouse=mouse,
        confirm=confirm,
        keys=remapping.chosen(),
    )
    if not place.loopback:
        may = "restart, stop and edit its workers" if steer else "see it"
        tell(f"gmg-tui: {place.host} can be reached from outside, unencrypted: whoever learns the address may {may}")
    server = WebServer(shown, found.name, lambda: _runs(found))

    def opened(port: int) -> None:
        print(f"http://{place.named}:{port}/{server.token}/", flush=True)
        tell(f"{found.name} is shown there, {'to be steered' if steer else 'read-only'}; ctrl+c ends that")

    try:
        asyncio.run(server.run(place.host, place.port, opened))
    except OSError as error:
        raise GmgError(f"--listen {listen}: {_why(error)}", 1) from None
    return 0


def _runs(found: Found) -> bool:
    now = sessions.inspect(found.folder)
    return now is not None and now.state == "running" and now.record.session.id == found.record.session.id


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; port 0 is any free one"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    text = (error.strerror or str(error)).rpartition(": ")[2]
    return text.removeprefix("[").removesuffix("]")
