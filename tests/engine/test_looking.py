"""Connections that may only look: the user's own that ask for it, and those of other users with whom it is shared."""

from __future__ import annotations

import asyncio
import grp
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from gmg_tui import protocol, shares
from gmg_tui.client import EngineClient
from gmg_tui.engine.api.peers import HIDDEN
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuProcess, QueueAction, WorkerState
from gmg_tui.protocol import Action, Answer, Bye, Lines, Message, Update, Welcome
from tests.engine.harness import Running, own_name, running, spec_for
from tests.harm.patience import eventually

NEVER = ("--lines", "0")
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

STEERING: dict[str, Callable[[EngineClient], object]] = {
    "restart": lambda client: client.act(Action.RESTART, "cpu0"),
    "stop": lambda client: client.act(Action.STOP, "cpu0"),
    "kill": lambda client: client.act(Action.KILL, "cpu0"),
    "edit": lambda client: client.edit(("cpu0",), ("-B", "8"), {}),
    "end a process": lambda client: client.end_process("cpu0", GpuProcess(1, "init", 1)),
    "act on jobs": lambda client: client.act_on_jobs(QueueAction.SKIP, 1),
    "use a slot": lambda client: client.use_slot("cpu0", used=False),
    "stacks": lambda client: client.stacks("cpu0"),
    "share": lambda client: client.share(os.getgid(), "own"),
    "end": lambda client: client.end(),
    "end at once": lambda client: client.end(kill=True),
}
"""All that changes something, or reaches a worker."""


@asynccontextmanager
async def _looking(run: Running) -> AsyncIterator[EngineClient]:
    client = await EngineClient.connect(Path(run.spec.socket), readonly=True)

    async def listen() -> None:
        async for _ in client.events():
            pass

    listening = asyncio.create_task(listen())
    try:
        yield client
    finally:
        await client.close()
        await listening


def test_every_request_is_known_as_looking_or_as_steering() -> None:
    kinds = {kind.__name__ for kind in (*protocol.LOOKING, protocol.Hello)}
    steering = {"Act", "Edit", "EndProcess", "ActOnJobs", "UseSlot", "AskStacks", "ShareWith", "ToAgent", "End"}
    assert {kind.__name__ for kind in protocol.Request.__args__} == kinds | steering


async def test_the_engine_refuses_what_a_connection_that_looks_asks_to_change() -> None:
    async with running(spec_for(*NEVER, name=own_name())) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        pid = run.worker("cpu0").pid
        async with _looking(run) as client:
            assert client.welcome.readonly
            for steer in STEERING.values():
                with pytest.raises(GmgError, match="read-only"):
                    await steer(client)  # type: ignore[misc]
            assert (await client.details("cpu0")).slot == "cpu0"
            assert (await client.series("cpu0")).slot == "cpu0"
        await run.client.act(Action.STOP, "cpu0")  # the door is the same for those who may steer
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert (stopped.attempt, pid is not None) == (1, True)


async def test_who_only_looks_does_not_keep_the_engine() -> None:
    async with running(spec_for("--lines", "3")) as run:
        await run.until(lambda snapshot: snapshot.ended)
        async with _looking(run):
            await run.leave()
            await asyncio.wait_for(run.process.wait(), 60)
    assert run.process.returncode == 0


STRANGER = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(sys.argv[1])
except PermissionError:
    sys.exit(13)
client.sendall(bytes.fromhex(sys.argv[2]))
while chunk := client.recv(65536):
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
"""


@asynccontextmanager
async def _nobody(path: Path, group: int, *requests: protocol.Request) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another user, of one group alone, who connects to `path` and sends `requests`; what they hear is their output."""
    sent = b"".join(protocol.frame(one) for one in requests)
    process = await asyncio.create_subprocess_exec(
        *("setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups"),
        *(os.path.realpath(sys.executable), "-I", "-S", "-c", STRANGER, str(path), sent.hex()),
        stdout=asyncio.subprocess.PIPE,
        cwd="/",
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _heard(process: asyncio.subprocess.Process) -> AsyncIterator[Message]:
    assert process.stdout is not None
    while True:
        try:
            yield await asyncio.wait_for(protocol.read_message(process.stdout), 60)
        except asyncio.IncompleteReadError:
            return


@pytest.fixture
def group() -> int:
    """A group that is not the other user's own."""
    return grp.getgrnam("games").gr_gid


@as_root
async def test_a_group_may_look_as_long_as_its_owner_shares_the_session(group: int) -> None:
    spec = msgspec.structs.replace(spec_for(*NEVER, name=own_name()), env={"WANDB_API_KEY": "very secret"})
    hello = protocol.Hello(protocol.VERSION)
    async with running(spec) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        path = shares.path_of(0, spec.name)
        await run.client.share(group, "games", f"root/{spec.name}")
        await run.until(lambda snapshot: any("games" in note for note in snapshot.notes))
        assert path.parent.stat().st_mode & 0o777 == 0o710
        assert path.stat().st_mode & 0o777 == 0o660

        async with _nobody(path, NOBODY, hello) as stranger:  # who is not in the group
            assert await stranger.wait() == 13
        asked = (hello, protocol.Follow(("cpu0",), 10), protocol.AskDetails(1, "cpu0"), protocol.End(2, kill=True))
        async with _nobody(path, group, *asked) as guest:
            answers = dict[int, Answer]()
            seen = set[type]()
            texts = b""
            async for message in _heard(guest):
                texts += protocol.frame(message)
                seen.add(type(message))
                if isinstance(message, Welcome):
                    assert message.readonly
                    assert message.session.spec.env == {"WANDB_API_KEY": HIDDEN}
                if isinstance(message, Answer):
                    answers[message.id] = message
                if {Welcome, Update, Lines} <= seen and len(answers) == 2:
                    break
            assert b"very secret" not in texts
            assert answers[1].details is not None
            assert answers[1].details.env["WANDB_API_KEY"] == HIDDEN
            assert answers[1].details.env["GMG_SLOT"] == "cpu0"
            assert answers[2].error == "this connection is read-only"
            assert run.worker("cpu0").state is WorkerState.RUNNING
            own = await EngineClient.connect(path)  # the owner comes through it as through the other door
            assert not own.welcome.readonly
            await own.close()

            await run.client.share(None)
            last = [message async for message in _heard(guest)][-1]
            assert isinstance(last, Bye)
            assert "does not share it" in last.reason
        assert not path.parent.exists()
        await run.until(lambda snapshot: not snapshot.notes)
        with pytest.raises(GmgError, match="is not shared"):
            await run.client.share(None)
        assert run.worker("cpu0").attempt == 1


@as_root
async def test_a_share_ends_with_the_session_and_is_put_back_while_it_lasts(group: int) -> None:
    async with running(spec_for(*NEVER, name=own_name())) as run:
        path = shares.path_of(0, run.spec.name)
        await run.client.share(group, "games")
        await run.client.share(os.getgid(), "own")  # another one takes its place
        assert path.stat().st_gid == os.getgid()
        shutil.rmtree(path.parent)
        await eventually(lambda: path.exists() and path.parent.stat().st_mode & 0o777 == 0o710)
        await run.client.end(kill=True)
        await run.leave()
        await asyncio.wait_for(run.process.wait(), 60)
        assert not path.parent.exists()


@as_root
async def test_a_folder_of_somebody_else_in_its_place_is_left_alone(group: int) -> None:
    async with running(spec_for(*NEVER, name=own_name())) as run:
        folder = shares.path_of(0, run.spec.name).parent
        folder.mkdir(mode=0o777)
        try:
            os.chown(folder, NOBODY, NOBODY)
            with pytest.raises(GmgError, match="belongs to somebody else"):
                await run.client.share(group, "games")
            with pytest.raises(GmgError, match="is not root's"):
                shares.check(shares.parse(f"root/{run.spec.name}"))
        finally:
            folder.rmdir()
