"""A scripted engine: it uses the protocol on a real socket and holds a session's real lock."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.cli import app as cli
from gmg_tui.model import JobRecord, Queue, RunSpec, Session, Slot, Snapshot, SweepSpec, WorkerState
from gmg_tui.session import protocol
from gmg_tui.session.options import RUN, Options
from gmg_tui.session.protocol import (
    Answer,
    Ask,
    Bye,
    End,
    Hello,
    Lines,
    Message,
    Numbered,
    Topic,
    Update,
    Watch,
    Welcome,
)
from tests.workers import changed, worker_of


class ScriptedEngine:
    """A session with CPU slots whose workers stand still until the test moves them."""

    def __init__(
        self, slots: tuple[str, ...] = ("cpu0", "cpu1"), script: str = "sim.py", *, sweep: SweepSpec | None = None
    ) -> None:
        self.folder = sessions.create(None, script)
        name = self.folder.name
        self.socket = sessions.socket_path(name)
        spec = RunSpec(
            name=name,
            folder=str(self.folder),
            socket=str(self.socket),
            script=script,
            args=(),
            cwd=str(self.folder),
            python="python",
            cpu=len(slots),
            sweep=sweep,
        )
        made = tuple(Slot(slot) for slot in slots)
        self.session = Session(spec, made, os.getpid(), time.time(), gmg_tui.__version__, os.urandom(8).hex())
        self.snapshot = Snapshot(
            time=time.time(),
            elapsed_s=0.0,
            workers=tuple(
                worker_of(slot, index, WorkerState.STARTING, attempt=1, pid=100 + index)
                for index, slot in enumerate(slots)
            ),
        )
        self.jobs: list[JobRecord] = []
        """The queue, in its order; without any it is a plain run."""
        self.mute = False
        """Whether requests for the queue stay without an answer."""
        self.asked = asyncio.Event()
        """Set once a client has asked for the queue."""
        self.ends: asyncio.Queue[End] = asyncio.Queue()
        self.watched = asyncio.Event()
        """Set once a client watches."""
        self.left = asyncio.Event()
        """Set once a client has gone."""
        self._lines: dict[str, list[str]] = {slot: [] for slot in slots}
        self._writers: list[asyncio.StreamWriter] = []
        self._lock: int | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> ScriptedEngine:
        self._lock = sessions.lock(self.folder)
        sessions.write_record(sessions.Record(self.session, self.briefs))
        self._server = await asyncio.start_unix_server(self._connected, self.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave(ended=True)

    @property
    def briefs(self) -> tuple[sessions.WorkerBrief, ...]:
        return sessions.WorkerBrief.from_workers(self.snapshot.workers)

    async def leave(self, *, ended: bool) -> None:
        """End in order, or (not `ended`) as a killed engine would."""
        if self._server is None or self._lock is None:
            return
        self._server.close()
        if ended:
            sessions.write_record(sessions.Record(self.session, self.briefs, time.time()))
        for writer in self._writers:
            if ended:
                writer.write(protocol.frame(Bye("the session has ended")))
            writer.close()
        os.close(self._lock)
        self._server = self._lock = None

    def move(self, slot: str, state: WorkerState, **changes: Any) -> None:
        """Bring a worker into a state, a second after the last move, and send the clients a snapshot."""
        began, now = self.snapshot.time - self.snapshot.elapsed_s, self.snapshot.time + 1
        changes = {"attempt_started": began, "state_since": now, "state": state, **changes}
        workers = tuple(
            changed(worker, **changes) if worker.slot == slot else worker for worker in self.snapshot.workers
        )
        self.snapshot = changed(
            self.snapshot,
            time=self.snapshot.time + 1,
            elapsed_s=self.snapshot.elapsed_s + 1,
            workers=workers,
            clients=len(self._writers),
        )
        self._send(Update(self.snapshot))

    def advance(self, slot: str, *jobs: JobRecord) -> None:
        """Make `jobs` the queue, and have the slot hold the one of them that names it and has not ended."""
        self.jobs = list(jobs)
        states = [job.state for job in jobs]
        ended = {
            state: states.count(state) for state in (WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED)
        }
        waiting = states.count(WorkerState.WAITING)
        running = len(jobs) - waiting - sum(ended.values())
        before = self.snapshot.queue
        over = not waiting and not running
        finished, failed, stopped = ended.values()
        version = before.version + 1 if before else 1
        queue = Queue(waiting, running, finished, failed, stopped, version=version, ended=over)
        self.snapshot = changed(self.snapshot, queue=queue)
        current = next((job for job in jobs if job.slot == slot and not job.state.ended), None)
        if current is not None:
            self.move(slot, WorkerState.RUNNING, job=current.number, job_name=current.name)
        else:
            self.move(slot, WorkerState.FINISHED)

    def say(self, slot: str, *lines: str, left_out: int = 0) -> None:
        """Have a worker print lines; the clients never see `left_out` that came before them."""
        earlier = self._lines[slot]
        earlier.extend("" for _ in range(left_out))
        self._send(Lines(slot, len(earlier), lines))
        earlier.extend(lines)

    def end_all(self, state: WorkerState = WorkerState.FINISHED) -> None:
        """Bring all workers that have not ended into a final state, all their output counted."""
        for worker in self.snapshot.workers:
            self.move(
                worker.slot, worker.state if worker.state.ended else state, log_lines=len(self._lines[worker.slot])
            )

    def _send(self, message: Message) -> None:
        for writer in self._writers:
            writer.write(protocol.frame(message))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(await protocol.read_request(reader), Hello)
        writer.write(protocol.frame(Welcome(self.session, self.snapshot, ())))
        self._writers.append(writer)
        try:
            while True:
                match await protocol.read_request(reader):
                    case Watch():
                        for slot, lines in self._lines.items():
                            if lines:
                                writer.write(protocol.frame(Lines(slot, 0, tuple(lines))))
                        self.watched.set()
                    case Numbered(id=number, request=End() as end):
                        writer.write(protocol.frame(Answer(number)))
                        self.ends.put_nowait(end)
                    case Numbered(number, Ask(topic=Topic.QUEUE, first=first, count=count)) if self.snapshot.queue:
                        self.asked.set()
                        if self.mute:
                            continue
                        part = tuple(self.jobs[first : first + count])
                        writer.write(protocol.frame(Answer.with_value(number, part)))
                    case request:
                        raise AssertionError(request)
        except (OSError, EOFError):
            self._writers.remove(writer)
            self.left.set()
            writer.close()


ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "gmg_tui")
WORKER = str(ROOT / "tests" / "fake_worker.py")


def environ(**changes: str) -> dict[str, str]:
    """The environment of a program under test: it finds gmg_tui wherever it runs."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def gmg(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process, without a terminal."""
    return subprocess.run(
        [*COMMAND, *words], env=environ(**variables), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def options_of_run(**values: Any) -> Options:
    """The default options of `run`, but for `values`."""
    return Options(**{**{opt.name: opt.default for opt in RUN}, **values})


class Done(NamedTuple):
    stdout: str
    stderr: str
    returncode: int


def in_process(*words: str) -> Done:
    """Run a command in this process, without a terminal: for those that start no engine."""
    result = CliRunner().invoke(cli._group, words, prog_name="gmg-tui")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.stdout, result.stderr, result.exit_code)
