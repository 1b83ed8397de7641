"""Connections to the engine's socket that are no clients: other users, noise, crowds, and those that never read."""

import asyncio
import contextlib
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

import gmg_tui
from gmg_tui.model import WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session import protocol
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from tests.engine.harness import Running, read_out, running, spec_for
from tests.patience import LONG_S, eventually

NEVER = ("--lines", "0")
NOBODY = 65534

LISTENER = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
os.umask(0)
server.bind(sys.argv[1])
server.listen()
print(flush=True)
with server.accept()[0] as client:
    print(client.recv(65536), flush=True)
"""
STRANGER = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(sys.argv[1])
    client.sendall(bytes.fromhex(sys.argv[2]))
except PermissionError:
    sys.exit(13)
except BrokenPipeError:
    pass
sys.stdout.buffer.write(b"".join(iter(lambda: client.recv(65536), b"")))
"""

_AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *(os.path.realpath(sys.executable), "-I", "-S", "-c"),
)


def _as_nobody(path: Path, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """What the engine answers to another user who connects to `path` and sends `data`."""
    return subprocess.run([*_AS_NOBODY, STRANGER, str(path), data.hex()], capture_output=True, timeout=LONG_S)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="gmg-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def _descriptors(most: int) -> Iterator[None]:
    """What is started meanwhile may have `most` files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.asynccontextmanager
async def _watched(run: Running) -> AsyncIterator[None]:
    """What happens meanwhile neither parts the real client from the engine nor keeps its snapshots back."""
    before = (await run.until_state("cpu0", WorkerState.RUNNING)).log_lines
    yield
    moment = run.snapshot.time
    await run.until(lambda snapshot: snapshot.time > moment and run.worker("cpu0").log_lines > before)
    assert run.bye is None
    assert run.worker("cpu0").attempt == 1
    assert "Traceback" not in run.log()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_is_denied_by_the_folder_and_by_the_engine(open_folder: Path) -> None:
    hello = protocol.frame(protocol.Hello(protocol.VERSION)) + protocol.frame(
        protocol.Numbered(1, protocol.End(kill=True))
    )
    async with running(spec_for(*NEVER)) as run, _watched(run):
        path = Path(run.spec.socket)
        assert (await asyncio.to_thread(_as_nobody, path, hello)).returncode == 13
        exposed = open_folder / "exposed.sock"
        exposed.hardlink_to(path)
        exposed.chmod(0o666)
        refused = await asyncio.to_thread(_as_nobody, exposed, hello)
        assert refused.stderr == b""
        assert b"belongs to another user" in refused.stdout
        assert run.spec.name.encode() not in refused.stdout
        client = await EngineClient.connect(exposed)
        await client.close()  # the folder is no obstacle to the owner


NOISE = {
    "nothing": b"",
    "half a length": b"\0\0",
    "half a message": b"\0\0\1\0abc",
    "a length without a message": b"\0\x0f\xff\xff",
    "a length beyond all bounds": b"\xff\xff\xff\xff",
    "no msgpack": b"\0\0\0\2\xc1\xc1",
    "another protocol": b"GET / HTTP/1.0\r\n\r\n" * 5000,
    "no hello": protocol.frame(protocol.Watch()),
    "another version": protocol.frame(protocol.Hello(999)),
    "two hellos": protocol.frame(protocol.Hello(protocol.VERSION)) * 2,
    "a nest": (bytes(2) + b"\xc3\x50\x82\xa4type\xa5Hello\xa1x").ljust(4 + 0xC350, b"\x91"),
    "random bytes": random.Random(7).randbytes(100_000),
}


@pytest.mark.parametrize("behind_a_hello", [False, True])
async def test_noise_on_the_socket_closes_only_that_connection(behind_a_hello: bool) -> None:
    async with running(spec_for(*NEVER)) as run, _watched(run):
        for data in NOISE.values():
            reader, writer = await asyncio.open_unix_connection(run.spec.socket)
            if behind_a_hello:
                writer.write(protocol.frame(protocol.Hello(protocol.VERSION)))
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(LONG_S):
                    await reader.read()
            writer.close()


def _answer(path: str, data: bytes) -> bytes:
    """All that the engine sends to a client that sends `data` and then reads."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LONG_S)
        client.connect(path)
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


async def test_a_rejected_client_gets_the_reason_even_with_unread_data() -> None:
    async with running(spec_for(*NEVER)) as run, _watched(run):
        hello = protocol.frame(protocol.Hello(999, "gmg-tui 99"))
        answer = await asyncio.to_thread(_answer, run.spec.socket, hello + bytes(1_000_000))
        assert b"this is gmg-tui 99; use the engine's version" in answer
        changed = await asyncio.to_thread(
            _answer, run.spec.socket, protocol.frame(protocol.Hello(999, gmg_tui.__version__))
        )
        assert b"has been changed since the session's engine was started; to end it" in changed


async def test_many_silent_connections_leave_descriptors_for_clients_and_workers() -> None:
    crowd = []
    async with contextlib.AsyncExitStack() as stack:
        with _descriptors(300):
            run = await stack.enter_async_context(running(spec_for(*NEVER, cpu=2)))
        await stack.enter_async_context(_watched(run))
        await run.until_state("cpu1", WorkerState.RUNNING)
        for attempt in (2, 3):
            crowd = [await asyncio.open_unix_connection(run.spec.socket) for _ in range(500)]
            await run.client.act(Action.RESTART, "cpu1")
            await run.until_attempt("cpu1", attempt)
            newcomer = await EngineClient.connect(Path(run.spec.socket))
            await newcomer.close()
            for _, writer in crowd:
                writer.close()
        assert psutil.Process(run.process.pid).num_fds() < 200
        assert len(run.log()) < 100_000


async def test_an_engine_out_of_descriptors_says_so_once_and_accepts_clients_again() -> None:
    async with running(spec_for(*NEVER)) as run:
        engine = psutil.Process(run.process.pid)
        before = engine.rlimit(psutil.RLIMIT_NOFILE)
        engine.rlimit(psutil.RLIMIT_NOFILE, (engine.num_fds(), before[1]))
        crowd = [await asyncio.open_unix_connection(run.spec.socket) for _ in range(20)]
        await run.until(lambda snapshot: any("Too many open files" in alert.text for alert in snapshot.alerts))
        moment = run.snapshot.time
        await run.until(lambda snapshot: snapshot.time > moment + 3)  # asyncio tries again each second
        assert run.log().count("fault in socket.accept()") == 1
        assert run.log().count("Traceback") < 5  # one for each part
        engine.rlimit(psutil.RLIMIT_NOFILE, before)
        for _, writer in crowd:
            writer.close()
        client = await EngineClient.connect(Path(run.spec.socket))
        await client.close()
        await run.until(lambda snapshot: not any("Too many open files" in alert.text for alert in snapshot.alerts))


async def test_clients_that_never_read_are_disconnected_and_use_no_memory() -> None:
    async with running(spec_for(*NEVER, "--rate", "1000")) as run, _watched(run):
        await run.until(lambda _: run.worker("cpu0").log_lines > 2000)
        engine = psutil.Process(run.process.pid)
        descriptors, memory = engine.num_fds(), engine.memory_info().rss
        deaf = []
        hello = protocol.frame(protocol.Hello(protocol.VERSION)) + protocol.frame(protocol.Watch(lines=True))
        requests = hello + b"".join(
            protocol.frame(protocol.Numbered(number, protocol.Ask(protocol.Topic.DETAILS, "cpu0")))
            for number in range(5000)
        )
        for _ in range(100):
            _, writer = await asyncio.open_unix_connection(run.spec.socket)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport reads too
            writer.write(requests)
            deaf.append(writer)
            async with asyncio.timeout(LONG_S):
                # Refused or thrown out: the engine has closed its side before this client read a byte.
                with contextlib.suppress(OSError):
                    await writer.drain()
        await run.until(lambda snapshot: snapshot.clients == 1)
        await eventually(lambda: engine.num_fds() <= descriptors + 5)
        assert engine.memory_info().rss - memory < 64 << 20
        for writer in deaf:
            writer.transport.abort()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_a_client_sends_nothing_to_an_engine_of_another_user(open_folder: Path) -> None:
    open_folder.chmod(0o777)
    path = open_folder / "gmg.sock"
    listener = await asyncio.create_subprocess_exec(*_AS_NOBODY, LISTENER, str(path), stdout=asyncio.subprocess.PIPE)
    try:
        assert await listener.stdout.readline() == b"\n"
        with pytest.raises(GmgError, match=f"a process of user {NOBODY} listens there"):
            await EngineClient.connect(path)
        assert await listener.stdout.readline() == b"b''\n"
    finally:
        listener.terminate()
        await read_out(listener)


async def test_viewers_keep_nobody_out_who_steers() -> None:
    async with running(spec_for(*NEVER)) as run, contextlib.AsyncExitStack() as stack:
        path = Path(run.spec.socket)
        for _ in range(64):
            viewer = await EngineClient.connect(path, readonly=True)
            stack.push_async_callback(viewer.close)
        with pytest.raises(GmgError, match="already has 64 read-only clients"):
            await EngineClient.connect(path, readonly=True)
        await (await EngineClient.connect(path)).close()
