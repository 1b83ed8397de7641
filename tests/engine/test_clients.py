"""What clients are sent, what they may ask for, and when workers wait for one."""

import asyncio
import contextlib
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import msgspec
import pytest

import gmg_tui
from gmg_tui.engine.api.client import Client, Updates
from gmg_tui.engine.api.server import Listener, Server
from gmg_tui.engine.faults import Faults
from gmg_tui.model import ArgumentResults, QueueAction, RunSpec, Session, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import MAX_LINE_BYTES
from gmg_tui.session import protocol
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action, Seen
from tests.patience import LONG_S, eventually

from .harness import Running, program, read_out, running, spec_for, sweep_for

_SCRIPT = """
import sys, time
for number in range(1 if sys.argv[1] == "0" else 10_000):
    print("line", number, flush=True)
    time.sleep(0.05)
"""


class _Engine:
    """A supervisor and an observer that count what is requested of them."""

    agent = fleet = None
    concluded = False

    session = Session(RunSpec("s", "/s", "/s.sock", "sim.py", (), "/", "python"), (), 1, 0.0, "0")

    def __init__(self) -> None:
        self.requested = list[str]()
        self.slots = dict[str, object]()
        self.jobs = self

    def snapshot(self) -> Snapshot:
        return Snapshot(0.0, 0.0, (), ())

    def tried(self) -> tuple[ArgumentResults, ...]:
        self.requested.append("tried")
        return ()

    def act(self, *_: object) -> None:
        self.requested.append("act")

    def end(self, *, kill: bool) -> None:
        self.requested.append("end")

    def edit(self, *_: object) -> None:
        self.requested.append("edit")

    def use(self, slot: str, *, used: bool) -> None:
        self.requested.append("use")

    def view(self, first: int, count: int) -> None:
        raise KeyError(first)

    async def details(self, slot: str) -> None:
        await asyncio.Event().wait()

    async def stacks(self, slot: str) -> tuple[()]:
        self.requested.append("stacks")
        return ()


async def _served(
    engine: _Engine, *requests: protocol.Command | protocol.Question, readonly: bool = False
) -> dict[int, str | None]:
    """Serve a client that sends all requests at once. Returns the errors of those that were answered, by position."""
    reader, sent = asyncio.StreamReader(), asyncio.StreamReader()
    writer = SimpleNamespace(write=sent.feed_data, drain=lambda: asyncio.sleep(0))
    fake = cast("Any", engine)
    watched = None if readonly else asyncio.Event()
    client = Client(fake, fake, Updates(engine.snapshot), (reader, cast("Any", writer)), watched)
    reader.feed_data(b"".join(protocol.frame(protocol.Numbered(number, each)) for number, each in enumerate(requests)))
    serving = asyncio.create_task(client.serve())
    for _ in range(20):  # questions are answered beside the other requests
        await asyncio.sleep(0)
    reader.feed_eof()
    with pytest.raises(ExceptionGroup):
        await serving
    sent.feed_eof()
    errors: dict[int, str | None] = {}
    while not sent.at_eof():
        if isinstance(message := await protocol.read_message(sent), protocol.Answer):
            errors[message.id] = message.error
    return errors


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_read_only_connection_is_answered_and_changes_nothing(readonly: bool) -> None:
    requests: tuple[protocol.Command | protocol.Question, ...] = (
        protocol.Act(Action.STOP, ("gpu0",)),
        protocol.ActOnJobs(QueueAction.SKIP, (1,)),
        protocol.End(),
        protocol.Edit(("gpu0",), (), {}),
        protocol.UseSlot("gpu0", False),
        protocol.Ask(protocol.Topic.STACKS, "gpu0"),
        protocol.Ask(protocol.Topic.TRIED),
    )
    engine = _Engine()
    await _served(engine, *requests, readonly=readonly)
    changing = ["act", "act", "edit", "end", "stacks", "use"]
    assert sorted(engine.requested) == (["tried"] if readonly else sorted([*changing, "tried"]))


async def test_a_command_is_not_behind_a_question_that_hangs() -> None:
    engine = _Engine()
    details = protocol.Ask(protocol.Topic.DETAILS, "gpu0")
    stop, edit = protocol.Act(Action.STOP, ("gpu0",)), protocol.Edit(("gpu0",), (), {})
    errors = await _served(engine, details, stop, details, edit, stop, protocol.Ask(protocol.Topic.TRIED))
    assert engine.requested[:3] == ["act", "edit", "act"]
    assert sorted(errors) == [1, 3, 4, 5]


async def test_an_internal_error_in_an_answer_does_not_end_the_connection() -> None:
    errors = await _served(_Engine(), protocol.Ask(protocol.Topic.QUEUE, first=7), protocol.End())
    assert errors == {0: "internal error (KeyError: 7); see engine.log", 1: None}


async def test_clients_can_connect_after_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.engine.faults._RETRY_PAUSE_S", 0.0)
    tmp_path.chmod(0o700)
    engine, failed, sent = cast("Any", _Engine()), asyncio.Event(), asyncio.Event()
    server = Server(engine, engine, listener := Listener([tmp_path / "s.sock"]))

    def fail_once() -> None:
        (sent if failed.is_set() else failed).set()
        if not sent.is_set():
            raise KeyError("one internal error")

    monkeypatch.setattr(server, "send", fail_once)
    running = asyncio.create_task(Faults().keep_running("clients", server.run))
    await asyncio.sleep(0)
    for event in (failed, sent):
        server.request_snapshot()
        await asyncio.wait_for(event.wait(), LONG_S)
        client = await EngineClient.connect(listener.path)
        await client.close()
    running.cancel()
    listener.close()
    assert not listener.path.exists()


async def test_unchanged_workers_are_not_sent_again(tmp_path: Path) -> None:
    """Issue 24, bug 10: a state that contained its age changed, and was sent, each second."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    async with running(spec_for("{i}", script=str(script), cpu=2)) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        await run.until_state("cpu1", WorkerState.RUNNING)
        reader, writer = await asyncio.open_unix_connection(run.spec.socket)
        writer.write(protocol.frame(protocol.Hello(protocol.VERSION, gmg_tui.__version__)))
        updates: list[protocol.Update] = []
        async with asyncio.timeout(LONG_S):
            while len(updates) < 5:
                message = await protocol.read_message(reader)
                if isinstance(message, protocol.Update):
                    updates.append(message)
        writer.close()
        first, *others = updates
        assert [worker.slot for worker in first.snapshot.workers] == ["cpu0", "cpu1"]
        sent = [worker.slot for update in others for worker in update.snapshot.workers]
        assert all(update.partial for update in others)
        assert "cpu0" not in sent
        assert "cpu1" in sent
        await run.client.end(kill=True)


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


async def test_read_only_clients_do_not_keep_the_engine_running() -> None:
    async with running(spec_for("--lines", "3")) as run:
        await run.until(lambda snapshot: snapshot.ended)
        async with _looking(run):
            await run.leave()
            await asyncio.wait_for(run.process.wait(), LONG_S)
    assert run.process.returncode == 0


async def test_a_request_for_an_ended_job_does_not_affect_the_next_one() -> None:
    async with running(sweep_for([{}] * 3, program("--s", "60"), cpu=1)) as run:
        await run.until(lambda s: s.workers[0].job == 1 and s.workers[0].pid)
        seen = {"cpu0": Seen(1, 1)}
        await run.client.act_on_jobs(QueueAction.STOP, 1)
        second = await run.until(lambda s: s.workers[0].job == 2 and s.workers[0].pid)
        refused = r"^job 1 has ended; job 2 is running on cpu0 now$"
        for action in Action:
            with pytest.raises(GmgError, match=refused):
                await run.client.act(action, "cpu0", seen=seen)
        with pytest.raises(GmgError, match=refused):
            await run.client.edit(("cpu0",), ("--s", "1"), {}, seen)
        with pytest.raises(GmgError, match=r"^job 2 is running on cpu0 now$"):
            await run.client.act(Action.STOP, "cpu0", seen={"cpu0": Seen()})
        last = await run.client.queue(0, 10)
        assert [job.state for job in last[1:]] == [last[1].state, WorkerState.WAITING]
        assert not last[1].state.ended
        assert run.worker("cpu0").pid == second.workers[0].pid
        await run.client.act(Action.KILL, "cpu0", seen={"cpu0": Seen(2, 1)})
        await run.until(lambda s: s.workers[0].job == 3 and s.workers[0].pid)
        await run.client.act(Action.STOP, "cpu0", seen={"cpu0": Seen(3)})
        await run.until_done()
        await run.client.act(Action.RESTART, "cpu0", seen={"cpu0": Seen(3)})
        await run.until(lambda s: s.workers[0].job == 3 and s.workers[0].attempt == 2)


async def test_a_kill_of_an_ended_attempt_is_refused_and_other_slots_are_killed() -> None:
    async with running(spec_for("--lines", "0", "--plain", cpu=2)) as run:
        await run.until(lambda s: all(worker.pid for worker in s.workers))
        with pytest.raises(GmgError, match=r"^attempt 7 has ended; attempt 1 is running on cpu0 now$"):
            await run.client.act(Action.KILL, "cpu0", "cpu1", seen={"cpu0": Seen(None, 7), "cpu1": Seen(None, 1)})
        await run.until_state("cpu1", WorkerState.STOPPED)
        assert run.worker("cpu0").state.live


_LONG = "import gmg_tui.engine.main as main; main._MAX_VIEWER_WAIT_S = 1e6; "
_BOOT = "import runpy; runpy.run_module('gmg_tui.engine', run_name='__main__', alter_sys=True)"


@contextlib.asynccontextmanager
async def _awaiting(spec: RunSpec, boot: str) -> AsyncIterator[Running]:
    """An engine that expects a client."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", boot), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    process.stdin.write(msgspec.json.encode(spec) + b"\nviewer")
    process.stdin.close()
    assert msgspec.json.decode(await process.stdout.readline())["ok"]
    run = Running(process, await EngineClient.connect(Path(spec.socket)), spec)
    try:
        yield run
    finally:
        await run.leave()
        if process.returncode is None:
            process.terminate()
        await read_out(process)


async def test_workers_start_once_a_client_is_connected() -> None:
    async with _awaiting(spec_for("--lines", "1"), _LONG + _BOOT) as run:
        another = await EngineClient.connect(Path(run.spec.socket))
        (worker,) = another.welcome.snapshot.workers
        assert worker.state is WorkerState.WAITING
        await another.close()
        await run.client.watch()
        await run.until_state("cpu0", WorkerState.FINISHED)


async def test_workers_start_without_a_client_after_a_timeout() -> None:
    async with _awaiting(spec_for("--lines", "1"), _BOOT) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)


async def test_only_reports_of_a_node_may_be_large() -> None:
    """A hundred million empty lines are 100 MB in transit, and 6 GB in memory; a long one is cleaned for seconds."""
    report = protocol.SlotReports(msgspec.Raw(msgspec.msgpack.encode("x" * 5000)))
    large = protocol.Lines("n1/cpu0", 0, ("",) * 5000)
    many = protocol.Lines("n1/cpu0", 0, ("",) * (protocol.MAX_LINES + 1))
    reader = asyncio.StreamReader()
    for message in (report, large, many):
        reader.feed_data(protocol.frame(message))
    assert await protocol.read_message(reader, 1000, 1 << 20) == report
    with pytest.raises(protocol.ProtocolError, match="Lines"):
        await protocol.read_message(reader, 1000, 1 << 20)
    with pytest.raises(protocol.ProtocolError, match="length <= 8000"):
        await protocol.read_message(reader)
    longest = "x" * (2 * MAX_LINE_BYTES)
    reader.feed_data(protocol.frame(protocol.Lines("n1/cpu0", 0, (longest,))))
    reader.feed_data(protocol.frame(protocol.Lines("n1/cpu0", 0, (longest + "\b",))))
    assert isinstance(await protocol.read_message(reader), protocol.Lines)
    with pytest.raises(protocol.ProtocolError, match="length <= 16384"):
        await protocol.read_message(reader)


async def test_an_answer_of_a_node_may_not_be_longer_than_one_is() -> None:
    client = EngineClient(MagicMock(), MagicMock(drain=AsyncMock()), MagicMock(), 1 << 20)
    client.max_answer_bytes = 1000
    asking = asyncio.create_task(client.details("n1/cpu0"))
    await eventually(lambda: client._pending)
    client._pending[1].set_result(protocol.Answer.with_value(1, "x" * 2000))
    with pytest.raises(GmgError, match="the answer is too long: 2,003 bytes"):
        await asking


async def test_a_request_that_cannot_be_sent_as_the_engine_goes_fails_once(caplog: pytest.LogCaptureFixture) -> None:
    """An exception that nobody retrieves would be reported as an internal error."""

    async def drain() -> None:
        client._fail("the engine is gone")
        raise ConnectionResetError("reset")

    writer = SimpleNamespace(write=lambda _: None, drain=drain)
    welcome = protocol.Welcome(_Engine.session, Snapshot(0.0, 0.0, ()), ())
    client = EngineClient(asyncio.StreamReader(), cast("asyncio.StreamWriter", writer), welcome, 1 << 20)
    with pytest.raises(GmgError, match="the engine is gone"):
        await client.stacks("cpu0")
    gc.collect()
    assert not caplog.records
