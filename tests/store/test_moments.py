"""Snapshots that are kept over a session's life."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from gmg_tui.model import Snapshot, Worker, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import moments, schema
from gmg_tui.store.backlog import MAX_MOMENTS
from gmg_tui.store.moments import Moment
from gmg_tui.store.records import StoreError

from . import records
from .conftest import Opened


def _snapshot(second: int) -> Snapshot:
    worker = Worker("gpu0", 0, WorkerState.RUNNING, state_s=float(second), last_line="Running at 1 FPS")
    return Snapshot(records.START + second, float(second), (worker,))


def _seconds(path: Path) -> list[float]:
    with closing(schema.open_for_reading(path)) as db:
        return [time - records.START for _, time in moments.times(db)]


async def test_a_snapshot_is_read_as_it_was_kept(folder: Path, opened: Opened) -> None:
    writer, heard = opened()
    kept = [_snapshot(second) for second in (3, 5, 9)]
    for snapshot in kept:
        writer.moment(Moment.of(snapshot))
    await writer.close()
    assert heard.now is None
    with closing(schema.open_for_reading(folder / STORE)) as db:
        found = moments.times(db)
        assert [moments.read(db, number) for number, _ in found] == kept
        assert moments.read(db, 99) is None


async def test_of_too_many_those_stay_that_are_spread_evenly(
    folder: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "MOST", 40)
    path = folder / STORE
    with closing(schema.open_for_writing(path)) as db:
        for second in range(500):
            moments.put(db, [Moment.of(_snapshot(second))])
    found = _seconds(path)
    assert 20 <= len(found) <= 40
    assert (found[0], found[-1]) == (0, 499)
    # What came after the last thinning is still whole; before it no part of the life has no moment.
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert max(steps) <= 60


def test_their_bytes_are_limited_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "MOST_BYTES", 20_000)
    path = folder / STORE
    with closing(schema.open_for_writing(path)) as db:
        for second in range(400):
            moments.put(db, [Moment.of(_snapshot(second))])
        (size,) = db.execute("SELECT sum(length(snapshot)) FROM moments").fetchone()
    assert 0 < size <= 20_000


async def test_of_those_that_wait_for_a_disk_the_newest_stay(folder: Path, opened: Opened) -> None:
    blocked = folder / STORE
    blocked.mkdir()  # nothing can be written there
    writer, _ = opened()
    for second in range(MAX_MOMENTS + 10):
        writer.moment(Moment.of(_snapshot(second)))
    blocked.rmdir()
    await writer.close()
    found = _seconds(blocked)
    assert found[-1] == MAX_MOMENTS + 9
    assert len(found) <= MAX_MOMENTS


@pytest.mark.parametrize("data", [b"", b"x\x9cno", b"\x00" * 99, "text", 5])
def test_a_damaged_one_is_one_clear_line(folder: Path, data: object) -> None:
    path = folder / STORE
    schema.open_for_writing(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO moments VALUES (1, 5.0, ?)", (data,))
        db.commit()
    with closing(schema.open_for_reading(path)) as db, pytest.raises(StoreError, match="snapshot") as caught:
        moments.read(db, 1)
    assert "\n" not in str(caught.value)


def test_one_that_would_fill_the_memory_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "_LARGEST_BYTES", 1000)
    path = folder / STORE
    with closing(schema.open_for_writing(path)) as db:
        moments.put(db, [Moment(1.0, b"\x00" * 100_000)])
        with pytest.raises(StoreError, match="too large"):
            moments.read(db, 1)
