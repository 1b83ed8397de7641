"""Counts over a session, as its store has them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gmg_tui.session import STORE
from gmg_tui.store.records import StoreError
from gmg_tui.store.totals import Totals, read_totals
from tests.engine.harness import job_batch, running, sweep_for


async def test_a_sweep_with_failures_and_retries_is_counted() -> None:
    batch = job_batch("--fail", "{code}", "--fail-attempts", "{attempts}", retries=2)
    jobs = ({"code": 3, "attempts": 1}, {"code": 0, "attempts": 0}, {"code": 4, "attempts": 9})
    async with running(sweep_for(jobs, batch, cpu=1)) as run:
        await run.until_done()
        path, since = run.folder / STORE, run.client.welcome.session.started
        await run.leave()
        await run.process.wait()
    totals = read_totals(path, since)
    assert totals.restarts == {"cpu0": 3}
    assert totals.failures == {("cpu0", "exit code 3"): 1, ("cpu0", "exit code 4"): 3}
    assert totals.begun == 3
    assert totals.waited_s > 0
    assert read_totals(path, since + 1e6).begun == 0


def test_a_store_that_is_missing_empty_or_damaged_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        read_totals(tmp_path / "none", 0.0)
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    with pytest.raises(StoreError):
        read_totals(tmp_path / "damaged", 0.0)
    with sqlite3.connect(tmp_path / "other") as db:
        db.execute("PRAGMA user_version=4")
    with pytest.raises(StoreError):
        read_totals(tmp_path / "other", 0.0)
    assert Totals().begun == 0
