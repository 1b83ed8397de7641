"""`metrics`: export Prometheus metrics for running sessions."""

from __future__ import annotations

import errno
import signal
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.model.errors import GmgError
from gmg_tui.results.prometheus import SessionsCollector

LISTEN = "127.0.0.1:9400"
_MOST_PORT = 65535
_EVERY_S = 15.0
"""How often the text file is written."""


def metrics(*, listen: str | None, textfile: str | None) -> int:
    """Export the running sessions until a signal ends it; the exit status 0, after SIGTERM too.

    Raises:
        GmgError: An option is wrong, or the address or file cannot be used.
    """
    if listen is not None and textfile is not None:
        raise GmgError("--listen and --textfile are mutually exclusive; give one of them")
    host, port = _parse(LISTEN if listen is None else listen)
    if textfile is not None and not textfile.endswith(".prom"):
        raise GmgError(f"--textfile {textfile}: node_exporter reads files that end in .prom only")
    sessions.clear_lost(note)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    registry = CollectorRegistry()
    registry.register(SessionsCollector())
    if textfile is not None:
        _write(Path(textfile).absolute(), registry, ended)
    else:
        _serve(host, port, registry)
        ended.wait()
    return 0


def _parse(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MOST_PORT or (":" in host and not host.startswith("[")):
        raise GmgError(f"--listen {text}: give HOST:PORT, such as {LISTEN}")
    return host.strip("[]"), int(port)


def _serve(host: str, port: int, registry: CollectorRegistry) -> None:
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            why = "it is in use (dcgm-exporter uses 9400 too); give another port"
        raise GmgError(f"--listen {host}:{port}: {why}", 1) from error
    address = f"[{host}]" if ":" in host else host
    note(f"gmg-tui: metrics at http://{address}:{server.server_port}/metrics")


def _write(path: Path, registry: CollectorRegistry, ended: threading.Event) -> None:
    """Write the file until `ended`, and remove it then: its metrics would otherwise pass for current ones."""
    note(f"gmg-tui: metrics in {path}, every {_EVERY_S:.0f} s")
    try:
        while not ended.is_set():
            write_to_textfile(str(path), registry)
            ended.wait(_EVERY_S)
    except OSError as error:
        raise GmgError(f"--textfile {path}: cannot be written: {error.strerror}", 1) from error
    finally:
        path.unlink(missing_ok=True)
