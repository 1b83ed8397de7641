"""A real engine in a separate process, and its client."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from gmg_tui import session
from gmg_tui.model import JobRecord, Queue, RunSpec, Snapshot, SweepSpec, Value, Worker, WorkerState
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Bye, Lines, Update
from gmg_tui.session.store import reader
from tests.patience import LONG_S, eventually

FAKE = str(Path(__file__).parents[1] / "fake_worker.py")


class Running:
    def __init__(self, process: asyncio.subprocess.Process, client: EngineClient, spec: RunSpec) -> None:
        self.process = process
        self.client = client
        self.spec = spec
        self.folder = Path(spec.folder)
        self.snapshot = client.welcome.snapshot
        self.lines: dict[str, dict[int, str]] = {}
        self.bye: str | None = None
        self._waits: dict[asyncio.Future[None], Callable[[], Any]] = {}
        """A condition to wait for."""
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.client.events():
            match event:
                case Update(snapshot=snapshot):
                    self.snapshot = snapshot
                case Lines(slot=slot, first=first, lines=lines):
                    self.lines.setdefault(slot, {}).update(enumerate(lines, first))
                case Bye(reason=reason):
                    self.bye = reason
            if self._check_waits():
                await asyncio.sleep(0)  # who has waited for this sees it before the next message changes it

    def _check_waits(self) -> bool:
        """Wake those whose condition holds; whether there are any.

        Each message is looked at: on a busy machine several are read at once, and a state may be in one of them alone.
        """
        woken = False
        for future, holds in list(self._waits.items()):
            if future.done():
                continue
            try:
                if not holds():
                    continue
                future.set_result(None)
            except Exception as error:
                future.set_exception(error)
            woken = True
        return woken

    async def _until(self, holds: Callable[[], Any], describe: Callable[[], object], timeout_s: float) -> None:
        """Wait until `holds`, now or after one of the next messages; else the error has what `describe` returns."""
        if holds():
            return
        future = asyncio.get_running_loop().create_future()
        self._waits[future] = holds
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise AssertionError(f"not so within {timeout_s:.0f} s: {describe()}\n{self.log()}") from None
        finally:
            del self._waits[future]

    async def until(self, holds: Callable[[Snapshot], Any], *, timeout_s: float = LONG_S) -> Snapshot:
        await self._until(lambda: holds(self.snapshot), lambda: self.snapshot, timeout_s)
        return self.snapshot

    async def until_lines(
        self, slot: str, holds: Callable[[dict[int, str]], Any], *, timeout_s: float = LONG_S
    ) -> None:
        await self._until(lambda: holds(self._lines(slot)), lambda: list(self._lines(slot).items())[-20:], timeout_s)

    def _lines(self, slot: str) -> dict[int, str]:
        return self.lines.get(slot, {})

    async def until_state(self, slot: str, *states: WorkerState) -> Worker:
        snapshot = await self.until(lambda snapshot: self.worker(slot).state in states)
        worker = snapshot.worker(slot)
        assert worker is not None
        return worker

    async def until_attempt(self, slot: str, number: int) -> None:
        await self.until(lambda _: self.worker(slot).attempt == number)

    def worker(self, slot: str) -> Worker:
        worker = self.snapshot.worker(slot)
        assert worker is not None
        return worker

    async def pid(self, slot: str) -> int:
        """The PID of the worker on `slot`, once it is known: 0 would signal the test's own process group."""
        await self.until(lambda _: self.worker(slot).pid)
        pid = self.worker(slot).pid
        assert pid
        return pid

    def log(self) -> str:
        return (self.folder / session.ENGINE_LOG).read_text()

    def output(self, slot: str) -> bytes:
        return (self.folder / session.LOGS / f"{slot}.log").read_bytes()

    def record(self) -> session.Record:
        return msgspec.json.decode((self.folder / session.RECORD).read_bytes(), type=session.Record)

    def summary(self) -> dict[str, Any]:
        data = msgspec.json.decode((self.folder / session.SUMMARY).read_bytes())
        assert isinstance(data, dict)
        return data

    @property
    def queue(self) -> Queue:
        assert self.snapshot.queue is not None
        return self.snapshot.queue

    async def until_done(self) -> Queue:
        await self.until(lambda snapshot: snapshot.ended)
        return self.queue

    async def jobs(self) -> dict[str, JobRecord]:
        return {record.name: record for record in await self.client.queue(0, 500)}

    async def leave(self) -> None:
        await self.client.close()
        await self._task


def spec_for(*args: str, cpu: int | None = 1, script: str = FAKE, name: str | None = None, **more: Any) -> RunSpec:
    """A spec in a session folder made for it."""
    folder = session.create(name, script)
    socket = str(session.socket_path(folder.name))
    defaults: dict[str, Any] = {
        "cwd": str(folder),
        "python": sys.executable,
        "sigint_wait_s": 1.0,
        "sigterm_wait_s": 1.0,
    }
    return RunSpec(folder.name, str(folder), socket, script, args, cpu=cpu, **(defaults | more))


def lives(pid: int) -> bool:
    """Whether a process has this PID and runs; nobody may have waited for one that is dead."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def spawn(spec: RunSpec, env: dict[str, str] | None = None) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
    """Start an engine. Returns its process and its answer, which lines with the progress may precede."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gmg_tui.engine",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **(env or {})},
    )
    process.stdin.write(msgspec.json.encode(spec))
    process.stdin.close()
    while True:
        reply = msgspec.json.decode(await process.stdout.readline())
        if "ok" in reply:
            break
    if not reply["ok"]:
        await read_out(process)
    return process, reply


async def read_out(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process and of its pipes: a pipe that is open as the event loop is closed raises later."""
    async with asyncio.timeout(LONG_S):
        await process.communicate()


@contextlib.asynccontextmanager
async def running(spec: RunSpec, env: dict[str, str] | None = None) -> AsyncIterator[Running]:
    """An engine that runs `spec`; at the end it is gone, and so is everything that it started."""
    process, reply = await spawn(spec, env)
    assert reply["ok"], reply
    children: list[psutil.Process] = []
    engine = psutil.Process(process.pid)
    client = await EngineClient.connect(Path(spec.socket))
    run = Running(process, client, spec)
    try:
        yield run
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            children = engine.children(recursive=True)
    finally:
        await run.leave()
        if process.returncode is None:
            process.terminate()
            await asyncio.sleep(0)
            process.terminate()
        await process.wait()
        await eventually(lambda: not session.is_locked(run.folder))  # a killed engine's watchdog has the lock
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=LONG_S)
        assert not alive, f"left running: {alive}"
        await read_out(process)


JOB = str(Path(__file__).parents[1] / "job.py")


def sweep_for(jobs: Sequence[Mapping[str, Value]], what: Mapping[str, Any] | None = None, **more: Any) -> RunSpec:
    """A spec of a sweep in a session folder made for it, with a store that holds a job for each of `jobs`' values.

    `what` the jobs run is a `program`'s. A value `name` is a job's name, and `ranks` how many ranks its group has.
    """
    fields = {"cpu": None, **(program() if what is None else what), **more}
    limits = {key: fields.pop(key) for key in SweepSpec.__struct_fields__ if key in fields}
    spec = spec_for(*fields.pop("args"), sweep=SweepSpec(**limits), **fields)
    made = [
        JobRecord(
            number,
            str(values.get("name", f"job-{number}")),
            {key: value for key, value in values.items() if key not in ("name", "ranks")},
            world_size=int(values["ranks"]) if "ranks" in values else None,
        )
        for number, values in enumerate(jobs, 1)
    ]
    reader.create(Path(spec.folder) / session.STORE, made)
    return spec


def program(*args: str, script: str = JOB, **settings: Any) -> dict[str, Any]:
    """What jobs run, `tests/job.py` unless it is another script, with fields of `RunSpec` and `SweepSpec`."""
    return {"script": script, "args": args, **settings}


def marks(folder: Path) -> list[dict[str, Any]]:
    """What jobs have written with `--marks FOLDER`, in the order in which they began."""
    return sorted((json.loads(path.read_text()) for path in folder.iterdir()), key=lambda mark: mark["began"])
