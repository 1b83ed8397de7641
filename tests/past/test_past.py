"""What is kept of a session is shown as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gmg_tui import protocol
from gmg_tui.errors import GmgError
from gmg_tui.logs import cut
from gmg_tui.logs.attempts import first_line
from gmg_tui.model import Gpu, Slot, SlotKind, WorkerState
from gmg_tui.past import logs
from gmg_tui.past.record import Past
from gmg_tui.past.source import PastSource
from gmg_tui.protocol import Action, Lines
from gmg_tui.session import LOGS, STORE
from gmg_tui.store import moments, rows, schema

from . import lives
from .lives import ARGS, START, lived, snapshot_at


async def test_it_opens_at_the_end_and_goes_through_the_whole_life(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    assert past.welcome.snapshot == snapshot_at(60)
    assert past.welcome.readonly
    assert past.look.at_end
    seen = [past.look.snapshot.elapsed_s]
    for _ in range(9):
        seen.append((await past.step(-1)).snapshot.elapsed_s)
    assert seen == [60, 50, 40, 30, 20, 10, 0, 0, 0, 0]
    assert (await past.step(1)).snapshot == snapshot_at(10)
    assert (await past.step(99)).snapshot == snapshot_at(60)
    assert [(await past.jump(tenth / 10)).snapshot.elapsed_s for tenth in (0, 1, 5, 9)] == [0, 0, 30, 50]
    assert (await past.move(0.05)).snapshot.elapsed_s == 60  # by one at least
    assert (await past.move(-0.5)).snapshot.elapsed_s == 30
    await past.close()


async def test_the_graphs_are_those_of_the_minutes_before(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    first, other = (await past.jump(0.5)).recent
    assert {first.slot, other.slot} == set(lives.SLOTS)
    assert first.end == START + 30
    assert first.step_s == 1.0
    assert first.fps[-21:] == tuple(2000.0 + second for second in range(10, 31))
    assert set(first.fps[:-21]) == {None}
    assert (await past.jump(0.0)).recent == ()
    await past.close()


async def test_a_chart_has_the_whole_life_or_what_is_zoomed_to(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    await past.jump(0.0)
    whole = await past.series("cpu0")
    assert (whole.end, whole.step_s) == (START + 59, 1.0)
    assert whole.fps == tuple(2000.0 + second for second in range(10, 60))
    part = await past.series("cpu0", START + 50)
    assert part.fps == tuple(2000.0 + second for second in range(50, 60))
    assert (await past.series("cpu7")).fps == ()
    await past.close()


async def test_a_long_life_is_told_in_few_steps(tmp_path: Path) -> None:
    session = await lived(tmp_path)
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        db.executemany(
            "INSERT INTO figures (time, slot, fps) VALUES (?, 'cpu0', 5)", [(START + step,) for step in range(60, 9000)]
        )
        db.commit()
    past = await PastSource.open(tmp_path, session)
    series = await past.series("cpu0")
    assert 600 < len(series.fps) <= 721
    assert series.end == pytest.approx(START + 8999, abs=2 * series.step_s)
    await past.close()


async def test_attempts_and_what_was_tried_are_those_of_the_moment(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    ended = await past.details("cpu1")
    assert [one.state for one in ended.attempts] == [WorkerState.FAILED, WorkerState.FINISHED]
    assert ended.command == ("/opt/venv/bin/python", "sim.py", "-B", "4096")
    assert ended.args == ("-B", "4096")
    await past.jump(0.2)
    (running,) = (await past.details("cpu1")).attempts
    assert (running.state, running.ended, running.reason, running.exit_code) == (WorkerState.RUNNING, None, None, None)
    assert running.metrics is not None
    assert running.metrics.settled is None  # its rate was known at its end
    (row,) = (await past.tried()).rows
    assert (row.attempts, row.running, row.failed) == (2, 2, 0)
    await past.jump(1.0)
    (row,) = (await past.tried()).rows
    assert (row.attempts, row.running, row.failed) == (3, 0, 1)
    await past.close()


async def test_the_queue_is_that_of_the_moment(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path, sweep=True))
    await past.jump(0.35)
    view = await past.queue(0, 100)
    states = [(job.number, job.state.value) for job in view.jobs]
    assert states == [(1, "running"), (2, "running"), (3, "waiting"), (4, "waiting")]
    assert view.jobs[0].elapsed_s == 20.0
    assert view.jobs[0].fps == snapshot_at(20).workers[0].fps
    assert view.jobs[2].started is None
    assert [lane.job for lane in view.lanes] == [1, 2]
    await past.jump(0.7)
    assert [job.state.value for job in (await past.queue(0, 2)).jobs] == ["finished", "finished"]
    assert [job.number for job in (await past.queue(0, 2)).jobs] == [2, 1]  # in the order of their ends
    assert (await past.queue(3, 100)).jobs[0].number == 4
    await past.close()


async def test_slots_of_before_a_resume_are_known(tmp_path: Path) -> None:
    session = await lived(tmp_path, sweep=True)
    resumed = replace(session, slots=session.slots[:1])
    past = await PastSource.open(tmp_path, resumed)
    assert past.welcome.session.slots == session.slots
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        db.execute("UPDATE attempts SET slot = 'n1/gpu3', gpu_index = 3, gpu_uuid = 'GPU-3' WHERE slot = 'cpu1'")
        db.commit()
    await past.close()
    past = await PastSource.open(tmp_path, resumed)
    assert past.welcome.session.slots[1] == Slot("n1/gpu3", SlotKind.GPU, Gpu(3, "GPU-3", "GPU"), "n1")
    await past.close()


async def test_what_nobody_has_written_since_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path, sweep=True))

    def read(_: object) -> list[object]:
        raise AssertionError("ten thousand jobs take half a second for each key at the end")

    monkeypatch.setattr(rows.JOBS, "read", read)
    assert (await past.step(9)).at_end
    await past.enter()
    await past.close()


async def test_a_job_that_ran_again_elsewhere_was_where_it_was(tmp_path: Path) -> None:
    session = await lived(tmp_path, sweep=True)
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        # Job 1 ran on cpu0 up to 39 s, and again on cpu1, as after the sweep was resumed.
        db.execute("UPDATE jobs SET slot = 'cpu1', ended = ? WHERE number = 1", (START + 90,))
        db.commit()
    past = await PastSource.open(tmp_path, session)
    await past.jump(0.35)
    first = (await past.queue(0, 100)).jobs[0]
    assert (first.number, first.state, first.slot) == (1, WorkerState.RUNNING, "cpu0")
    await past.jump(0.7)
    between = next(job for job in (await past.queue(0, 100)).jobs if job.number == 1)
    assert (between.state, between.slot) == (WorkerState.WAITING, None)
    await past.close()


async def test_a_log_is_that_of_the_job_that_was_on_the_slot(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path, sweep=True))
    (tmp_path / LOGS / "0003-job3.log").write_bytes(b"third\r\n\x1b[31mred\x1b[0m\rpart")
    events = past.events()
    await past.follow("cpu0", tail=5)
    assert await anext(events) == Lines("cpu0", 0, ("third", "red", "part"))
    await past.jump(0.2)
    await past.follow("cpu0", tail=5)
    first = await anext(events)
    assert isinstance(first, Lines)
    assert first.lines[0] == "line 1 of cpu0"
    (tmp_path / LOGS / "0001-job1.log").unlink()
    await past.follow("cpu0", tail=5)
    assert await anext(events) == Lines("cpu0", 0, ())
    (tmp_path / LOGS / "0001-job1.log").mkdir()
    with pytest.raises(GmgError, match="the log cannot be read: no regular file"):
        await past.follow("cpu0", tail=5)
    await past.close()


def test_of_a_long_log_the_end_is_read_and_its_lines_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_BYTES", 1000)
    monkeypatch.setattr(logs, "_BLOCK_BYTES", 64)
    lines = [f"line {number}" for number in range(1000)]
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    end = logs.read(tmp_path / "log", 5000)
    assert end.lines == tuple(lines[end.first :])
    assert 0 < len(end.lines) < 120
    assert logs.read(tmp_path / "log", 3) == logs.LogEnd(997, ("line 997", "line 998", "line 999"))


def _log_of_two(first: bytes, second: bytes) -> bytes:
    return first + first_line(2, ARGS) + second


@pytest.mark.parametrize(
    ("attempt", "written", "last"),
    [(1, 0, None), (1, 7, "first 1"), (1, 16, "first 2"), (2, 0, "──── "), (2, 9, "second 1"), (2, 10_000, "second 2")],
)
def test_a_log_ends_where_it_had_come_to_at_the_moment(
    attempt: int, written: int, last: str | None, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(_log_of_two(b"first 1\nfirst 2\n", b"second 1\nsecond 2\n"))
    lines = logs.read(tmp_path / "log", 100, logs.Written(attempt, written)).lines
    assert (lines[-1][: len(last)] == last) if last is not None else lines == ()


def test_of_a_log_whose_middle_is_cut_out_the_moment_is_found_where_its_attempt_is_known(tmp_path: Path) -> None:
    lines = [f"line {number:>6} of it".encode() for number in range(200_000)]
    log = tmp_path / "log"
    log.write_bytes(_log_of_two(b"\n".join(lines) + b"\n", b"".join(b"second %06d\n" % one for one in range(100_000))))
    cut.cut(log, 2 << 20)
    size = len(lines[0]) + 1
    assert logs.read(log, 5, logs.Written(1, 500 * size)).lines[-1] == "line    499 of it"
    assert "cut out here" in log.read_bytes()[: 1 << 20].decode()
    late = logs.read(log, 5, logs.Written(1, len(lines) * size + 50))  # which is missing
    assert late.lines[-1].startswith("line ")
    whole = logs.read(log, 5, logs.Written(2, 14))  # whose first line is missing
    assert whole.lines[-1] == "second 099999"


async def test_a_log_is_shown_up_to_the_moment_and_whole_at_the_last_one(tmp_path: Path) -> None:
    session = await lived(tmp_path)
    past = await PastSource.open(tmp_path, session)
    (tmp_path / LOGS / "cpu0.log").write_bytes(b"".join(b"line %d\n" % number for number in range(10)))
    events = past.events()
    seen = []
    for share in (0.0, 0.5, 1.0, 0.2):
        await past.jump(share)
        await past.follow("cpu0", tail=5)
        lines = await anext(events)
        assert isinstance(lines, Lines)
        seen.append(len(lines.lines))
    assert seen == [0, 3, 10, 1]
    await past.close()


def test_of_a_line_that_is_longer_than_what_is_read_the_end_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_BYTES", 1000)
    (tmp_path / "log").write_text("first\n" + "x" * 5000 + "the end")
    first, (line,) = logs.read(tmp_path / "log", 5000)
    assert (first, len(line)) == (1, 1000)
    assert line.endswith("xthe end")


async def test_nothing_can_be_changed(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    for change in (
        past.act(Action.RESTART, "cpu0"),
        past.edit(("cpu0",), (), {}),
        past.end(),
        past.use_slot("cpu0", used=False),
        past.stacks("cpu0"),
    ):
        with pytest.raises(GmgError, match="this is the past of life: it cannot be changed"):
            await change
    await past.close()


async def test_what_is_kept_meanwhile_can_be_looked_at(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    await past.step(-2)
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        later = snapshot_at(50)
        moments.put(db, [moments.Moment.of(type(later)(START + 70, 70.0, later.workers))])
        db.commit()
    assert (await past.step(1)).snapshot.elapsed_s == 50
    assert (await past.step(9)).snapshot.elapsed_s == 70
    await past.enter()
    assert (await past.step(-1)).snapshot.elapsed_s == 70
    await past.close()


async def test_a_moment_that_was_thinned_out_meanwhile_is_the_one_before_it(tmp_path: Path) -> None:
    past = await PastSource.open(tmp_path, await lived(tmp_path))
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        db.execute("DELETE FROM moments WHERE time = ?", (START + 40,))
        db.commit()
    assert (await past.step(-2)).snapshot.elapsed_s == 30
    await past.close()


def _removed(path: Path) -> None:
    path.unlink()


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def _later(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")


def _hostile(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE moments SET snapshot = x'00'")
        db.commit()


def _beyond_time(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE moments SET time = 1e300 WHERE id = 1")
        db.execute("UPDATE moments SET time = -5 WHERE id = 2")
        db.execute("UPDATE moments SET time = 'soon' WHERE id > 2")
        db.commit()


def _without_moments(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM moments")
        db.commit()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_removed, "there is no store"),
        (_truncated, "the store"),
        (_later, "update gmg-tui"),
        (_hostile, "a snapshot that this gmg-tui does not know"),
        (_beyond_time, "nothing is kept of it"),
        (_without_moments, "life: nothing is kept of it to look back on; .* gmg-tui report life"),
    ],
)
async def test_a_bad_store_is_one_clear_line(tmp_path: Path, harm: Callable[[Path], None], said: str) -> None:
    session = await lived(tmp_path)
    harm(tmp_path / STORE)
    with pytest.raises(GmgError, match=said) as caught:
        await PastSource.open(tmp_path, session)
    assert "\n" not in str(caught.value)


async def test_a_store_that_was_removed_and_made_again_is_read(tmp_path: Path) -> None:
    """The engine makes a store that is gone anew; whoever has the removed one open would never see more."""
    session = await lived(tmp_path)
    past = await PastSource.open(tmp_path, session)
    (tmp_path / STORE).unlink()
    await past.enter()
    assert (await past.step(-1)).snapshot.elapsed_s == 60
    with closing(schema.open_for_writing(tmp_path / STORE)) as db:
        with pytest.raises(GmgError, match="nothing is kept of it"):
            await past.enter()
        with pytest.raises(GmgError, match="nothing is kept of it"):
            await past.jump(0.5)
        later = snapshot_at(50)
        moments.put(db, [moments.Moment.of(type(later)(START + 70, 70.0, later.workers))])
        await past.enter()
        assert (await past.step(-1)).snapshot.elapsed_s == 70
    await past.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE figures SET time = 'soon'",
        "UPDATE figures SET time = 9e999 WHERE rowid > 20",
        "UPDATE jobs SET ended = 'x'",
        "UPDATE attempts SET started = 'x'",
        "UPDATE attempts SET ended = 'x'",
    ],
)
async def test_values_that_no_engine_writes_are_one_clear_line(tmp_path: Path, change: str) -> None:
    session = await lived(tmp_path, sweep=True)
    with closing(sqlite3.connect(tmp_path / STORE)) as db:
        db.execute(change)
        db.commit()
    said = "the store holds a value that this gmg-tui does not know"

    async def all_asked() -> None:
        past = await PastSource.open(tmp_path, session)
        try:
            await past.step(-1)
            await past.series("cpu0")
            await past.queue(0, 100)
            await past.details("cpu1")
        finally:
            await past.close()

    with pytest.raises(GmgError, match=said):
        await all_asked()


async def test_one_that_is_written_elsewhere_is_copied(tmp_path: Path) -> None:
    session = await lived(tmp_path)
    before = (tmp_path / STORE).read_bytes()
    past = Past(tmp_path, session, away=True)
    assert past.look(0).snapshot == snapshot_at(0)
    past.close()
    assert (tmp_path / STORE).read_bytes() == before


def test_it_asks_nothing_that_it_does_not_know() -> None:
    """What a connection that only looks may ask for is answered from the records too."""
    answered = {protocol.AskDetails, protocol.AskSeries, protocol.AskQueue, protocol.AskTried, protocol.BringLog}
    assert set(protocol.LOOKING) == {protocol.Follow, *answered}
