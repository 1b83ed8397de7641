"""A log that may not become larger: its beginning and its end stay, and what is missing is counted."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.logs import Log, LogWriter
from gmg_tui.files import Cut
from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action
from tests.cli.scripted import ScriptedEngine, environ
from tests.engine.harness import running, spec_for
from tests.patience import LONG_S

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


def test_a_log_that_cannot_be_cut_stays_whole_and_the_error_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".cpu0.log.cut").mkdir()
    log = Log(LogWriter(), tmp_path / "cpu0.log", MOST)
    log.append(b"x" * (MOST + 1), 0)
    assert log.trouble is not None
    assert log.trouble.startswith("log larger than --log-max: Is a directory")
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
        assert process.stdout is not None
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
        await process.wait()
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
