"""The thread that writes the logs, to disks that are slow, silent, full or gone."""

from __future__ import annotations

import errno
import os
import threading
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

    def append(self, data: bytes, left_out: int) -> None:
        self.running.wait()
        self.taken.append(b"<%d>" % left_out * bool(left_out) + data)


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter()


@pytest.fixture
def tape(writer: LogWriter) -> Tape:
    return Tape(writer)


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
