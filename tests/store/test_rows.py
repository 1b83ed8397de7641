"""Every record comes back from the store as it was, and what no column can hold does no harm."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gmg_tui.model import Job, JobRecord, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import rows, schema
from gmg_tui.store.reader import create, load_jobs, open_store
from gmg_tui.store.records import Event, JobAttempt, MetricsRow, StoreError

from . import records


@pytest.fixture
def empty() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(schema.TABLES)
    return db


_shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@_shared
@given(job=records.jobs)
def test_a_job_comes_back_as_it_was(empty: sqlite3.Connection, job: JobRecord) -> None:
    empty.execute("DELETE FROM jobs")
    empty.execute(rows.JOBS.put, rows.JOBS.to_row(job))
    assert rows.JOBS.read(empty) == [job]


@_shared
@given(one=records.attempts)
def test_an_attempt_comes_back_as_it_was(empty: sqlite3.Connection, one: JobAttempt) -> None:
    empty.execute("DELETE FROM attempts")
    empty.execute(rows.ATTEMPTS.put, rows.ATTEMPTS.to_row(one))
    assert rows.ATTEMPTS.read(empty) == [one]


@_shared
@given(event=records.events, figure=records.metrics)
def test_events_and_figures_come_back_as_they_were(empty: sqlite3.Connection, event: Event, figure: MetricsRow) -> None:
    empty.executescript("DELETE FROM events; DELETE FROM figures")
    empty.execute(rows.EVENTS.put, rows.EVENTS.to_row(event))
    empty.execute(rows.PUT_METRICS, figure)
    assert rows.EVENTS.read(empty, 9) == [event]
    assert rows.read(empty, "SELECT * FROM figures", MetricsRow._make) == [figure]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"whole": 2**70}, '{"whole":1180591620717411303424}'),
        ({"half": "\ud83d"}, '{"half":"?"}'),
        ({"no number": float("nan")}, '{"no number":null}'),
    ],
)
def test_what_a_script_reports_is_kept_as_far_as_json_can_hold_it(
    empty: sqlite3.Connection, result: dict[str, Any], text: str
) -> None:
    empty.execute(rows.JOBS.put, rows.JOBS.to_row(records.finished(1, result=result, out_dir="/a/\udcff")))
    assert empty.execute("SELECT result, out_dir FROM jobs").fetchall() == [(text, "/a/?")]
    assert rows.JOBS.read(empty)[0].number == 1


def test_what_is_nested_or_long_without_an_end_is_not_kept() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert rows.encode({"deep": deep}) == "null"
    assert rows.encode({"long": 10**5000}) == "null"


def test_a_store_that_is_made_for_a_sweep_has_all_jobs_waiting_and_is_of_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, [Job(1, "a", values={"lr": 0.1}), Job(2, "b-gpu3", batch=1, only="gpu3", combination="b")])
    assert load_jobs(path) == [
        JobRecord(1, "a", 0, {"lr": 0.1}, WorkerState.WAITING, 1.0),
        JobRecord(2, "b-gpu3", 1, {}, WorkerState.WAITING, 2.0, only="gpu3", combination="b"),
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError, match="the store exists already"):
        create(path, [])


def test_what_is_no_store_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / STORE
    with pytest.raises(StoreError, match="there is no store"):
        load_jobs(path)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="empty"):
        load_jobs(path)
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="cannot be read: file is not a database"), open_store(path):
        pass
    with pytest.raises(StoreError, match=r"cannot write .*/nowhere/store\.sqlite: No such file"):
        create(tmp_path / "nowhere" / STORE, [])


def test_a_store_of_a_later_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, [Job(1, "a")])
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    with pytest.raises(StoreError, match="a later gmg-tui made this store"):
        load_jobs(path)


def test_a_row_that_nobody_knows_the_word_for_is_said(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, [Job(1, "a")])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE jobs SET state = 'dancing'")
    with pytest.raises(StoreError, match="dancing"):
        load_jobs(path)


@given(st.binary(max_size=200))
def test_nested_text_is_one_line_of_json(junk: bytes) -> None:
    assert "\n" not in rows.encode({"text": junk.decode("utf-8", "replace")})
