"""A session that `gmg-tui serve` shows, as real processes."""

import asyncio
import contextlib
import resource
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.cli.scripted import environ
from tests.patience import LONG_S


class Served(NamedTuple):
    process: Process
    url: str

    @property
    def root(self) -> str:
        """The address without the token."""
        return self.url.rsplit("/", 2)[0]


@contextlib.asynccontextmanager
async def serving(*words: str) -> AsyncIterator[Served]:
    """Serves on a free port of the loopback, and stops by ctrl+c."""
    process = await start("--port", "0", *words)
    url = (await asyncio.wait_for(process.stdout.readline(), LONG_S)).decode().strip()
    assert url, await process.stderr.read()
    try:
        yield Served(process, url)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), LONG_S)
    assert process.returncode == 0


async def start(*words: str) -> Process:
    command = (sys.executable, "-m", "gmg_tui", "serve", *words)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, env=environ())


@contextlib.contextmanager
def unfinished(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that never finish their request."""
    address = urlsplit(url)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_half_open((address.hostname or "", address.port or 0))) for _ in range(count)]


def _half_open(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, timeout=LONG_S)
    with contextlib.suppress(OSError):  # it is cut already
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
    return connection
