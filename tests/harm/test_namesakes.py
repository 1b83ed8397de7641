"""Sessions of one name in two state folders do not affect each other."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from gmg_tui import session as sessions
from tests.engine.harness import FAKE
from tests.patience import alive, wait_until

from .sessions import STEPS

NAME = "same"


class Namesake:
    """A detached session called `same`, with one worker that prints until it is ended.

    Args:
        environ: The environment of its commands.
        state: The state folder that this environment leads to.
    """

    def __init__(self, environ: Mapping[str, str], state: Path) -> None:
        self.environ = dict(environ)
        self.folder = state / "gmg-tui" / "sessions" / NAME

    def gmg(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gmg_tui", *words]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True)

    def start(self) -> None:
        done = self.gmg("--detach", "--cpu", "1", "--name", NAME, FAKE, *STEPS)
        assert (done.stdout, done.returncode) == (f"{NAME}\n", 0), done.stderr
        wait_until(lambda: self.entry.record.workers[0].pid)

    @property
    def entry(self) -> sessions.SessionEntry:
        entry = sessions.inspect(self.folder)
        assert entry is not None
        return entry

    @property
    def socket(self) -> Path:
        return Path(self.entry.record.session.spec.socket)

    @property
    def engine(self) -> psutil.Process:
        return psutil.Process(self.entry.record.session.engine_pid)

    @property
    def worker(self) -> psutil.Process:
        return psutil.Process(self.entry.record.workers[0].pid)

    def answers(self) -> bool:
        """Whether the engine that `ls` reaches is its own."""
        (row,) = json.loads(self.gmg("ls", "--json").stdout)
        return bool(row["workers"][0]["pid"] == self.worker.pid)

    def until_ended(self) -> None:
        """Wait until engine and watchdog are gone."""
        wait_until(lambda: self.entry.state != "running")

    def end(self) -> None:
        """End it, whatever state it is in."""
        if self.entry.state == "running":
            self.engine.terminate()
            self.until_ended()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Namesake]:
    """The one in the state folder of a home directory, running."""
    home = tmp_path / "home"
    home.mkdir()
    rest = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
    session = Namesake({**rest, "HOME": str(home)}, home / ".local" / "state")
    session.start()
    yield session
    session.end()


@pytest.fixture
def second(first: Namesake) -> Iterator[Namesake]:
    """The other one, in the test's own state folder, not started yet."""
    session = Namesake(os.environ, Path(os.environ["XDG_STATE_HOME"]))
    yield session
    session.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_a_session_does_not_affect_workers_of_its_namesake(
    first: Namesake, second: Namesake, number: signal.Signals
) -> None:
    second.start()
    worker, other = first.worker, second.worker
    first.engine.send_signal(number)
    first.until_ended()
    wait_until(lambda: not alive(worker))
    assert alive(other)
    assert second.entry.state == "running"


def test_namesakes_have_separate_sockets(first: Namesake, second: Namesake) -> None:
    second.start()
    before = first.socket.lstat().st_ino
    assert (first.socket.name, second.socket.parent) == (f"{NAME}.sock", first.socket.parent)
    assert second.socket.name != first.socket.name
    assert first.answers()
    assert second.answers()
    assert second.gmg("stop", NAME).returncode == 0
    assert (first.entry.state, second.entry.state) == ("running", "ended")
    assert first.socket.lstat().st_ino == before
    assert first.gmg("stop").returncode == 0


def test_a_namesakes_socket_is_not_taken_over_while_its_engine_is_stopped(first: Namesake, second: Namesake) -> None:
    first.engine.suspend()
    try:
        second.start()
        assert second.socket != first.socket
    finally:
        first.engine.resume()


def test_a_lost_sessions_socket_that_a_namesake_has_taken_stays(first: Namesake, second: Namesake) -> None:
    first.engine.kill()
    first.until_ended()
    second.start()
    assert second.socket == first.socket
    assert f"{NAME} was lost" in first.gmg("ls").stdout
    assert second.answers()


def test_a_client_of_another_session_is_rejected(first: Namesake, second: Namesake) -> None:
    second.start()
    engine = second.engine
    engine.suspend()  # else it writes its record again
    wait_until(lambda: engine.status() == psutil.STATUS_STOPPED)
    try:
        record = second.entry.record
        spec = structs.replace(record.session.spec, socket=str(first.socket))
        sessions.write_record(structs.replace(record, session=structs.replace(record.session, spec=spec)))
        stopped = second.gmg("stop", NAME)
        assert (stopped.returncode, first.entry.state) == (1, "running")
        assert "another session" in stopped.stderr
    finally:
        engine.resume()
