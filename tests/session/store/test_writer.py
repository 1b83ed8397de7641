"""The writer keeps the records whatever happens to the disk, and until nobody locks the store."""

import asyncio
import contextlib
import math
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import JobRecord, Snapshot, WorkerState
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.session import STORE
from gmg_tui.session.store import database, writer
from gmg_tui.session.store.database import Record, StoreError
from gmg_tui.session.store.reader import create, load_jobs, open_store
from tests.disks import fill
from tests.patience import eventually

from . import records
from .conftest import Opened


async def test_records_are_written_once_another_process_unlocks_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last results of a session must not be lost because someone reads them."""
    path = tmp_path / STORE
    create(path, [])
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.01)
    troubles = list[str | None]()
    store = writer.StoreWriter(path, troubles.append)
    store.start()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        store.put(JobRecord(1, "a"))
        await eventually(lambda: any("locked" in (trouble or "") for trouble in troubles))
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        db.execute("ROLLBACK")
    await closing
    assert [job.name for job in load_jobs(path)] == ["a"]


async def test_the_writer_thins_metrics(folder: Path, opened: Opened) -> None:
    store, troubles = opened()
    old = [row._replace(time=row.time - 7200) for row in records.metrics(100)]
    store.put(*old, *records.metrics(10), Snapshot(1.0, 2.0, ()))
    await store.close()
    with open_store(folder / STORE) as stored:
        assert 18 <= len(stored.metrics(10_000)) <= 21
    assert troubles.lines in ([], [None])


async def test_writes_are_in_the_store_while_the_writer_runs_and_afterwards(folder: Path, opened: Opened) -> None:
    store, troubles = opened()
    job = records.finished(1)
    store.put(structs.replace(job, state=WorkerState.RUNNING))
    store.put(job)
    store.put(structs.replace(job, result=None))
    store.put(Snapshot(1.0, 2.0, ()))
    await eventually(lambda: records.jobs_so_far(folder / STORE) == [job])
    store.put(*records.metrics(3))
    await store.close()
    await store.close()
    assert [(entry.name, entry.stat().st_mode & 0o777) for entry in folder.iterdir()] == [(STORE, 0o600)]
    with open_store(folder / STORE) as stored:
        assert stored.last_snapshot == Snapshot(1.0, 2.0, ())
        assert stored.metrics(1000) == records.metrics(3)
    assert troubles.lines == []


async def test_a_job_that_continues_from_a_checkpoint_keeps_its_results(folder: Path, opened: Opened) -> None:
    store, _ = opened()
    job = structs.replace(records.finished(1), result={"parameters": 5, "score": math.inf})
    again = structs.replace(job, result={"score": 2.0})
    continued = structs.replace(again, last=structs.replace(job.last, number=2, continued_from="/model.pt"))
    for put, result in ((job, job.result), (continued, {"parameters": 5, "score": 2.0}), (again, {"score": 2.0})):
        store.put(put)
        await store.wait_written()
        assert records.jobs_so_far(folder / STORE)[0].result == result
    for number in range(3):  # a node may report other names each time
        store.put(structs.replace(continued, result={f"{number}/{name}": name for name in range(MAX_NAMES - 1)}))
        await store.wait_written()
        result = records.jobs_so_far(folder / STORE)[0].result or {}
        assert len(result) == MAX_NAMES
        assert f"{number}/5" in result
    await store.close()


async def test_files_are_generated_after_an_end_and_at_the_end(folder: Path, opened: Opened) -> None:
    calls = []
    store, troubles = opened(lambda: calls.append(len(records.jobs_so_far(folder / STORE))))
    store.put(JobRecord(1, "a", state=WorkerState.RUNNING))
    store.put(Snapshot(1.0, 2.0, ()))
    await eventually(lambda: records.jobs_so_far(folder / STORE))
    assert calls == []
    store.put(records.finished(1))
    store.put(Snapshot(2.0, 3.0, ()))
    await eventually(lambda: calls == [1])
    store.put(JobRecord(2, "b"))
    await store.close()
    assert (calls, troubles.lines) == ([1, 2], [])


async def test_an_end_that_comes_during_a_write_is_in_the_files(
    folder: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("_METRICS_INTERVAL_S", "_RETRY_S"):
        monkeypatch.setattr(writer, wait, 0.1)
    calls: list[int] = []
    store, troubles = opened(lambda: calls.append(len(records.jobs_so_far(folder / STORE))))
    loop, write, further = asyncio.get_running_loop(), database.write, iter([records.finished(2)])

    def interrupted(db: sqlite3.Connection, batch: Iterable[Record]) -> None:
        write(db, batch)
        for job in further:
            asyncio.run_coroutine_threadsafe(_put(store, job), loop).result()

    monkeypatch.setattr(database, "write", interrupted)
    store.put(records.finished(1))
    await eventually(lambda: calls[-1:] == [2])
    await store.close()
    assert troubles.lines == []


async def _put(store: writer.StoreWriter, record: Record) -> None:
    store.put(record)


async def test_files_that_cannot_be_written_are_reported_and_retried(folder: Path, opened: Opened) -> None:
    failures = iter([True])

    def export() -> None:
        if next(failures, False):
            raise OSError(28, "No space left on device", "/results/x.csv")

    store, troubles = opened(export)
    store.put(records.finished(1))
    await eventually(lambda: troubles.now)
    await store.close()
    assert troubles.lines == ["/results/x.csv: No space left on device; the results' files are out of date", None]


@pytest.mark.parametrize("harm", ["folder", "file"])
async def test_a_removed_store_is_reported_and_neither_made_again_nor_waited_for(
    folder: Path, opened: Opened, harm: str
) -> None:
    path = folder / STORE
    missing = folder if harm == "folder" else path
    store, troubles = opened()
    store.put(records.finished(1))
    await eventually(lambda: records.jobs_so_far(path))
    if harm == "folder":
        shutil.rmtree(folder.rename(folder.with_name("removed")))
    else:
        path.unlink()
    store.put(records.finished(2))
    await eventually(lambda: troubles.now == f"{missing}: No such file or directory")
    await store.close()
    assert not path.exists()


async def test_a_locked_store_is_reported_and_waited_for(
    folder: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.1)
    create(folder / STORE, [])
    with contextlib.closing(sqlite3.connect(folder / STORE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        store, troubles = opened()
        store.put(records.finished(1))
        await eventually(lambda: troubles.now)
        assert troubles.now == f"{folder / STORE}: database is locked"
        other.execute("COMMIT")
    await eventually(lambda: troubles.now is None)
    assert load_jobs(folder / STORE) == [records.finished(1)]
    await store.close()


def _remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


async def test_a_full_disk_is_reported_and_loses_no_job(small_disk: Path, opened: Opened) -> None:
    store, troubles = opened()
    store.put(records.finished(1))
    await eventually(lambda: records.jobs_so_far(small_disk / STORE))
    fill(small_disk / "filler")
    for number in range(2, 300):
        store.put(records.finished(number))
    await eventually(lambda: troubles.now)
    store.put(*records.metrics(writer.MAX_UNWRITTEN_METRICS + 9))
    (small_disk / "filler").unlink()
    _remount(small_disk, "size=64m")
    await eventually(lambda: troubles.now is None)
    await store.close()
    with open_store(small_disk / STORE) as stored:
        assert len(stored.jobs) == 299
        assert len(stored.metrics(10**6)) == writer.MAX_UNWRITTEN_METRICS


async def test_metrics_do_not_delay_the_end_on_a_read_only_disk_and_results_only_until_given_up(
    small_disk: Path, opened: Opened
) -> None:
    create(small_disk / STORE, [JobRecord(1, "a")])
    _remount(small_disk, "ro")
    assert len(load_jobs(small_disk / STORE)) == 1
    store, troubles = opened()
    store.put(*records.metrics(3))
    await store.close()
    assert "read" in (troubles.now or "").lower()
    store, troubles = opened()
    store.put(records.finished(1))
    closing = asyncio.create_task(store.close())
    await eventually(lambda: troubles.now)
    assert not closing.done()
    store.give_up()
    await closing


async def test_results_are_waited_for_until_a_full_disk_has_room(small_disk: Path, opened: Opened) -> None:
    store, troubles = opened()
    store.put(records.finished(1))
    await eventually(lambda: records.jobs_so_far(small_disk / STORE))
    fill(small_disk / "filler")
    store.put(*(records.finished(number) for number in range(2, 300)))
    await eventually(lambda: troubles.now)
    closing = asyncio.create_task(store.close())
    with pytest.raises(StoreError, match="full"):
        await store.write(*(records.finished(number) for number in range(300, 600)))
    assert not closing.done()
    (small_disk / "filler").unlink()
    await closing
    assert len(load_jobs(small_disk / STORE)) == 299, "and not those that `write` refused"


_ENDLESS = """
import asyncio, sys
from pathlib import Path
from gmg_tui.session.store.writer import StoreWriter
from tests.session.store import records

async def main():
    writer = StoreWriter(Path(sys.argv[1]), lambda line: print("trouble", line, flush=True))
    writer.start()
    for number in range(1, 1 << 40):
        writer.put(records.finished(number))
        await asyncio.sleep(0.0002)

asyncio.run(main())
"""


def _endless(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _ENDLESS, str(path)], stdout=subprocess.PIPE)


@pytest.mark.parametrize("least", [1, 300])
async def test_a_killed_writer_leaves_a_consistent_store(folder: Path, opened: Opened, least: int) -> None:
    path = folder / STORE
    with _endless(path) as process:
        await eventually(lambda: len(records.jobs_so_far(path)) >= least)
        before = len(load_jobs(path))
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b""
    numbers = [job.number for job in load_jobs(path)]
    assert len(numbers) >= before
    assert all(after == this + 1 for this, after in pairwise([0, *numbers]))
    store, troubles = opened()
    store.put(records.finished(numbers[-1] + 1))
    await store.close()
    assert troubles.lines == []
    assert len(load_jobs(path)) == len(numbers) + 1
