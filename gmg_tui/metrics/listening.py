"""Answers scrapes over HTTP, on a TCP port or a UNIX socket."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.exposition import make_wsgi_app
from prometheus_client.registry import Collector

from gmg_tui import sockets
from gmg_tui.errors import GmgError

_UNIX = "unix:"
_TCP = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})")
_MOST_PORT = 65535
_AT_ONCE = 16
"""Scrapes that are answered at once; further ones are turned away."""
_SLOW_S = 10.0
"""How long a client may take to send its request."""
_PATH_BYTES = 107
"""The longest path of a UNIX socket on Linux."""


class Address(NamedTuple):
    """Where to listen."""

    text: str
    """As given."""
    path: Path | None = None
    """Of a UNIX socket."""
    host: str = ""
    port: int = 0


def parse(text: str) -> Address:
    """The address of `HOST:PORT` or `unix:PATH`. Raises `GmgError`."""
    if text.startswith(_UNIX) and text != _UNIX:
        path = Path(text.removeprefix(_UNIX)).absolute()
        if len(os.fsencode(path)) > _PATH_BYTES:
            raise GmgError(f"--listen {text}: the path is too long for a socket ({_PATH_BYTES} bytes at most)")
        return Address(text, path)
    found = _TCP.fullmatch(text)
    if found is None or int(found["port"]) > _MOST_PORT:
        raise GmgError(f"--listen {text}: give HOST:PORT, such as 127.0.0.1:9400, or unix:PATH")
    return Address(text, None, found["host"].strip("[]"), int(found["port"]))


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_S

    def address_string(self) -> str:
        return ""  # a UNIX socket's client has none

    def log_message(self, *_: Any) -> None:
        """Say nothing of each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, app: Any) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        self.request_queue_size = _AT_ONCE
        if address.path is not None:
            self.address_family = socket.AF_UNIX
            bound: Any = str(address.path)
        else:
            (self.address_family, _, _, _, bound), *_ = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        super().__init__(bound, _Handler)
        self.set_app(app)

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name, as the library would."""
        if self.address_family != socket.AF_UNIX:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name = "localhost"
        self.server_port = 0 if self.address_family == socket.AF_UNIX else self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection; its client has an address in any case, which the handler prints."""
        connection, client = super().get_request()
        return connection, client or ("", 0)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no trouble."""


@contextmanager
def listening(address: Address, metrics: Collector) -> Iterator[str]:
    """Answer scrapes while the context lasts; gives where, as a URL or a path.

    Raises:
        GmgError: The address is in use, not this machine's, or not allowed.
    """
    if address.path is not None:
        _clear(address)
    try:
        server = _Server(address, make_wsgi_app(metrics))
    except (OSError, OverflowError, UnicodeError) as error:
        raise GmgError(f"--listen {address.text}: {_why(error, address)}", 1) from error
    inode = os.stat(address.path).st_ino if address.path is not None else 0  # noqa: PTH116 - as below
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield _where(address, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        if address.path is not None:
            with suppress(OSError):  # it may be gone, or another's by now
                if address.path.lstat().st_ino == inode:
                    address.path.unlink()


def _clear(address: Address) -> None:
    """Remove a socket that nobody listens at any more. Raises `GmgError` for anything else in its place."""
    path = address.path
    try:
        if path is None or not stat.S_ISSOCK(path.lstat().st_mode):
            if path is not None:
                raise GmgError(f"--listen {address.text}: there is a file of that name; give another path")
            return
        if sockets.is_listened_at(path):
            raise GmgError(f"--listen {address.text}: another program listens there; give another path", 1)
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise GmgError(f"--listen {address.text}: {error.strerror}", 1) from error


def _why(error: Exception, address: Address) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        taken = (
            "another program listens there (dcgm-exporter uses 9400 too)" if address.port == 9400 else "it is in use"
        )
        return f"{taken}; give another port"
    if number in (errno.EACCES, errno.EPERM):
        return "permission denied; give a port above 1023, or a path in a folder of yours"
    if isinstance(error, socket.gaierror) or number == errno.EADDRNOTAVAIL:
        return "that is no address of this machine; give 127.0.0.1, 0.0.0.0 or one of its own"
    return getattr(error, "strerror", None) or str(error)


def _where(address: Address, port: int) -> str:
    if address.path is not None:
        return f"{_UNIX}{address.path}"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{port}/metrics"
