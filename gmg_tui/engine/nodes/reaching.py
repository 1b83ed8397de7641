"""Reaches the agent of a node: the launcher starts or finds it, and it is told what it is to be."""

from __future__ import annotations

import asyncio

import msgspec

import gmg_tui
from gmg_tui.client import EngineClient
from gmg_tui.engine.launchers.launcher import Connection, Launcher
from gmg_tui.engine.nodes.questions import dismiss
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec
from gmg_tui.session import AGENT_MARK

_START_S = 60.0
"""How long a node may take to start its agent: an interpreter on a cold network disk."""


async def reach(name: str, launcher: Launcher, spec: RunSpec) -> tuple[Connection, EngineClient]:
    """The connection to the agent of the node called `name`, and the client that speaks on it. Raises `GmgError`."""
    connection: Connection | None = None
    try:
        async with asyncio.timeout(_START_S):
            connection = await launcher.connect(name)
            await _greet(connection, spec)
            client = await EngineClient.over((connection.reader, connection.writer), f"{name}'s agent")
    except TimeoutError:
        said = connection.trouble() if connection is not None else ""
        await _close(connection)
        raise GmgError(f"{name}: no answer within {_START_S:.0f} s{f': {said}' if said else ''}", 1) from None
    except (GmgError, OSError, EOFError) as error:
        await _close(connection)
        text = str(error) or type(error).__name__
        if connection is not None and not isinstance(error, GmgError):  # what the launcher has said says more
            text = connection.trouble() or text
        raise GmgError(text if text.startswith(f"{name}: ") else f"{name}: {text}", 1) from error
    ours, theirs = gmg_tui.__version__, client.welcome.session.version
    if theirs != ours:
        await dismiss(client)
        await connection.close()
        raise GmgError(f"{name}: it has gmg-tui {theirs}, and here is {ours}; install the same", 1)
    return connection, client


async def _greet(connection: Connection, spec: RunSpec) -> None:
    """Say what the agent is to be, and hear that it is connected. Raises `GmgError`, `OSError`, `EOFError`."""
    connection.writer.write(msgspec.json.encode(spec) + b"\n")
    await connection.writer.drain()
    mark = AGENT_MARK.encode()
    while line := await connection.reader.readline():
        if line.startswith(mark):
            said = msgspec.json.decode(line[len(mark) :], type=dict[str, object])
            if said.get("ok"):
                return
            raise GmgError(str(said.get("error")), 1)
    raise EOFError("the connection was closed before its agent answered")


async def _close(connection: Connection | None) -> None:
    if connection is not None:
        await connection.close()
