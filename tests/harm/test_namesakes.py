"""Sessions of one name in two state folders have nothing to do with one another."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui import session as sessions

from .namesakes import Namesake, alive
from .patience import wait_until


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Namesake]:
    """The one in the state folder of a home, running."""
    session = Namesake.at_home(tmp_path / "home")
    session.start()
    yield session
    session.end()


@pytest.fixture
def second(first: Namesake) -> Iterator[Namesake]:
    """The other one, started after it."""
    session = Namesake.elsewhere()
    session.start()
    yield session
    session.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_one_session_leaves_its_namesakes_workers_alone(
    first: Namesake, second: Namesake, number: signal.Signals
) -> None:
    own, other = first.worker, second.worker
    first.signal(number)
    first.until_let_go()
    wait_until(lambda: not alive(own))
    assert alive(other)
    assert second.found.state == "running"


def test_each_of_two_namesakes_has_a_socket_of_its_own(first: Namesake, second: Namesake) -> None:
    before = first.socket.lstat().st_ino
    assert (first.socket.name, second.socket.parent) == ("sama.sock", first.socket.parent)
    assert second.socket.name != "sama.sock"
    workers = [session.listed["workers"][0]["pid"] for session in (first, second)]
    assert workers == [first.worker.pid, second.worker.pid]
    stopped = second.gmg("stop", "sama")
    assert stopped.returncode == 0, stopped.stderr
    assert (first.found.state, second.found.state) == ("running", "ended")
    assert first.socket.lstat().st_ino == before
    assert first.gmg("stop").returncode == 0


def test_a_namesakes_socket_is_not_taken_over_while_its_engine_is_stopped(first: Namesake) -> None:
    first.signal(signal.SIGSTOP)
    second = Namesake.elsewhere()
    try:
        second.start()
        assert second.socket != first.socket
    finally:
        first.signal(signal.SIGCONT)
        second.end()


def test_a_lost_sessions_socket_that_a_namesake_has_taken_stays(first: Namesake) -> None:
    first.signal(signal.SIGKILL)
    first.until_let_go()
    second = Namesake.elsewhere()
    second.start()
    assert second.socket == first.socket
    assert "sama was lost" in first.gmg("ls").stdout
    assert second.listed["workers"][0]["pid"] == second.worker.pid
    assert second.gmg("stop").returncode == 0


def test_a_client_that_means_another_session_is_turned_away(first: Namesake, second: Namesake) -> None:
    second.signal(signal.SIGSTOP)  # else it writes its record again
    second.until_frozen()
    try:
        record = second.found.record
        spec = structs.replace(record.session.spec, socket=str(first.socket))
        sessions.write_record(structs.replace(record, session=structs.replace(record.session, spec=spec)))
        stopped = second.gmg("stop", "sama")
        assert (stopped.returncode, first.found.state) == (1, "running")
        assert "another session's" in stopped.stderr
    finally:
        second.signal(signal.SIGCONT)
