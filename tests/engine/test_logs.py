"""Logs have every byte, from a thread that writes them to disks that are slow, silent, full or gone."""

import asyncio
import errno
import fcntl
import io
import logging
import os
import re
import sys
import threading
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output import logs as module
from gmg_tui.engine.output.logs import Log, LogWriter
from gmg_tui.machine.files import Cut
from gmg_tui.model import WorkerState
from gmg_tui.session.protocol import Action
from tests.cli.scripted import ScriptedEngine, environ
from tests.engine.harness import read_out, running, spec_for
from tests.patience import LONG_S

# The thread that writes the logs, to disks that are slow, silent, full or gone


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


@pytest.mark.parametrize(("before", "expected"), [("", "#2\n"), ("one\n", "one\n#2\n"), ("one", "one\n#2\n")])
async def test_a_heading_has_a_line_of_its_own(writer: LogWriter, tmp_path: Path, before: str, expected: str) -> None:
    log = Log(writer, tmp_path / "cpu0.log")
    log.write(before.encode())
    log.separate(b"#2\n")
    await log.flush()
    assert log.path.read_text() == expected


async def test_writes_reach_the_file_in_order(writer: LogWriter, tmp_path: Path) -> None:
    log = Log(writer, tmp_path / "new" / "cpu0.log")
    for number in range(100):
        log.write(b"%d " % number)
    log.write(b"")
    await log.flush()
    assert log.path.read_bytes() == b"".join(b"%d " % number for number in range(100))
    log.path.unlink()
    log.write(b"after it was removed")
    await log.flush()
    assert log.path.read_bytes() == b"after it was removed"
    writer.close()


async def test_a_log_that_a_script_replaces_by_a_pipe_costs_no_other_log(writer: LogWriter, tmp_path: Path) -> None:
    bad, good = Log(writer, tmp_path / "bad.log"), Log(writer, tmp_path / "good.log")
    bad.write(b"before ")
    await bad.flush()
    for make in (os.mkfifo, lambda path: bad.path.symlink_to("/dev/full")):
        bad.path.unlink()
        make(bad.path)
        bad.write(b"lost")
        good.write(b"good ")
        await good.flush()
    assert good.path.read_bytes() == b"good good "
    assert (bad.trouble or "").startswith("log not written: not a regular file")
    assert writer.silent_s is None
    writer.close()


def test_the_queue_is_full_until_a_slow_disk_catches_up(
    writer: LogWriter, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FULL_BYTES", 10)
    tape.running.clear()
    for _ in range(3):
        tape.write(b"12345")
    assert writer.is_full()
    assert tape.trouble.startswith("output waits for the disk")
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
        is_bad = Path(f"/proc/self/fd/{file}").readlink().name == "bad.log"
        is_open = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND
        close(file)
        if is_bad and is_open:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", refuse)
    for log in (bad, good, bad, good):
        log.write(b"text ")
        log.close()
    writer.close()
    assert good.path.read_bytes() == bad.path.read_bytes() == b"text text "
    assert bad.trouble == f"log may be incomplete: Disk quota exceeded ({bad.path})"


# A log that may not become larger: its beginning and its end stay, and what is missing is counted

MOST = 1 << 20
NOTE = re.compile(rb"\n\[gmg-tui\] ([\d,]+) bytes are cut out here: --log-max is 1 MiB\n")


def _close(log: Log) -> None:
    log.close()
    log._writer.close()


def _lines(first: int, end: int) -> bytes:
    return b"".join(b"line %d of the log\n" % number for number in range(first, end))


def _parts(log: bytes) -> tuple[bytes, int, bytes]:
    """What stands before the note, how many bytes are missing, and what stands behind it."""
    (note,) = NOTE.finditer(log)
    return log[: note.start()], int(note[1].replace(b",", b"")), log[note.end() :]


@given(st.integers(0, 50), st.integers(1, 20), st.integers(1, 1000), st.integers(0, 2000))
def test_an_offset_is_mapped_after_a_cut(start: int, note: int, missing: int, offset: int) -> None:
    cut = Cut(start, start + note, missing)
    inside = start < offset < start + missing
    assert cut.in_stream(cut.in_file(offset)) == (start if inside else offset)


def test_beginning_and_end_are_kept_and_missing_bytes_counted(tmp_path: Path) -> None:
    path = tmp_path / "cpu0.log"
    written = b""
    for attempt in range(3):
        log = Log(LogWriter(), path, MOST)  # another engine's, which appends
        for number in range(60):
            data = _lines(10_000 * attempt + 150 * number, 10_000 * attempt + 150 * (number + 1)) * 4
            log.append(data, 0)
            written += data
            assert path.stat().st_size <= MOST
        _close(log)
    head, missing, tail = _parts(path.read_bytes())
    assert written.startswith(head)
    assert written.endswith(tail)
    assert len(head) + missing + len(tail) == len(written)
    assert min(len(head), len(tail)) > MOST // 8
    assert head.endswith(b"\n")
    assert tail.startswith(b"line ")
    assert log.trouble is None
    assert [file.name for file in tmp_path.iterdir()] == ["cpu0.log"]


@pytest.mark.parametrize("trouble", ["Is a directory", "/logs can be changed by all users"])
def test_a_log_that_cannot_be_cut_stays_whole_and_the_error_is_reported(trouble: str, tmp_path: Path) -> None:
    """Another user could have put a link to other logs in place of a folder."""
    tmp_path /= "logs"
    tmp_path.mkdir()
    log = Log(LogWriter(), tmp_path / "cpu0.log", MOST)
    log.append(b"x", 0)
    if trouble == "Is a directory":
        (tmp_path / ".cpu0.log.cut").mkdir()
    else:
        tmp_path.chmod(0o777)
    log.append(b"x" * MOST, 0)
    assert log.trouble.startswith("log larger than --log-max: ")
    assert trouble in str(log.trouble)
    log.append(b"y", 0)
    assert (tmp_path / "cpu0.log").read_bytes() == b"x" * (MOST + 1) + b"y"
    _close(log)


async def test_followers_of_a_log_get_every_line_once_while_it_is_cut() -> None:
    async with ScriptedEngine() as engine:
        path = engine.folder / "logs" / "cpu0.log"
        log = Log(LogWriter(), path, MOST)
        log.append(_lines(0, 100), 0)
        command = (sys.executable, "-m", "gmg_tui", "logs", "cpu0", "-f")
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env=environ())
        seen = io.BytesIO()
        seen.write(await process.stdout.readexactly(len(_lines(0, 100))))
        files = {path.stat().st_ino}
        for first in range(100, 120_000, 4000):
            data = _lines(first, first + 4000)
            log.append(data, 0)
            files.add(path.stat().st_ino)
            async with asyncio.timeout(LONG_S):
                seen.write(await process.stdout.readexactly(len(data)))
        _close(log)
        process.terminate()
        await read_out(process)
    assert len(files) > 2
    assert seen.getvalue() == _lines(0, 100) + b"".join(_lines(n, n + 4000) for n in range(100, 120_000, 4000))


async def test_the_size_limit_of_a_log_covers_all_attempts() -> None:
    spec = spec_for("--plain", "--phase-s", "0", "--flood", "--lines", "100000", log_max_bytes=MOST)
    async with running(spec) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        head, missing, tail = _parts(run.output("cpu0"))
        assert head.startswith(b"line 0 of the flood\n")
        assert tail.endswith(b"line 99999 of the flood\n")
        await run.client.act(Action.RESTART, "cpu0")
        await run.until_attempt("cpu0", 2)
        await run.until_state("cpu0", WorkerState.FINISHED)
        again, more, tail = _parts(run.output("cpu0"))
        assert again == head
        assert more > missing
        assert tail.endswith(b"line 99999 of the flood\n")


def test_the_engines_own_log_is_bounded_and_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "engine.log"
    with file.open("wb") as stream:
        monkeypatch.setattr(module, "_STDERR", stream.fileno())
        monkeypatch.setattr(module, "MAX_RECORDS_BYTES", 100 << 10)
        writer = LogWriter()
        handler = module.LogHandler(writer)
        handler.handle(logging.makeLogRecord({"msg": "2 workers write %s", "args": ("/x\x1b]52;c;bHM=\x07\n12:00",)}))
        for _ in range(100):  # as from a node whose agent answers with long errors
            handler.handle(logging.makeLogRecord({"msg": "fails", "exc_text": "x" * (1 << 20)}))
        writer.close()
    harmless, message, trace, *_, last = file.read_text().splitlines()
    assert harmless == "2 workers write /x·12:00", "a script chose the file's name"
    assert (len(message) + 1 + len(trace), last) == (
        module.MAX_RECORD_BYTES,
        "this log is full: nothing more will be written",
    )
    assert file.stat().st_size < 120 << 10
