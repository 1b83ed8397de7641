"""`gmg-tui agent`, run by launchers on each node: finds or starts the agent, and connects it to the standard streams.

The agent is a separate process that outlives this command, so that the next one can find it. The first line of standard
input is the `RunSpec`; standard output, after any output of the shell, starts with a line that begins with `AGENT_MARK`.
After that, both carry the frames of `gmg_tui.session.protocol`.
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
from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.folders import OpenFolder, distrust, home, make_private
from gmg_tui.model import AgentSpec, RunSpec
from gmg_tui.model.errors import GmgError

_CHUNK_BYTES = 1 << 16
_START_TIMEOUT_S = 20.0
"""Timeout for another `gmg-tui agent` on this node to start the agent."""
_END_TIMEOUT_S = 60.0
"""Timeout for the agent of the session's earlier engine to exit; the launcher waits slightly longer."""
_POLL_S = 0.05
_ID_PREFIX_LENGTH = 8
"""Length of the session id's prefix in the names of its agents' sockets and folders."""


def agent() -> int:
    """Connects a node's agent to standard input and output until either side ends; returns the exit status."""
    try:
        connection = _connect_or_start(io.FileIO(0, closefd=False).readline())
    except GmgError as error:
        _write_reply({"ok": False, "error": str(error)})
        return error.exit_code
    _write_reply({"ok": True, "machine": _machine_id()})
    with connection:
        _forward(connection)
    return 0


def _machine_id() -> str:
    """Returns an identifier of this machine or container; empty if unknown."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot_id.strip()}"


def _write_reply(fields: dict[str, object]) -> None:
    with suppress(BrokenPipeError):
        # The shell's output may lack a line end, as for a terminal's title.
        os.write(1, b"\n%s%s\n" % (sessions.AGENT_MARK.encode(), msgspec.json.encode(fields)))


def _connect_or_start(line: bytes) -> socket.socket:
    """Connects to the agent, starting it if there is none; `line` is the `RunSpec` as JSON. Raises `GmgError`."""
    try:
        spec = msgspec.json.decode(line, type=RunSpec)
    except msgspec.MsgspecError as error:
        raise GmgError(f"cannot read the request; do the versions of gmg-tui differ? {error}", 1) from error
    if spec.agent is None:
        raise GmgError("gmg-tui agent is for launchers; start a session with --nodes")
    agent_spec, version = spec.agent, gmg_tui.__version__
    if agent_spec.version != version:
        versions = f"it has gmg-tui {version}, but this machine has {agent_spec.version}"
        raise GmgError(f"{versions}; install the same version", 1)
    id_prefix = agent_spec.session_id[:_ID_PREFIX_LENGTH]
    folder = _agent_folder(agent_spec, id_prefix)
    path, *recorded = _socket_paths(agent_spec, id_prefix)
    for socket_path in (path, *recorded):
        if (connection := _connect(socket_path)) is not None:
            return connection
    for earlier in agent_spec.replaces:
        _end_earlier_agent(agent_spec, earlier)
    make_private(folder)
    new_folder = OpenFolder.open(folder)
    shares_folder = False
    with suppress(OSError, UnicodeDecodeError):
        mark = open_for_reading(Path(spec.folder, sessions.NODE_MARK)).read(_CHUNK_BYTES).decode()
        engine_id = mark.partition("\n")[0]
        shares_folder = engine_id == agent_spec.session_id and distrust(Path(spec.folder)) is None
    if not (spec.module or os.path.isdir(spec.cwd)):  # a module may be in the working directory
        spec = structs.replace(spec, script=spec.script_path, cwd=str(home() or "/"))
    spec = structs.replace(
        spec,
        name=folder.name,
        folder=str(folder),
        socket=str(path),
        agent=structs.replace(agent_spec, logs=spec.folder if shares_folder else ""),
    )
    start_error = _start(spec)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while (connection := _connect(path)) is None:
        is_locked = sessions.is_locked(folder)
        if start_error is not None and (time.monotonic() >= deadline or not is_locked):
            if not is_locked:  # else an agent is running that does not answer
                sessions.remove_new(new_folder)
            raise GmgError(start_error, 1)
        time.sleep(_POLL_S)  # another `gmg-tui agent` is starting it
    return connection


def _socket_paths(agent_spec: AgentSpec, id_prefix: str) -> list[Path]:
    """Returns the path at which an agent started now would listen, and the running agent's, if any.

    They differ if other users have changed the temporary folder.
    """
    folder = _agent_folder(agent_spec, id_prefix)
    running = sessions.inspect(folder) if sessions.is_locked(folder) else None
    path = sessions.socket_path(f"agent-{id_prefix}-{zlib.crc32(agent_spec.node.encode()):08x}")
    return [path, *([Path(running.record.session.spec.socket)] if running is not None else [])]


def _agent_folder(agent_spec: AgentSpec, id_prefix: str) -> Path:
    name = f"{agent_spec.session}@{agent_spec.node}-{id_prefix}"
    first, *others = (folder / name for folder in sessions.nodes_folders())
    return next(filter(sessions.is_locked, others), first)


def _end_earlier_agent(agent_spec: AgentSpec, session_id: str) -> None:
    """Ends the agent of an earlier engine of the session, or its workers would run beside the new ones.

    Waits until the agent has exited. Raises `GmgError` if it does not exit in time.
    """
    import asyncio  # late: rarely needed

    id_prefix, deadline = session_id[:_ID_PREFIX_LENGTH], time.monotonic() + _END_TIMEOUT_S
    folder, end_requested = _agent_folder(agent_spec, id_prefix), False
    while sessions.is_locked(folder):
        if time.monotonic() >= deadline:
            raise GmgError(f"the agent of the session's earlier engine does not exit; see {folder}", 1)
        if not end_requested:
            for path in _socket_paths(agent_spec, id_prefix):
                with suppress(GmgError):  # the agent is gone, and its watchdog is ending its workers
                    asyncio.run(_request_end(path))
                    end_requested = True
        time.sleep(_POLL_S)


async def _request_end(path: Path) -> None:
    from gmg_tui.session.client import EngineClient, answering

    client = await EngineClient.connect(path)
    async with answering(client):
        await client.end()


def _start(spec: RunSpec) -> str | None:
    """Starts the agent, and waits until it listens. Returns the error, if any."""
    with PrestartedEngine() as engine:
        engine.send_spec(msgspec.json.encode(spec) + b"\n\n")
        stdout = engine.process.stdout
        line = stdout.readline() if stdout is not None else b""
        try:
            reply = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.MsgspecError:
            last_line = engine.early_stderr().decode(errors="replace").strip().rpartition("\n")[2]
            return f"the agent died during startup: {last_line or 'see its log'}"
        return None if reply.get("ok") else str(reply.get("error"))


def _connect(path: Path) -> socket.socket | None:
    """Connects to an agent; returns None if none listens. Raises `GmgError` if another user's process does."""
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
    """Forwards bytes both ways until the agent disconnects; exits the process at the end of standard input."""

    def forward_input() -> None:
        with suppress(OSError):
            while data := os.read(0, _CHUNK_BYTES):
                connection.sendall(data)
        os._exit(0)  # even if the other direction is blocked

    threading.Thread(target=forward_input, daemon=True).start()
    with suppress(OSError):
        while data := connection.recv(_CHUNK_BYTES):
            while data:
                data = data[os.write(1, data) :]
