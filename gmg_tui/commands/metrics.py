"""`metrics`: export Prometheus metrics for running sessions."""

from __future__ import annotations

import asyncio
import errno
import signal
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from gmg_tui.commands.messages import note
from gmg_tui.errors import GmgError
from gmg_tui.metrics.collector import SessionsCollector
from gmg_tui.metrics.following import Following
from gmg_tui.session import recovery

LISTEN = "127.0.0.1:9400"
_MOST_PORT = 65535
_EVERY_S = 15.0
"""How often the text file is written."""
_FIRST_S = 2.0


def metrics(*, listen: str | None, textfile: str | None) -> int:
    """Export the running sessions until a signal ends it; the exit status 0, after SIGTERM too.

    Raises:
        GmgError: An option is wrong, or the address or file cannot be used.
    """
    if listen is not None and textfile is not None:
        raise GmgError("--listen and --textfile are mutually exclusive; give one of them")
    address = _parse(LISTEN if listen is None else listen)
    recovery.clear(note)
    return asyncio.run(_export(address, None if textfile is None else _checked(textfile)))


def _parse(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MOST_PORT or (":" in host and not host.startswith("[")):
        raise GmgError(f"--listen {text}: give HOST:PORT, such as {LISTEN}")
    return host.strip("[]"), int(port)


def _checked(textfile: str) -> Path:
    path = Path(textfile).absolute()
    if path.suffix != ".prom":
        raise GmgError(f"--textfile {textfile}: node_exporter reads files that end in .prom only")
    return path


async def _export(address: tuple[str, int], textfile: Path | None) -> int:
    following = Following(note)
    registry = CollectorRegistry()
    registry.register(SessionsCollector(following))
    tasks = [asyncio.create_task(following.run())]
    if textfile is not None:
        tasks.append(asyncio.create_task(_write(textfile, registry)))
    else:
        _serve(*address, registry)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, tasks[0].cancel)
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:  # after ctrl+c, too, which cancels this
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in ended:
        if not task.cancelled():
            task.result()
    return 0


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


async def _write(path: Path, registry: CollectorRegistry) -> None:
    """Write the file until cancelled, and remove it then: its metrics would otherwise pass for current ones."""
    note(f"gmg-tui: metrics in {path}, every {_EVERY_S:.0f} s")
    pause_s = _FIRST_S  # for the first snapshots
    try:
        while True:
            await asyncio.sleep(pause_s)
            await asyncio.to_thread(write_to_textfile, str(path), registry)
            pause_s = _EVERY_S
    except OSError as error:
        raise GmgError(f"--textfile {path}: cannot be written: {error.strerror}", 1) from error
    finally:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - nothing else is left to be held up
