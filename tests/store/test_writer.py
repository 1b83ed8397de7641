"""The writer keeps what it is given, whatever happens to the disk, and holds nobody up."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import Job, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import backlog
from gmg_tui.store.reader import create, load_jobs, open_store
from gmg_tui.store.records import Event, MetricsRow
from tests.harm.patience import eventually

from . import records
from .conftest import Opened


def _metrics(count: int, *, slot: str = "cpu0", job: int | None = 1) -> list[MetricsRow]:
    return [MetricsRow(records.START + n, slot, job, float(n), n + 0.5, None, 10.0, None, None) for n in range(count)]


async def test_what_is_given_is_in_the_store_while_the_writer_runs_and_after_it(folder: Path, opened: Opened) -> None:
    path = folder / STORE
    writer, heard = opened()
    session, job = records.session(folder), records.finished(1)
    event = Event(records.START, "note", "hello", "cpu0", 1)
    writer.session(session)
    writer.job(structs.replace(job, state=WorkerState.RUNNING))
    writer.job(job)
    writer.attempt(records.attempt_of(job))
    writer.event(event)
    await eventually(lambda: records.jobs_so_far(path) == [job])
    assert [entry.stat().st_mode & 0o777 for entry in folder.iterdir()] == [0o600] * 3
    writer.metrics(_metrics(3))
    await writer.close()
    assert [entry.name for entry in folder.iterdir()] == [STORE]
    with open_store(path) as stored:
        assert stored.session == session
        assert stored.jobs == [job]
        assert stored.attempts == {1: [records.attempt_of(job)]}
        assert stored.events == [event]
        assert stored.metrics(1000) == _metrics(3)
    assert [entry.name for entry in folder.iterdir()] == [STORE]
    assert heard.lines == []


async def test_figures_alone_reach_the_store_too(folder: Path, opened: Opened) -> None:
    writer, _ = opened()
    writer.session(records.session(folder))
    writer.metrics(_metrics(2))

    def written() -> bool:
        with contextlib.suppress(Exception), open_store(folder / STORE) as stored:
            return len(stored.metrics(10)) == 2
        return False

    await eventually(written)
    await writer.close()


async def test_a_store_is_gone_on_with(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [Job(number, f"job-{number}") for number in range(1, 4)])
    for number in (2, 3):
        writer, _ = opened()
        writer.job(records.finished(number))
        await writer.close()
    states = [job.state for job in load_jobs(folder / STORE)]
    assert states == [WorkerState.WAITING, WorkerState.FINISHED, WorkerState.FINISHED]


async def test_nothing_is_written_without_a_start_and_closing_twice_does_no_harm(folder: Path, opened: Opened) -> None:
    from gmg_tui.store.writer import StoreWriter

    await StoreWriter(folder / STORE, lambda line: None).close()
    assert list(folder.iterdir()) == []
    writer, _ = opened()
    await writer.close()
    await writer.close()


async def _all_is_kept(folder: Path, opened: Opened, harm: str) -> list[str | None]:
    """Write, do `harm`, write on, and find every job and attempt; what was said."""
    path = folder / STORE
    writer, heard = opened()
    writer.session(records.session(folder))
    writer.metrics(_metrics(5))
    first = [records.finished(number) for number in range(1, 51)]
    for job in first:
        writer.job(job)
        writer.attempt(records.attempt_of(job))
    await eventually(lambda: len(records.jobs_so_far(path)) == 50)
    match harm:
        case "folder":
            _remove(folder)
        case "file":
            for entry in folder.iterdir():
                entry.unlink(missing_ok=True)
        case "log":
            path.with_name(f"{STORE}-wal").unlink()
        case "junk":
            for entry in folder.iterdir():
                entry.write_bytes(b"junk" * 5000)
        case "other":
            create(folder / "other", [])
            (folder / "other").replace(path)
    more = [records.finished(number) for number in range(51, 56)]
    for job in more:
        writer.job(job)
    await eventually(lambda: len(records.jobs_so_far(path)) == 55)
    await eventually(lambda: heard.now is None)
    await writer.close()
    with open_store(path) as stored:
        assert stored.jobs == first + more
        assert stored.attempts == {job.number: [records.attempt_of(job)] for job in first}
        assert stored.session == records.session(folder)
        if harm in {"folder", "file", "junk"}:
            assert [event.kind for event in stored.events] == ["store"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    return heard.lines


def _remove(folder: Path) -> None:
    """Moved first: the writer may write into it while it is being removed."""
    shutil.rmtree(folder.rename(folder.with_name("removed")))


@pytest.mark.parametrize("harm", ["folder", "file", "log", "other"])
async def test_a_store_that_is_removed_or_exchanged_comes_back_whole(folder: Path, opened: Opened, harm: str) -> None:
    await _all_is_kept(folder, opened, harm)


async def test_a_damaged_store_is_set_aside_and_comes_back_whole(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [])
    (folder / STORE).write_bytes(b"junk" * 5000)
    writer, heard = opened()
    for number in range(1, 4):
        writer.job(records.finished(number))
    await eventually(lambda: len(records.jobs_so_far(folder / STORE)) == 3)
    await writer.close()
    assert heard.lines[-1] is None
    assert "not a database" in (heard.lines[0] or "")
    assert (folder / f"{STORE}.damaged").read_bytes() == b"junk" * 5000


async def test_a_store_that_is_overwritten_under_the_writer_comes_back_whole(folder: Path, opened: Opened) -> None:
    await _all_is_kept(folder, opened, "junk")


async def test_a_removed_store_comes_back_though_nothing_is_written(folder: Path, opened: Opened) -> None:
    writer, _ = opened()
    writer.job(records.finished(1))
    await eventually(lambda: records.jobs_so_far(folder / STORE))
    _remove(folder)
    await eventually(lambda: records.jobs_so_far(folder / STORE))
    await writer.close()


async def test_a_locked_store_is_said_and_waited_for(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [])
    other = sqlite3.connect(folder / STORE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer, heard = opened()
    writer.job(records.finished(1))
    await eventually(lambda: heard.now)
    assert heard.now == f"{folder / STORE}: database is locked"
    other.execute("COMMIT")
    other.close()
    await eventually(lambda: heard.now is None)
    assert load_jobs(folder / STORE) == [records.finished(1)]
    await writer.close()


async def test_a_store_of_a_later_program_is_not_touched(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [])
    with sqlite3.connect(folder / STORE) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    before = (folder / STORE).read_bytes()
    writer, heard = opened()
    writer.job(records.finished(1))
    await eventually(lambda: heard.now)
    assert "a later gmg-tui" in (heard.now or "")
    assert (folder / STORE).read_bytes() == before


async def test_where_memory_cannot_be_shared_the_store_does_without(folder: Path, opened: Opened) -> None:
    (folder / f"{STORE}-shm").mkdir()
    writer, heard = opened()
    writer.job(records.finished(1))
    await eventually(lambda: len(records.jobs_so_far(folder / STORE)) == 1)
    assert not (folder / f"{STORE}-wal").exists()
    writer.job(records.finished(2))
    await writer.close()
    with sqlite3.connect(folder / STORE) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert len(load_jobs(folder / STORE)) == 2
    assert heard.lines == []


def _grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


async def test_a_full_disk_is_said_and_costs_no_job(small_disk: Path, opened: Opened) -> None:
    writer, heard = opened()
    writer.job(records.finished(1))
    await eventually(lambda: records.jobs_so_far(small_disk / STORE))
    _fill(small_disk / "filler")
    for number in range(2, 300):
        writer.job(records.finished(number))
        writer.attempt(records.attempt_of(records.finished(number)))
    await eventually(lambda: heard.now)
    assert heard.now == f"{small_disk / STORE}: database or disk is full"
    for number in range(backlog.MAX_EVENTS + 7):
        writer.event(Event(float(number), "note", "x"))
    writer.metrics(_metrics(backlog.MAX_METRICS + 9))
    (small_disk / "filler").unlink()
    _grow(small_disk)
    await eventually(lambda: heard.now is None)
    await writer.close()
    with open_store(small_disk / STORE) as stored:
        assert len(stored.jobs) == 299
        assert len(stored.attempts) == 298
        assert stored.events[-1].kind == "dropped"
        assert stored.events[-1].text.startswith("7 events and 9 rows of metrics dropped")
        assert len(stored.metrics(10**6)) == backlog.MAX_METRICS


def _freeze(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


async def test_a_store_that_cannot_be_written_any_more_is_read(small_disk: Path, opened: Opened) -> None:
    writer, _ = opened()
    writer.job(records.finished(1))
    await writer.close()
    _freeze(small_disk)
    assert load_jobs(small_disk / STORE) == [records.finished(1)]
    writer, heard = opened()
    writer.job(records.finished(2))
    await eventually(lambda: heard.now)
    assert "read" in (heard.now or "").lower()


async def test_a_disk_that_stays_full_does_not_hold_up_the_end(
    small_disk: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gmg_tui.store.writer._REFUSED_S", 1.0)
    _fill(small_disk / "filler")
    writer, heard = opened()
    writer.job(records.finished(1))
    await writer.close()
    assert "full" in (heard.now or "") or "No space left" in (heard.now or "")


async def test_ten_thousand_jobs(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [Job(number, f"job-{number}", values={"lr": 0.1}) for number in range(1, 10_001)])
    writer, _ = opened()
    for number in range(1, 10_001):
        job = records.finished(number)
        writer.job(structs.replace(job, state=WorkerState.RUNNING))
        writer.attempt(records.attempt_of(job))
        writer.job(job)
    await writer.close()
    with open_store(folder / STORE) as stored:
        assert [job.number for job in stored.jobs] == list(range(1, 10_001))
        assert {job.state for job in stored.jobs} == {WorkerState.FINISHED}
        assert len(stored.attempts) == 10_000


_ENDLESS = """
import asyncio, sys
from pathlib import Path
from gmg_tui.store.records import Event
from gmg_tui.store.writer import StoreWriter
from tests.store import records

async def main():
    writer = StoreWriter(Path(sys.argv[1]), lambda line: print("trouble", line, flush=True))
    writer.start()
    number = 0
    while True:
        number += 1
        job = records.finished(number)
        writer.job(job)
        writer.attempt(records.attempt_of(job))
        writer.event(Event(float(number), "note", "x" * 200))
        await asyncio.sleep(0.0002)

asyncio.run(main())
"""


def _endless(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path)], stdout=subprocess.PIPE)


@pytest.mark.parametrize("least", [1, 150, 700])
async def test_a_store_whose_writer_is_killed_is_whole(folder: Path, opened: Opened, least: int) -> None:
    path = folder / STORE
    with _endless(path) as process:
        await eventually(lambda: len(records.jobs_so_far(path)) >= least)
        before = len(load_jobs(path))
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert path.with_name(f"{STORE}-wal").exists()
    with open_store(path) as stored:
        numbers = [job.number for job in stored.jobs]
        assert len(numbers) >= before
        assert all(after == this + 1 for this, after in pairwise([0, *numbers]))
        # A transaction is there as a whole or not at all; here each may end between the three of one job.
        assert len(stored.attempts) - len(numbers) in {0, -1}
    writer, heard = opened()
    writer.job(records.finished(numbers[-1] + 1))
    await writer.close()
    assert heard.lines == []
    assert len(load_jobs(path)) == len(numbers) + 1
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
