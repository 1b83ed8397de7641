"""A store that an earlier gmg-tui made is read, and continued."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gmg_tui.model import AttemptMetrics
from gmg_tui.session import STORE
from gmg_tui.store import schema
from gmg_tui.store.reader import open_store

from . import records
from .conftest import Opened

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, job_group INTEGER NOT NULL, job_values TEXT NOT NULL,
    state TEXT NOT NULL, place REAL NOT NULL, reason TEXT,
    slot TEXT, gpu_index INTEGER, gpu_uuid TEXT, attempts INTEGER NOT NULL, exit_code INTEGER,
    started REAL, ended REAL, elapsed_s REAL,
    fps_last REAL, fps_mean REAL, fps_max REAL, fps_samples INTEGER, fps_rate REAL, n_envs INTEGER,
    memory_peak_mib REAL, gpu_util_mean_pct REAL, power_mean_w REAL, energy_j REAL,
    out_dir TEXT, log TEXT, result TEXT NOT NULL
);
CREATE TABLE attempts (
    job INTEGER NOT NULL, number INTEGER NOT NULL, slot TEXT NOT NULL, gpu_index INTEGER, gpu_uuid TEXT, log TEXT,
    args TEXT NOT NULL, pid INTEGER, started REAL NOT NULL, ended REAL, exit_code INTEGER, state TEXT NOT NULL,
    reason TEXT, figures TEXT,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, slot TEXT, job INTEGER
);
CREATE TABLE figures (
    time REAL NOT NULL, slot TEXT NOT NULL, job INTEGER, fps REAL, gpu_util_pct REAL, memory_used_mib REAL,
    power_w REAL, temperature_c REAL
);
"""
_ARGS = json.dumps(["--note", '"rate":'])
"""An argument that holds the name of a key that has changed."""


@pytest.fixture
def first(folder: Path) -> Path:
    """A store of format 1, with a job, an attempt and a row of metrics."""
    path = folder / STORE
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_FIRST)
        db.execute(
            "INSERT INTO jobs (number, name, job_group, job_values, state, place, attempts, result, fps_last, fps_mean,"
            " fps_max, fps_samples, fps_rate) VALUES (1, 'cpu0', 0, '{}', 'finished', 1, 1, '{}', 90, 80, 95, 7, 101.5)"
        )
        figures = '{"attempt":1,"args":' + _ARGS + ',"fps":90.0,"rate":101.5}'
        db.execute(
            "INSERT INTO attempts (job, number, slot, args, started, state, figures) VALUES (1, 1, 'cpu0', ?, 5, ?, ?)",
            (_ARGS, "finished", figures),
        )
        db.execute("INSERT INTO figures VALUES (6, 'cpu0', 1, 90, NULL, 10, NULL, NULL)")
        db.execute("PRAGMA user_version=1")
        db.commit()
    return path


def _is_whole(path: Path) -> None:
    with open_store(path) as stored:
        (job,) = stored.jobs
        assert job.fps is not None
        assert (job.fps.last, job.fps.settled, job.fps.spread, job.updated) == (90.0, 101.5, None, None)
        ((one,),) = stored.attempts.values()
        args = ("--note", '"rate":')
        assert one.attempt.args == args
        assert one.attempt.metrics == AttemptMetrics(1, args, fps=90.0, settled=101.5)
        (row,) = stored.metrics(10)
        assert (row.fps, row.fps_settled, row.memory_used_mib) == (90.0, None, 10.0)
        assert row.sm_pct is None


def test_it_is_read_as_it_is_and_not_changed(first: Path) -> None:
    before = first.read_bytes()
    _is_whole(first)
    assert first.read_bytes() == before


async def test_it_is_continued_in_todays_format(first: Path, opened: Opened) -> None:
    writer, heard = opened()
    writer.job(records.finished(2))
    await writer.close()
    assert heard.now is None
    with closing(sqlite3.connect(first)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        columns = {row[1] for row in db.execute("PRAGMA table_info(jobs)")}
        attempts = db.execute("PRAGMA table_info(attempts)").fetchall()
        figures = {row[1] for row in db.execute("PRAGMA table_info(figures)")}
        db.execute("DELETE FROM jobs WHERE number = 2")
        db.commit()
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(schema.TABLES)
        assert columns == {row[1] for row in fresh.execute("PRAGMA table_info(jobs)")}
        assert figures == {row[1] for row in fresh.execute("PRAGMA table_info(figures)")}
        assert attempts == fresh.execute("PRAGMA table_info(attempts)").fetchall()
    _is_whole(first)
