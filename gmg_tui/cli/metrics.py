"""`metrics`: export Prometheus metrics for running sessions."""

import asyncio
import errno
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.machine.address import LOOPBACKS, listening
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import remove_written, write_atomic
from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.results.prometheus import SessionsCollector

LISTEN = "127.0.0.1:9400"
MAX_PORT = 65535
_OPENMETRICS = "application/openmetrics-text; version=1.0.0"
_ACCEPTS_OPENMETRICS = re.compile(r"(?im)^accept:.*\bapplication/openmetrics-text\b")
"""Matches any version of the format, answered with 1.0.0: others would need their own scrapes, or be invalid."""
_LOCAL_NAMES = (*LOOPBACKS, "localhost")
_WRITE_INTERVAL_S = 15.0
"""Interval between writes of the text file."""
MAX_CONNECTIONS = 64
REQUEST_TIMEOUT_S = 5.0
"""Timeout of a request, and of its answer."""


def metrics(*, listen: str | None, textfile: str | None) -> int:
    """Exports the running sessions until SIGTERM or SIGHUP; returns the exit status. Raises `GmgError`."""
    if listen is not None and textfile is not None:
        raise GmgError("--listen and --textfile are mutually exclusive; give one of them")
    host, port = _parse_address(LISTEN if listen is None else listen)
    if textfile is not None and not textfile.endswith(".prom"):
        raise GmgError(f"--textfile {textfile}: node_exporter reads only files that end in .prom; rename it")
    sessions.clear_lost(note)
    registry = CollectorRegistry()
    registry.register(SessionsCollector())
    if textfile is not None:
        _write(Path(textfile).absolute(), registry)
    else:
        _serve(host, port, registry)
    return 0


def _parse_address(text: str) -> tuple[str, int]:
    host, _, digits = text.rpartition(":")
    port = units.natural(digits)
    if not host.strip("[]") or port is None or port > MAX_PORT or (":" in host and not host.startswith("[")):
        raise GmgError(f"--listen {text}: give HOST:PORT, such as {LISTEN}")
    return host.strip("[]"), port


class _Exporter:
    """Answers every HTTP request with the metrics; requests during a scrape share its result.

    On a local address, it refuses requests for other host names: a web site could make its own name resolve to
    127.0.0.1, and read the answer in a user's browser.
    """

    def __init__(self, registry: CollectorRegistry, host: str) -> None:
        self._registry = registry
        self._names = {*_LOCAL_NAMES, host} if host in _LOCAL_NAMES or host.startswith("127.") else None
        self._unanswered: dict[asyncio.StreamWriter, None] = {}
        """Connections without an answer, oldest first."""
        self._scrapes: dict[str, asyncio.Task[bytes]] = {}
        """Scrapes in progress, by format."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection, which is closed if it takes too long, or if too many are open."""
        self._unanswered[writer] = None
        if len(self._unanswered) > MAX_CONNECTIONS:
            oldest = next(iter(self._unanswered))
            del self._unanswered[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            name = re.search(r"(?im)^host:[ \t]*(\[[^]\s]*\]|[^:\s]*)", head)
            if self._names is not None and name is not None and name[1].strip("[]").lower() not in self._names:
                kind, body, status = "text/plain", b"", "403 Forbidden"
            elif head.startswith(("GET ", "HEAD ")):
                kind, body = await self._metrics(_OPENMETRICS if re.search(_ACCEPTS_OPENMETRICS, head) else "")
                status = "200 OK"
            else:
                kind, body, status = "text/plain", b"", "405 Method Not Allowed\r\nAllow: GET, HEAD"
            lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close")
            writer.write("\r\n".join((*lines, "", "")).encode("latin-1") + (b"" if head.startswith("HEAD ") else body))
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return
        finally:
            writer.transport.abort()  # also after an internal error
            self._unanswered.pop(writer, None)

    async def _metrics(self, accept: str) -> tuple[str, bytes]:
        encode, kind = choose_encoder(accept)
        if kind not in self._scrapes:
            self._scrapes[kind] = scrape = asyncio.create_task(in_daemon_thread(encode, self._registry))
            scrape.add_done_callback(lambda _: self._scrapes.pop(kind))
        return kind, await asyncio.shield(self._scrapes[kind])


def _serve(host: str, port: int, registry: CollectorRegistry) -> None:
    """Serves the metrics until SIGTERM or SIGHUP. Raises `GmgError`."""
    address = f"[{host}]" if ":" in host else host
    with ExitStack() as stack:
        try:
            listeners = stack.enter_context(listening(host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "in use (by dcgm-exporter?); give another port"
            raise GmgError(f"--listen {host}:{port}: {reason}", 1) from error
        note(f"gmg-tui: metrics at http://{address}:{listeners[0].getsockname()[1]}/metrics")
        logging.getLogger().addHandler(logging.NullHandler())  # no traceback for each broken connection
        asyncio.run(_answer_until_stopped(_Exporter(registry, host), listeners))


async def _answer_until_stopped(exporter: _Exporter, listeners: Iterable[socket.socket]) -> None:
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    for listener in listeners:
        await asyncio.start_server(exporter.answer, sock=listener, backlog=MAX_CONNECTIONS)
    await stop_requested.wait()


def _write(path: Path, registry: CollectorRegistry) -> None:
    """Writes the file until SIGTERM or SIGHUP, then removes it, so that its metrics do not pass for current ones."""
    stop_requested = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop_requested.set())
    note(f"gmg-tui: metrics in {path}, every {_WRITE_INTERVAL_S:.0f} s")
    try:
        written: os.stat_result | None = write_atomic(path, generate_latest(registry), mode=0o644)
    except OSError as error:
        raise GmgError(f"--textfile {path}: cannot be written: {error.strerror}", 1) from error
    while not stop_requested.wait(_WRITE_INTERVAL_S):
        try:
            written = write_atomic(path, generate_latest(registry), mode=0o644)
        except OSError as error:  # a full disk may have room later
            if written is not None:
                note(f"gmg-tui: {path} cannot be written: {error.strerror}; trying again")
            _remove(path, written)
            written = None
    _remove(path, written)


def _remove(path: Path, written: os.stat_result | None) -> None:
    """Removes the file with old metrics."""
    if written is not None:
        with suppress(OSError):  # the folder or the file has been replaced
            remove_written(path, written)
