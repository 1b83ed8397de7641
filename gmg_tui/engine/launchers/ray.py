"""Agents on the nodes of a Ray cluster: `--nodes ray`, or `ray:ADDRESS`.

Ray's client takes threads, signals and memory for itself, so a process of its own speaks with the cluster
(`ray_driver.py`), and gives each agent's connection as one of a UNIX socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gmg_tui import units
from gmg_tui.engine.launchers.launcher import AGENT, LIMIT_BYTES, Connection, Launcher, Ran, all_of
from gmg_tui.errors import GmgError

_DRIVER = (sys.executable, "-P", "-m", "gmg_tui.engine.launchers.ray_driver")
_ANSWER_S = 45.0
"""How long a cluster may take to answer."""
_CONNECT_S = 5.0
"""How long its head's port may take to accept a connection."""
_CLIENT_PORT = 10001
"""Of Ray's own client, where `ray://` names none (docs.ray.io, "Ray Client")."""
_GONE_S = 120.0
"""How long a cluster may be unreachable before it counts as gone, at least: its head may be started again."""
_AGAIN_S = 5.0
"""For how long it counts that it could not be reached; all nodes ask."""
_END_S = 10.0


class _Socket(Connection):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def trouble(self) -> str:
        """The driver says in the connection's first line what is wrong."""
        return ""

    async def close(self) -> None:
        """Close it; the actor ends, and the agent goes on."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Ray(Launcher):
    """The nodes of the cluster at `where`, or the one that `RAY_ADDRESS` or this machine's Ray names."""

    def __init__(self, where: str, *, cpu: bool = False, orphan_wait_s: float = 0.0) -> None:
        # `ray://host:10001` is an address of Ray's own client.
        self._address = f"ray:{where}" if where.startswith("//") else where or "auto"
        self._cpu = cpu
        self._folder = Path(tempfile.mkdtemp(prefix="gmg-ray-"))
        self._path = self._folder / "driver.sock"
        self._driver: asyncio.subprocess.Process | None = None
        self._ids: dict[str, str] = {}
        """Ray's own names of the nodes, by theirs here."""
        self._beginning = asyncio.Lock()
        self._gone_s = max(_GONE_S, orphan_wait_s)
        self._away: GmgError | None = None
        """Why the cluster cannot be reached, where it could be once."""
        self._away_since = self._tried_at = 0.0

    async def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that have GPUs; of all with CPU slots. Raises `GmgError`."""
        try:
            await self._begin()
        except GmgError as error:
            raise GmgError(f"--nodes ray: {error}", error.exit_code) from error
        return tuple(self._ids)

    async def _begin(self) -> None:
        """Start the driver, unless it lives; one, however many nodes ask for it. Raises `GmgError`."""
        async with self._beginning:
            if self._driver is not None and self._driver.returncode is None:
                return
            if self._away is not None and time.monotonic() < self._tried_at + _AGAIN_S:
                raise GmgError(str(self._away), self._away.exit_code)
            try:
                await self._start()
            except GmgError as error:
                self._tried_at = time.monotonic()
                if self._away is None:
                    self._away_since = self._tried_at
                self._away = error
                raise
            self._away = None

    async def gone(self) -> str | None:
        """That the cluster cannot be reached any more: its head is lost, and has not come back."""
        if self._away is None or time.monotonic() < self._away_since + self._gone_s:
            return None
        return f"the Ray cluster has been away for {units.span(time.monotonic() - self._away_since)}: {self._away}"

    async def _start(self) -> None:
        await _knock(os.environ.get("RAY_ADDRESS", "") if self._address == "auto" else self._address)
        # The names stay those of the first time: a node that has joined takes the place of one that is gone.
        known = [f"{name}={node_id}" for name, node_id in self._ids.items()]
        words = [self._address, str(self._path), "cpu" if self._cpu else "gpu", *known]
        self._driver = await asyncio.create_subprocess_exec(
            *_DRIVER,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LIMIT_BYTES,
            start_new_session=True,
        )
        assert self._driver.stdout is not None
        try:
            async with asyncio.timeout(_ANSWER_S):
                line = await self._driver.stdout.readline()
        except BaseException as error:  # also where who asked has no more time: it would count as one that answers
            await self._end()
            if not isinstance(error, TimeoutError):
                raise
            text = f"the cluster at {self._address} has not answered for {_ANSWER_S:.0f} s"
            raise GmgError(text) from None
        died = {"error": f"Ray's client died while it spoke with {self._address}"}
        said: dict[str, Any] = json.loads(line) if line else died
        if "error" in said:
            await self._end()
            raise GmgError(str(said["error"]))
        self._ids = dict(said["nodes"])

    async def connect(self, node: str) -> Connection:
        """Have an actor on the node run the agent. Raises `GmgError`."""
        return await self._run(node, AGENT)

    async def _run(self, node: str, words: Sequence[str]) -> _Socket:
        await self._begin()
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path), limit=LIMIT_BYTES)
        except OSError as error:
            raise GmgError(f"Ray's client does not answer: {error.strerror}", 1) from error
        writer.write(json.dumps([node, *words]).encode() + b"\n")
        return _Socket(reader, writer)

    async def run(self, node: str, words: Sequence[str], within_s: float) -> Ran:
        """As `Launcher.run`; what the command says on its standard error stays on the node."""
        connection = await self._run(node, words)
        try:
            async with asyncio.timeout(within_s):
                stdout, said = await all_of(connection.reader)
        except TimeoutError as error:
            raise GmgError(f"no answer within {within_s:g} s", 1) from error
        finally:
            await connection.close()
        return Ran(0, stdout, b"", said)

    async def _end(self) -> None:
        driver, self._driver = self._driver, None
        if driver is None or driver.stdin is None:
            return
        driver.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await driver.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            await driver.wait()

    async def close(self) -> None:
        """End the driver, and with it the actors."""
        await self._end()
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()


async def _knock(address: str) -> None:
    """See that something listens at `host:port` or `ray://host`; Ray's client would try for most of a minute.

    Any other address is left to Ray. Raises `GmgError`.
    """
    place = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = place.port or (_CLIENT_PORT if place.scheme == "ray" else None)
    except ValueError:
        return
    if place.scheme not in ("", "ray") or not place.hostname or port is None:
        return
    try:
        connection = await asyncio.to_thread(socket.create_connection, (place.hostname, port), _CONNECT_S)
    except OSError as error:
        why = error.strerror or f"no answer within {_CONNECT_S:.0f} s"
        raise GmgError(f"nothing answers at {place.hostname}:{port}: {why}") from error
    connection.close()
