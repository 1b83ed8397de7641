"""Records come back from the store as they were."""

import contextlib
import math
import os
import signal
import sqlite3
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gmg_tui.model import Attempt, Curve, JobRecord, WorkerState
from gmg_tui.session import STORE
from gmg_tui.session.store import database, reader, writer
from gmg_tui.session.store.database import AttemptCurves, JobAttempt, MetricsRow, Record, StoreError
from gmg_tui.session.store.reader import create, load_jobs, open_store

from . import records


@settings(deadline=None, max_examples=50)
@given(st.lists(records.jobs, max_size=3), st.lists(records.attempts, max_size=3))
@example([], [JobAttempt(1, "cpu0", None, Attempt(number)) for number in (-(2**63), 1, 2**63 - 1)])
def test_records_round_trip(jobs: list[JobRecord], attempts: list[JobAttempt]) -> None:
    backlog = writer._Backlog()
    kept: list[Record] = [*jobs, *attempts, *records.metrics(2)]
    for record in kept:
        backlog.put(record)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, STORE)
        create(path, [])
        with contextlib.closing(database.open_for_writing(path)) as db:
            database.write(db, backlog)
        with open_store(path) as stored:
            newest = {job.number: job for job in jobs}
            assert stored.jobs == [newest[number] for number in sorted(newest)]
            loaded = [attempt for attempts in stored.attempts.values() for attempt in attempts]
            ran = {attempt.key: attempt for attempt in attempts}
            assert loaded == [ran[key] for key in sorted(ran)]
            assert stored.metrics(1000) == records.metrics(2)


def test_numbers_that_are_not_finite_come_back(tmp_path: Path) -> None:
    path, result = tmp_path / STORE, {"loss": math.nan, "of": [{"best": -math.inf}], "text": "nan"}
    create(path, [JobRecord(1, "a", result=result, last=Attempt(1, metrics={"reward": math.nan}))])
    (job,) = load_jobs(path)
    assert str(job.result) == str(result)
    assert math.isnan(job.last.numbers["reward"])


def test_a_copied_view_locks_nothing_and_does_not_change(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, [JobRecord(1, "a"), JobRecord(2, "b")])
    with open_store(path, copied=True) as stored:
        assert next(iter(stored.iter_jobs())).name == "a"
        with contextlib.closing(database.open_for_writing(path)) as db:
            database.write(db, [JobRecord(2, "c")])
        assert stored.jobs[1].name == "b"
    with open_store(path, copied=True) as stored:
        assert stored.jobs[1].name == "c"


def test_ctrl_z_stops_no_reader_that_locks_the_store(tmp_path: Path) -> None:
    create(path := tmp_path / STORE, [JobRecord(1, "a")])

    def may_stop() -> bool:
        return signal.SIGTSTP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    for copied in (False, True):
        with open_store(path, copied=copied):
            assert may_stop() is copied
        assert may_stop()
    with pytest.raises(StoreError), open_store(tmp_path / "missing"):
        pass
    assert may_stop()


def test_a_store_of_implausible_size_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(path := tmp_path / STORE, [JobRecord(1, "a")])
    monkeypatch.setattr(database, "open_copy", lambda _: pytest.fail("copied"))
    monkeypatch.setattr(reader, "MAX_COPY_BYTES", path.stat().st_size - 1)
    with open_store(path, copied=True) as stored:
        assert [job.name for job in stored.jobs] == ["a"]


def test_without_room_for_a_copy_the_store_itself_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(path := tmp_path / STORE, [JobRecord(1, "a")])
    connect = sqlite3.connect

    def connect_to_little(name: str, *args: Any, **more: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(name, *args, **more)
        if not name:
            db.execute("PRAGMA max_page_count=1")
        return db

    monkeypatch.setattr(sqlite3, "connect", connect_to_little)
    with open_store(path, copied=True) as stored:
        assert [job.name for job in stored.jobs] == ["a"]


def test_one_record_that_cannot_be_stored_keeps_no_other_from_it(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(1000):
        deep = [deep]
    create(tmp_path / STORE, [JobRecord(1, "a", result={"loss": 1})])
    with contextlib.closing(database.open_for_writing(tmp_path / STORE)) as db:
        database.write(db, [JobRecord(1, "b", result={"x": deep}), JobRecord(2, "c", result={"loss": 2})])
    jobs = load_jobs(tmp_path / STORE)
    assert [(job.name, job.result) for job in jobs] == [("b", {"loss": 1}), ("c", {"loss": 2})]


def test_a_store_for_a_sweep_has_all_jobs_waiting_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, [JobRecord(1, "a", values={"lr": 0.1}), JobRecord(2, "b", only="gpu3")])
    assert load_jobs(path) == [
        JobRecord(1, "a", {"lr": 0.1}, WorkerState.WAITING, 1.0),
        JobRecord(2, "b", {}, WorkerState.WAITING, 2.0, only="gpu3"),
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_store_is_written_where_others_could_put_another(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="can be changed by all users"):
        database.open_for_writing(tmp_path / "store.sqlite")
    assert not any(tmp_path.iterdir())


def test_an_invalid_store_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / STORE
    with pytest.raises(StoreError, match="there is no store"):
        load_jobs(path)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="empty"):
        load_jobs(path)
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="cannot be read: file is not a database"):
        load_jobs(path)
    with pytest.raises(StoreError, match=r"cannot write .*/nowhere/store\.sqlite: No such file"):
        create(tmp_path / "nowhere" / STORE, [])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("PRAGMA user_version=99", "another gmg-tui"),
        ("""UPDATE jobs SET record = '{"state": "dancing"}'""", "dancing"),
        ("UPDATE jobs SET result = '[1]'", "Expected `object`"),
        ("INSERT INTO metrics (time, slot, job, state) VALUES (1.0, 'cpu0', 1, 'dancing')", "dancing"),
        ("INSERT INTO metrics (time, slot, seconds) VALUES (1.0, 'cpu0', 'x')", "Expected `float`"),
        ("INSERT INTO metrics (time, slot, seconds) VALUES ('x', 'cpu0', 1)", "Expected `float"),
        ("INSERT INTO metrics (time, slot, seconds, fps) VALUES (1.0, 'cpu0', 1, x'00')", "Expected `float"),
    ],
)
def test_a_store_of_another_version_or_with_an_unknown_value_is_reported_in_one_line(
    tmp_path: Path, change: str, error: str
) -> None:
    path = tmp_path / STORE
    create(path, [JobRecord(1, "a")])
    with sqlite3.connect(path) as db:
        db.execute(change)
    with pytest.raises(StoreError, match=error), open_store(path) as stored:
        _ = stored.jobs, stored.states(), stored.metrics(10), stored.last_metrics()


def test_a_time_that_is_a_text_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, ())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executemany("INSERT INTO metrics (time, slot, seconds) VALUES (?, 'cpu0', 1)", [(0.0,), ("6",), (1e12,)])
    with pytest.raises(StoreError, match="a time of cpu0"), open_store(path) as stored:
        stored.series(100)


def test_a_long_query_is_interrupted(tmp_path: Path) -> None:
    forever = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT n FROM x WHERE n < 0"
    path = tmp_path / STORE
    create(path, ())
    with pytest.raises(StoreError, match="interrupted"), open_store(path, 0.1) as stored:
        stored._db.execute(forever).fetchone()


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE meta; CREATE VIEW meta AS SELECT 1 AS key, 2 AS value",
        "DROP TABLE meta; CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT AS (instr(hex(key), '1')) VIRTUAL)",
        "CREATE TRIGGER slow AFTER INSERT ON meta BEGIN DELETE FROM jobs; END",
        "CREATE INDEX slow ON meta (instr(hex(value), '1'))",
        "ALTER TABLE attempts ADD COLUMN slow TEXT AS (hex(zeroblob(1 << 30)))",
    ],
)
def test_a_store_with_expressions_of_others_is_refused(change: str, tmp_path: Path) -> None:
    """SQLite would evaluate them, for hours and without a look at the clock; a script can replace its session's store."""
    path = tmp_path / STORE
    create(path, ())
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(change)
    for open_it in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(StoreError, match="not a store of gmg-tui"), contextlib.closing(open_it(path)):
            pass


@pytest.mark.parametrize("name", [STORE, f"{STORE}-journal"])
def test_a_file_of_the_store_that_a_script_has_replaced_by_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, ())
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(StoreError, match=f"{name}: not a regular file"), open_store(path):
        pass
    with pytest.raises(StoreError, match=f"{name}: not a regular file"):
        create(path, ())


def test_the_journal_of_a_session_given_by_another_user_removes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite rolls a killed process's transaction back, then removes the journal of several stores that it names."""
    path, precious = tmp_path / STORE, tmp_path / "thesis.tex"
    create(path, ())
    precious.write_text("text")
    magic, name, page = bytes.fromhex("d9d505f920a163d7"), os.fsencode(precious), 4096
    header = magic + struct.pack(">5I", 0, 1234, path.stat().st_size // page, 512, page)
    named = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    (tmp_path / f"{STORE}-journal").write_bytes(header.ljust(512, b"\0") + named)
    with pytest.raises(StoreError, match="it names another"), open_store(path):
        pass
    monkeypatch.setattr(database, "check_files", lambda path: None)  # as if the other user replaced it right after
    tmp_path.chmod(0o777)
    with open_store(path) as stored:
        assert stored.jobs == []
    assert precious.exists()


def test_a_store_that_a_script_has_locked_keeps_no_scrape_waiting(tmp_path: Path) -> None:
    path = tmp_path / STORE
    create(path, ())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"), open_store(path, 0.1):
            pass


def test_only_the_newest_attempts_of_each_process_are_kept(tmp_path: Path) -> None:
    """A node that loses its agent again and again must not fill the disk."""
    curves, count = {"reward": Curve((1.0,), (1,), (2.0,))}, database.MAX_ATTEMPTS + 5
    attempts = [
        JobAttempt(1, "cpu0", None, Attempt(number), None, rank) for number in range(1, count) for rank in (0, 1)
    ]
    create(tmp_path / STORE, ())
    with contextlib.closing(database.open_for_writing(tmp_path / STORE)) as db:
        database.write(db, [JobAttempt(2, "cpu0", None, Attempt(1)), *attempts])
        database.write(db, [AttemptCurves(1, number, 0, "cpu0", curves) for number in range(1, count)])
    with open_store(tmp_path / STORE) as stored:
        numbers = [each.attempt.number for each in stored.attempts[1] if each.rank == 1]
        assert numbers == [*range(5, count)]
        assert len(stored.attempts[2]) == 1
        assert len(stored.curves_of(1)) == database.MAX_ATTEMPTS_WITH_CURVES


def test_many_metrics_are_thinned_evenly_and_states_are_changes(tmp_path: Path) -> None:
    create(tmp_path / STORE, [])
    backlog = writer._Backlog()
    states = ["building"] * 100 + ["running"] * 900
    for row, state in zip(records.metrics(1000), states, strict=True):
        backlog.put(row._replace(state=state))
    with contextlib.closing(database.open_for_writing(tmp_path / STORE)) as db:
        database.write(db, backlog)
    with open_store(tmp_path / STORE) as stored:
        rows = stored.metrics(100)
        assert stored.states() == [(records.START, "cpu0", "building"), (records.START + 100, "cpu0", "running")]
    assert 99 <= len(rows) <= 101
    assert sum(row.fps or 0 for row in rows) / len(rows) == pytest.approx(500, rel=0.02)


def test_a_series_bridges_thinned_metrics_but_no_pause(tmp_path: Path) -> None:
    """Metrics of the first hours are 60 s and 10 s apart; between two attempts there are none."""
    create(tmp_path / STORE, [])
    times = [*range(0, 7200, 60), *range(7200, 9000, 10), *range(9300, 9600), *range(9600, 9900, 2)]
    rows = [records.metrics(1)[0]._replace(time=records.START + second, fps=float(second)) for second in times]
    with contextlib.closing(database.open_for_writing(tmp_path / STORE)) as db:
        database.write(db, [*rows, rows[0]._replace(slot="cpu1", state="running"), rows[9]._replace(slot="cpu1")])
    with open_store(tmp_path / STORE) as stored:
        (series,) = stored.series(720, "cpu0")
        recent, _ = stored.series(300, last_s=300.0)
        assert {key: row.time for key, row in stored.last_metrics().items()} == {
            ("cpu0", 1): records.START + 9898,
            ("cpu1", 1): records.START,  # it was running
        }
        assert stored.series(720, "cpu2") == []
    assert (series.end, len(series.fps)) == (pytest.approx(records.START + 9898), pytest.approx(720, abs=1))
    unknown = [number * series.step_s for number, fps in enumerate(series.fps) if fps is None]
    assert 8990 <= min(unknown) <= max(unknown) <= 9300
    assert len(unknown) * series.step_s > 250
    assert (recent.step_s, recent.sm_pct) == (1.0, ())
    assert None not in recent.fps


def test_metrics_are_thinned_as_they_age_and_keep_sums_maxima_and_states(tmp_path: Path) -> None:
    seconds = 27 * 3600
    rows = [
        MetricsRow(
            records.START + n,
            f"cpu{slot}",
            1 + n // 50_000,
            fps=None if n % 1000 < 7 else float(n),
            gpu_util_pct=n % 101,
            memory_used_mib=float(n % 997),
            power_w=None if slot else 300.0 + n % 7,
            temperature_c=n % 89,
            state="building" if n % 1000 < 7 else "running",
        )
        for n in range(seconds)
        for slot in range(2)
    ]
    create(tmp_path / STORE, [])
    with contextlib.closing(database.open_for_writing(tmp_path / STORE)) as db:
        database.write(db, rows)

        def sums() -> list[tuple[float, ...]]:
            sums = ", ".join(f"sum({name} * seconds)" for name in ("1", "fps", "gpu_util_pct", "power_w"))
            maxima = "max(memory_used_mib), max(temperature_c), min(job), max(job)"
            return db.execute(f"SELECT {sums}, {maxima} FROM metrics GROUP BY slot, state").fetchall()

        before = sums()
        with open_store(tmp_path / STORE) as stored:
            states, points = stored.states(), stored.metrics(100)
        passes = 1
        while database.thin(db):
            passes += 1
        assert passes <= 2 + len(rows) // database.MAX_THINNED_ROWS
        assert not database.thin(db)
        for now, then in zip(sums(), before, strict=True):
            assert now == pytest.approx(then)
        (left,) = db.execute("SELECT count(*) FROM metrics").fetchone()
        assert left < 1.1 * 2 * (3600 + 23 * 360 + 3 * 60)
        last_hour = db.execute("SELECT count(*) FROM metrics WHERE time >= ?", (rows[-1].time - 3599,)).fetchone()
        assert last_hour == (2 * 3600,)
    with open_store(tmp_path / STORE) as stored:
        thinned, now_states = stored.metrics(100), stored.states()
    assert [change[1:] for change in now_states] == [change[1:] for change in states]
    assert all(abs(now[0] - then[0]) < 60 for now, then in zip(now_states, states, strict=True))
    for point, before_it in zip(thinned, points, strict=True):
        assert point.fps == pytest.approx(before_it.fps, abs=60)
        assert point.memory_used_mib == pytest.approx(before_it.memory_used_mib, abs=60)
