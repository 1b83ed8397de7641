"""The thread that writes the logs, to disks that are slow, silent, full or gone."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import pytest

from gmg_tui.engine.output import logs as module
from gmg_tui.engine.output.logs import Log, LogWriter


class Tape(Log):
    """A log on a disk that takes bytes while it is `running`."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__(writer, Path("tape"))
        self.running = threading.Event()
        self.running.set()
        self.taken: list[bytes] = []
        self.took = threading.Event()

    def append(self, data: bytes, left_out: int) -> None:
        self.running.wait()
        self.taken.append(b"<%d>" % left_out * bool(left_out) + data)
        self.took.set()


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


@pytest.fixture
def tape(writer: LogWriter) -> Tape:
    return Tape(writer)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for ten bytes, and hardly any patience."""
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)


async def test_writes_reach_the_file_in_order(writer: LogWriter, tmp_path: Path) -> None:
    log = Log(writer, tmp_path / "new" / "cpu0.log")
    for number in range(100):
        log.write(b"%d " % number)
    log.write(b"")
    await log.written()
    assert log.path.read_bytes() == b"".join(b"%d " % number for number in range(100))
    log.path.unlink()
    log.write(b"after it was removed")
    await log.written()
    assert log.path.read_bytes() == b"after it was removed"
    writer.close()


def test_a_hung_disk_blocks_nothing_and_dropped_bytes_are_counted(writer: LogWriter, tape: Tape, small: None) -> None:
    other = Tape(writer)
    tape.running.clear()
    for part in (b"first", b"more", b"lost", b"lost too", b""):
        tape.write(part)
    while tape.trouble is None:
        time.sleep(0.01)  # nothing tells that the disk has not answered for long
    assert tape.trouble == other.trouble == "log not written for 0 s: the disk does not answer"
    assert not writer.is_full()
    tape.running.set()
    assert tape.took.wait(60)
    tape.close()
    writer.close()
    assert b"".join(tape.taken) == b"firstmore<12>"


def test_the_queue_is_full_until_a_slow_disk_catches_up(
    writer: LogWriter, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FULL_BYTES", 10)
    tape.running.clear()
    for _ in range(3):
        tape.write(b"12345")
    assert writer.is_full()
    assert tape.trouble is not None
    assert tape.trouble.startswith("waits for the disk")
    tape.running.set()
    writer.close()
    assert b"".join(tape.taken) == b"12345" * 3
    assert not writer.is_full()


async def test_the_end_of_an_attempt_is_not_delayed_forever(
    writer: LogWriter, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WRITTEN_S", 0.05)
    tape.running.clear()
    tape.write(b"x")
    async with asyncio.timeout(60):
        await tape.written()
    tape.running.set()
    writer.close()


def test_a_disk_error_on_close_does_not_affect_other_logs(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = Log(writer, tmp_path / "bad.log"), Log(writer, tmp_path / "good.log")
    close = os.close

    def refuse(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        close(file)
        if name.endswith("bad.log"):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", refuse)
    for log in (bad, good, bad, good):
        log.write(b"text ")
        log.close()
    writer.close()
    assert good.path.read_bytes() == bad.path.read_bytes() == b"text text "
    assert bad.trouble == f"log may be incomplete: Disk quota exceeded ({bad.path})"


def test_bytes_lost_to_a_full_disk_are_counted_in_the_log(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(writer, tmp_path / "cpu0.log")
    with monkeypatch.context() as patch:
        patch.setattr(log, "_opened", lambda: os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC))
        log.append(b"lost", 0)
        log.append(b"not tried", 0)
    assert log.trouble == f"log not written: No space left on device ({log.path})"
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    why = log.trouble
    log.append(b"found", 0)
    assert log.path.read_text() == f"\n[gmg-tui] 13 bytes are missing here: {why}\nfound"
    assert log.trouble is None
