"""The thread that writes the logs, before a disk that does what a test wants."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gmg_tui.engine.output import log_writer
from gmg_tui.engine.output.log_writer import Log, LogWriter


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
    """Room for ten bytes, and hardly any patience."""
    monkeypatch.setattr(log_writer, "MOST_BYTES", 10)
    monkeypatch.setattr(log_writer, "PATIENCE_S", 0.05)


def _all(tape: Tape, ours: LogWriter) -> bytes:
    ours.close()
    return b"".join(tape.taken)


async def test_what_is_written_is_there_once_it_is_said_to_be(tape: Tape) -> None:
    ours = LogWriter()
    log = Log(ours, tape)
    for number in range(100):
        log.write(b"%d " % number)
    log.write(b"")
    await log.written()
    assert b"".join(tape.taken) == b"".join(b"%d " % number for number in range(100))
    ours.close()


def test_nobody_waits_for_a_disk_that_does_not_answer_and_what_is_left_out_is_counted(tape: Tape, small: None) -> None:
    ours = LogWriter()
    log, other = Log(ours, tape), Log(ours, Tape())
    tape.running.clear()
    for part in (b"first", b"more", b"lost", b"lost too", b""):
        log.write(part)
    while log.trouble is None:
        time.sleep(0.01)  # nothing tells that the disk has not answered for long
    assert log.trouble == other.trouble == "log not written for 0 s: the disk does not answer"
    tape.running.set()
    assert tape.took.wait(60)
    log.write(b"again")
    log.close()
    assert _all(tape, ours) == b"firstmore<12: " + log_writer._FULL.encode() + b">again<closed>"


def test_what_is_left_out_at_the_end_is_said_as_well(tape: Tape, small: None) -> None:
    ours = LogWriter()
    log = Log(ours, tape)
    tape.running.clear()
    for part in (b"12345", b"67890", b"lost"):
        log.write(part)
    log.close()
    tape.running.set()
    assert _all(tape, ours) == b"1234567890<4: " + log_writer._FULL.encode() + b"><closed>"


async def test_a_log_is_crowded_until_a_slow_disk_has_taken_half_of_it(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "CROWDED_BYTES", 10)
    monkeypatch.setattr(log_writer, "PATIENCE_S", 1000.0)
    ours = LogWriter()
    log, other = Log(ours, tape), Log(ours, Tape())
    tape.running.clear()
    for _ in range(3):
        log.write(b"12345")
    waiting = asyncio.create_task(log.room())
    await asyncio.sleep(0)
    assert log.crowded
    assert not other.crowded
    assert not waiting.done()
    tape.running.set()
    await waiting
    assert not log.crowded
    assert _all(tape, ours) == b"12345" * 3


async def test_a_log_is_not_crowded_on_a_disk_that_does_not_answer(tape: Tape, small: None) -> None:
    ours = LogWriter()
    log = Log(ours, tape)
    tape.running.clear()
    log.write(b"1234567890")
    async with asyncio.timeout(60):
        await log.room()
    assert not log.crowded
    tape.running.set()
    ours.close()


async def test_of_many_logs_each_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "ALL_CROWDED_BYTES", 100)
    monkeypatch.setattr(log_writer, "PATIENCE_S", 1000.0)
    ours, tape = LogWriter(), Tape()
    tape.running.clear()
    first, second = Log(ours, tape), Log(ours, Tape())
    first.write(b"x" * 60)
    assert not first.crowded
    second.write(b"x")
    assert first.crowded
    assert not second.crowded
    tape.running.set()
    ours.close()


def test_a_large_piece_is_taken_when_nothing_else_waits(tape: Tape, small: None) -> None:
    ours = LogWriter()
    Log(ours, tape).write(b"x" * 100)
    assert _all(tape, ours) == b"x" * 100


async def test_the_end_of_an_attempt_is_not_put_off_for_ever(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "_WRITTEN_S", 0.05)
    ours = LogWriter()
    log = Log(ours, tape)
    tape.running.clear()
    log.write(b"x")
    async with asyncio.timeout(60):
        await log.written()
    tape.running.set()
    ours.close()
