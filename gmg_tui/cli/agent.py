"""`gmg-tui agent`, run by launchers on each node: finds or starts the agent, and connects it to standard streams.

The agent is a separate process that outlives this command, so that the next one can find it. Standard input begins
with a line, the `RunSpec`; standard output with a line that starts with `AGENT_MARK`, after any output of
the shell. Then both carry the frames of `gmg_tui.session.protocol`.
"""

import io
import os
import socket
import threading
import time
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import structs

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.machine.files import reading
from gmg_tui.machine.folders import home, make_private, remove_own
from gmg_tui.model import AgentSpec, RunSpec
from gmg_tui.model.errors import GmgError

_CHUNK_BYTES = 1 << 16
_START_TIMEOUT_S = 20.0
"""Timeout for another `gmg-tui agent` on this node to start the agent."""
_END_TIMEOUT_S = 60.0
"""Time for the agent of the session's earlier engine to end; the launcher waits slightly longer."""
_POLL_S = 0.05
_MARK_CHARACTERS = 8
"""Characters of a session's id that mark its agents."""


def agent() -> int:
    """Connects a node's agent to standard input and output until either side ends; returns the exit status."""
    try:
        connection = _connect_or_start(io.FileIO(0, closefd=False).readline())
    except GmgError as error:
        _answer({"ok": False, "error": str(error)})
        return error.exit_code
    _answer({"ok": True, "machine": _machine()})
    with connection:
        _forward(connection)
    return 0


def _machine() -> str:
    """Returns an identifier of this machine or container; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot.strip()}"


def _answer(fields: dict[str, object]) -> None:
    with suppress(BrokenPipeError):
        os.write(1, sessions.AGENT_MARK.encode() + msgspec.json.encode(fields) + b"\n")


def _connect_or_start(line: bytes) -> socket.socket:
    """Connects to the agent, starting it if there is none. Raises `GmgError`."""
    try:
        spec = msgspec.json.decode(line, type=RunSpec)
    except msgspec.MsgspecError as error:
        raise GmgError(f"the request cannot be read; do the versions of gmg-tui differ? {error}", 1) from error
    if spec.agent is None:
        raise GmgError("gmg-tui agent is for launchers; start a session with --nodes")
    about, version = spec.agent, gmg_tui.__version__
    if about.version != version:
        raise GmgError(f"it has gmg-tui {version}, but this machine has {about.version}; install the same version", 1)
    mark = about.session_id[:_MARK_CHARACTERS]
    path = _socket(about, mark)
    connection = _connect(path)
    if connection is not None:
        return connection
    if about.replaces:
        _end_earlier(about)
    folder = _folder(about, mark)
    make_private(folder)
    shared = False
    with suppress(OSError, UnicodeDecodeError):
        shared = reading(Path(spec.folder, sessions.NODE_MARK)).read(_CHUNK_BYTES).decode() == about.session_id
    spec = structs.replace(
        spec,
        name=folder.name,
        folder=str(folder),
        socket=str(path),
        cwd=spec.cwd if Path(spec.cwd).is_dir() else str(home() or "/"),
        agent=structs.replace(about, logs=spec.folder if shared else ""),
    )
    trouble = _start(spec)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while (connection := _connect(path)) is None:
        if trouble is not None and (time.monotonic() >= deadline or not sessions.is_locked(folder)):
            remove_own(folder)
            raise GmgError(trouble, 1)
        time.sleep(_POLL_S)  # another `gmg-tui agent` is starting it
    return connection


def _socket(about: AgentSpec, mark: str) -> Path:
    return sessions.socket_path(f"agent-{mark}-{zlib.crc32(about.node.encode()):08x}")


def _folder(about: AgentSpec, mark: str) -> Path:
    return sessions.nodes_folder() / f"{about.session}@{about.node}-{mark}"


def _end_earlier(about: AgentSpec) -> None:
    """Ends the agent of the session's earlier engine and waits for it, or its workers would run beside the new ones.

    Raises `GmgError` if it does not end.
    """
    import asyncio  # late: rarely needed

    mark, deadline = about.replaces[:_MARK_CHARACTERS], time.monotonic() + _END_TIMEOUT_S
    folder, asked = _folder(about, mark), False
    while sessions.is_locked(folder):
        if time.monotonic() >= deadline:
            raise GmgError(f"the agent of the session's earlier engine does not end; see {folder}", 1)
        if not asked:
            with suppress(GmgError):  # only its watchdog is still running
                asyncio.run(_end(_socket(about, mark)))
                asked = True
        time.sleep(_POLL_S)


async def _end(path: Path) -> None:
    from gmg_tui.session.client import EngineClient, answering

    client = await EngineClient.connect(path)
    async with answering(client):
        await client.end()


def _start(spec: RunSpec) -> str | None:
    """Starts the agent, and waits until it listens. Returns an error, if any."""
    with PrestartedEngine() as engine:
        engine.order(msgspec.json.encode(spec) + b"\n\n")
        stdout = engine.process.stdout
        line = stdout.readline() if stdout is not None else b""
        try:
            reply = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.MsgspecError:
            last = engine.stderr_text().decode(errors="replace").strip().rpartition("\n")[2]
            return f"the agent died during startup: {last or 'see its log'}"
        return None if reply.get("ok") else str(reply.get("error"))


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    try:
        sessions.check_peer(connection)
    except OSError as error:
        raise GmgError(f"{path}: {error.strerror}", 1) from error
    return connection


def _forward(connection: socket.socket) -> None:
    """Forwards bytes both ways until either side ends; the directions do not block each other."""

    def inward() -> None:
        with suppress(OSError):
            while data := os.read(0, _CHUNK_BYTES):
                connection.sendall(data)
        os._exit(0)  # even if the other direction is blocked

    threading.Thread(target=inward, daemon=True).start()
    with suppress(OSError):
        while data := connection.recv(_CHUNK_BYTES):
            while data:
                data = data[os.write(1, data) :]
