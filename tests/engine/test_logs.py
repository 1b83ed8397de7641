"""The thread that writes the logs, before a disk that does what a test wants."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gmg_tui.engine import logs
from gmg_tui.engine.logs import Log, Logs


class Tape:
    """Takes bytes while it is `running`."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.running = threading.Event()
        self.running.set()
        self.taken: list[bytes] = []
        self.took = threading.Event()

    def write(self, data: bytes) -> None:
        self.running.wait()
        self.taken.append(data)
        self.took.set()

    def skip(self, size: int, why: str) -> None:
        self.taken.append(f"<{size}: {why}>".encode())

    def close(self) -> None:
        self.taken.append(b"<closed>")


@pytest.fixture
def tape() -> Tape:
    return Tape()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for ten bytes, four without need, and hardly any patience."""
    monkeypatch.setattr(logs, "MOST_BYTES", 10)
    monkeypatch.setattr(logs, "MOST_IN_TIME_BYTES", 4)
    monkeypatch.setattr(logs, "PATIENCE_S", 0.05)


def _all(tape: Tape, ours: Logs) -> bytes:
    ours.close()
    return b"".join(tape.taken)


async def test_what_is_written_is_there_once_it_is_said_to_be(tape: Tape) -> None:
    ours = Logs()
    log = Log(ours, tape)
    for number in range(100):
        log.write(b"%d " % number)
    log.write(b"")
    await log.written()
    assert b"".join(tape.taken) == b"".join(b"%d " % number for number in range(100))
    ours.close()


def test_nobody_waits_for_a_disk_that_does_not_answer_and_what_is_left_out_is_counted(tape: Tape, small: None) -> None:
    ours = Logs()
    log, other = Log(ours, tape), Log(ours, Tape())
    tape.running.clear()
    for part in (b"first", b"more", b"lost", b"lost too", b""):
        log.write(part)
    assert log.trouble == other.trouble == "log not written for 0 s: the disk does not answer"
    tape.running.set()
    assert tape.took.wait(10)
    log.write(b"again")
    log.close()
    assert _all(tape, ours) == b"firstmore<12: " + logs._FULL.encode() + b">again<closed>"


def test_what_is_left_out_at_the_end_is_said_as_well(tape: Tape, small: None) -> None:
    ours = Logs()
    log = Log(ours, tape)
    tape.running.clear()
    for part in (b"12345", b"67890", b"lost"):
        log.write(part)
    log.close()
    tape.running.set()
    assert _all(tape, ours) == b"1234567890<4: " + logs._FULL.encode() + b"><closed>"


def test_a_disk_that_is_only_slow_is_waited_for(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_IN_TIME_BYTES", 10)
    ours = Logs()
    log = Log(ours, tape)
    tape.running.clear()
    threading.Timer(0.2, tape.running.set).start()
    for _ in range(20):
        log.write(b"12345")
    assert _all(tape, ours) == b"12345" * 20


def test_a_large_piece_is_taken_when_nothing_else_waits(tape: Tape, small: None) -> None:
    ours = Logs()
    Log(ours, tape).write(b"x" * 100)
    assert _all(tape, ours) == b"x" * 100


async def test_the_end_of_an_attempt_is_not_put_off_for_ever(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_WRITTEN_S", 0.05)
    ours = Logs()
    log = Log(ours, tape)
    tape.running.clear()
    log.write(b"x")
    async with asyncio.timeout(5):
        await log.written()
    tape.running.set()
    ours.close()
