"""Agents on the nodes of a Ray cluster: `--nodes ray`, or `ray:ADDRESS`.

Ray's client takes threads, signals and memory for itself, so each node has a process that is a client of the cluster
(`ray_driver.py`), and connects an actor's standard input and output.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gmg_tui.engine.launchers.launcher import Connection, Launcher
from gmg_tui.errors import GmgError

_DRIVER = (sys.executable, "-P", "-m", "gmg_tui.engine.launchers.ray_driver")
_ANSWER_S = 45.0
"""How long a cluster may take to answer."""
_CONNECT_S = 5.0
"""How long its head's port may take to accept a connection."""
_CLIENT_PORT = 10001
"""Of Ray's own client, where `ray://` names none (docs.ray.io, "Ray Client")."""


class Ray(Launcher):
    """The nodes of the cluster at `where`, or the one that `RAY_ADDRESS` or this machine's Ray names."""

    def __init__(self, where: str, *, cpu: bool = False) -> None:
        # `ray://host:10001` is an address of Ray's own client.
        self._address = f"ray:{where}" if where.startswith("//") else where or "auto"
        self._kind = "cpu" if cpu else "gpu"

    async def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that have GPUs; of all with CPU slots. Raises `GmgError`."""
        try:
            driver = await self.connect("")
            try:
                async with asyncio.timeout(_ANSWER_S):
                    line = await driver.reader.readline()
            finally:
                await driver.close()
            if not line:
                raise GmgError(f"Ray's client died while it connected to {self._address}")
            answer: dict[str, Any] = msgspec.json.decode(line)
            if "error" in answer:
                raise GmgError(answer["error"])
        except TimeoutError:
            text = f"--nodes ray: the cluster at {self._address} has not answered for {_ANSWER_S:.0f} s"
            raise GmgError(text) from None
        except GmgError as error:
            raise GmgError(f"--nodes ray: {error}") from error
        return tuple(answer["nodes"])

    def command(self, node: str) -> Sequence[str]:
        """What connects to the cluster for a node; without one, it lists them all."""
        return (*_DRIVER, self._address, self._kind, node)

    async def connect(self, node: str) -> Connection:
        """As `Launcher.connect`, where a cluster answers."""
        await self._check_port()
        return await super().connect(node)

    async def _check_port(self) -> None:
        """Raise `GmgError` where nothing listens at `host:port` or `ray://host`; Ray would try for most of a minute."""
        address = os.environ.get("RAY_ADDRESS", "") if self._address == "auto" else self._address
        url = urlsplit(address if "://" in address else f"//{address}")
        try:
            port = url.port or (_CLIENT_PORT if url.scheme == "ray" else None)
        except ValueError:
            return
        if url.scheme not in ("", "ray") or not url.hostname or port is None:
            return  # any other address is left to Ray
        try:
            connection = await asyncio.to_thread(socket.create_connection, (url.hostname, port), _CONNECT_S)
        except OSError as error:
            why = error.strerror or f"no answer within {_CONNECT_S:.0f} s"
            raise GmgError(f"nothing answers at {url.hostname}:{port}: {why}") from error
        connection.close()
