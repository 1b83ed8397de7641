"""The results' files hold every job, are read back as they were meant, and cost little."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmg_tui.model import Fps, Job, JobRecord, WorkerState
from gmg_tui.results import DETAILED, SUMMARY, Results
from gmg_tui.results.summary import FIXED
from gmg_tui.session import STORE
from gmg_tui.store.reader import create
from gmg_tui.store.records import JobAttempt
from tests.harm.patience import eventually
from tests.store import records
from tests.store.conftest import Opened, folder, opened

__all__ = ["folder", "opened"]


def _results(tmp_path: Path, *jobs: JobRecord, attempts: tuple[JobAttempt, ...] = ()) -> Results:
    results = Results(tmp_path)
    results.take(jobs, attempts)
    return results


def _table(results: Results) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(results.summary()).decode(), newline="")))


def _jobs(results: Results) -> list[dict[str, Any]]:
    whole = json.loads(b"".join(results.detailed()))
    assert list(whole) == ["jobs"]
    listed = whole["jobs"]
    assert isinstance(listed, list)
    return listed


def test_a_job_in_full(tmp_path: Path) -> None:
    job = records.finished(1, gpu_index=2, gpu_uuid="GPU-ab", slot="gpu2", memory_peak_mib=30211.0)
    first = records.attempt_of(job, 1, exit_code=1, state=WorkerState.FAILED, reason="out of memory")
    second = records.attempt_of(job, 2, started=records.START + 0.25)
    unknown = ("n_envs", "fps_last", "fps_settled", "memory_peak_mib", "gpu_util_pct", "power_w")
    reached = dict.fromkeys(unknown)
    (found,) = _jobs(_results(tmp_path, job, attempts=(second, first)))
    assert found == {
        "name": "job-1",
        "number": 1,
        "state": "finished",
        "reason": None,
        "values": {"lr": 0.1, "method": "ode"},
        "gpu": {"index": 2, "uuid": "GPU-ab"},
        "slot": "gpu2",
        "slots": ["gpu2"],
        "group": None,
        "rank": None,
        "world_size": None,
        "attempts": [
            {
                "number": 1,
                "started": "2026-11-18T11:06:50.000Z",
                "ended": "2026-11-18T11:06:59.500Z",
                "exit_code": 1,
                "state": "failed",
                "reason": "out of memory",
                "rank": 0,
                "slot": "gpu2",
                "gpu_index": 2,
                "gpu_uuid": "GPU-ab",
                "pid": 1001,
                "args": ["--lr", "0.1"],
                **reached,
            },
            {
                "number": 2,
                "started": "2026-11-18T11:06:40.250Z",
                "ended": "2026-11-18T11:06:59.500Z",
                "exit_code": 0,
                "state": "finished",
                "reason": None,
                "rank": 0,
                "slot": "gpu2",
                "gpu_index": 2,
                "gpu_uuid": "GPU-ab",
                "pid": 1001,
                "args": ["--lr", "0.1"],
                **reached,
            },
        ],
        "exit_code": 0,
        "elapsed_s": 9.5,
        "fps": {"last": 100.0, "settled": 105.0, "mean": 90.0, "max": 110.0, "samples": 8},
        "n_envs": 4096,
        "memory_peak_mib": 30211.0,
        "gpu_util_mean_pct": None,
        "power_mean_w": None,
        "energy_j": None,
        "out_dir": "/results/job-1",
        "log": "logs/0001-job-1.log",
        "result": {"tm_score": 0.01},
    }


def test_what_is_not_known_is_null_and_an_empty_cell(tmp_path: Path) -> None:
    job = JobRecord(1, "a")
    attempt = records.attempt_of(job, started=0.0, pid=None)
    results = _results(tmp_path, job, attempts=(attempt,))
    (found,) = _jobs(results)
    known = {"name", "number", "state", "values", "slots", "attempts", "result"}
    assert {key for key, value in found.items() if value is not None} == known
    assert [key for key, value in found["attempts"][0].items() if value is None] == [
        "started",
        "ended",
        "exit_code",
        "reason",
        "gpu_index",
        "gpu_uuid",
        "pid",
        "n_envs",
        "fps_last",
        "fps_settled",
        "memory_peak_mib",
        "gpu_util_pct",
        "power_w",
    ]
    (row,) = _table(results)
    assert {key: value for key, value in row.items() if value} == {
        "job": "1",
        "name": "a",
        "state": "waiting",
        "attempts": "0",
    }


def test_the_columns_stand_in_their_order_and_no_two_have_one_name(tmp_path: Path) -> None:
    jobs = (
        JobRecord(2, "b", values={"n_envs": 8, "lr": 1}, result={"tm_score": 0.5, "nested": {"a": 1}, "list": [1]}),
        JobRecord(1, "a", values={"lr": 0.5, "fast": True}, result={"lr": 3, "state": "x", "result_lr": 4, "no": None}),
    )
    results = _results(tmp_path, *jobs)
    header, *rows = csv.reader(io.StringIO(b"".join(results.summary()).decode(), newline=""))
    assert header[: len(FIXED)] == list(FIXED)
    assert ",".join(FIXED) == (
        "job,name,state,gpu,gpu_uuid,attempts,exit_code,reason,elapsed_s,fps_settled,fps_last,fps_mean,n_envs,"
        "memory_peak_mib,gpu_util_mean_pct,energy_j,slots,ddp_group,ddp_rank,ddp_world_size"
    )
    assert header[len(FIXED) :] == [
        "lr", "fast", "value_n_envs", "result_result_lr", "result_state", "result_lr", "tm_score",
    ]  # fmt: skip
    assert [row[len(FIXED) :] for row in rows] == [
        ["0.5", "true", "", "3", "x", "4", ""],
        ["1", "", "8", "", "", "", "0.5"],
    ]
    assert _jobs(results)[1]["result"]["nested"] == {"a": 1}


def test_a_later_job_may_bring_a_column(tmp_path: Path) -> None:
    results = _results(tmp_path, JobRecord(1, "a"), JobRecord(2, "b", result={"x": 1}))
    assert [row["x"] for row in _table(results)] == ["", "1"]
    results.take([JobRecord(1, "a", result={"y": 2})], ())
    assert [(row["y"], row["x"]) for row in _table(results)] == [("2", ""), ("", "1")]


def _kept(text: str) -> str:
    """A text as the sheet has it: one that a spreadsheet would take for a formula has `'` before it, a number not."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


_cell = st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@settings(deadline=None)
@given(jobs=st.lists(records.jobs, max_size=4, unique_by=lambda job: job.number), extra=_cell)
def test_any_job_is_read_back_from_both(tmp_path_factory: pytest.TempPathFactory, jobs: Any, extra: object) -> None:
    jobs = sorted((*jobs, JobRecord(2**41, 'a,"b"\r\nc\rd', result={"é,": extra})), key=lambda job: job.number)
    results = _results(Path(), *jobs)
    assert [(job["number"], job["name"], job["values"]) for job in _jobs(results)] == [
        (job.number, job.name, job.values) for job in jobs
    ]
    rows = _table(results)
    assert [row["job"] for row in rows] == [str(job.number) for job in jobs]
    assert [row["name"] for row in rows] == [_kept(job.name).encode(errors="replace").decode() for job in jobs]
    assert [row["reason"] for row in rows] == [_kept(job.reason or "") for job in jobs]
    if isinstance(extra, str):
        assert rows[-1]["é,"] == _kept(extra)
    elif isinstance(extra, float) and math.isfinite(extra):
        assert float(rows[-1]["é,"]) == extra


def test_the_files_are_whole_and_in_both_folders(tmp_path: Path) -> None:
    further = tmp_path / "far" / "away"
    results = Results(tmp_path / "session", further)
    assert results.due_s is None
    results.take([records.finished(1)], ())
    assert results.due_s == 0
    results.write()
    for place in (tmp_path / "session", further):
        assert sorted(entry.name for entry in place.iterdir()) == [DETAILED, SUMMARY]
        assert (place / DETAILED).read_bytes() == b"".join(results.detailed())
        assert (place / SUMMARY).read_bytes() == b"".join(results.summary())
    assert results.due_s is None
    assert not results.stale
    results.take([JobRecord(2, "b", state=WorkerState.RUNNING)], ())
    results.write()
    results.take([JobRecord(2, "b", state=WorkerState.RUNNING, reason="x")], ())
    assert results.due_s is None
    assert results.stale


def test_one_folder_that_cannot_be_written_does_not_keep_the_other_from_it(tmp_path: Path) -> None:
    (tmp_path / "far").write_text("a file")
    results = Results(tmp_path / "session", tmp_path / "far")
    results.take([records.finished(1)], ())
    with pytest.raises(OSError, match=r"far/detailed_results\.json"):
        results.write()
    assert (tmp_path / "session" / SUMMARY).exists()
    assert results.stale
    (tmp_path / "far").unlink()
    results.write()
    assert (tmp_path / "far" / SUMMARY).exists()


async def test_the_writer_writes_them_after_a_jobs_end_and_before_its_own(folder: Path, opened: Opened) -> None:
    create(folder / STORE, [Job(number, f"job-{number}") for number in range(1, 4)])
    writer, heard = opened(Results(folder))
    writer.job(records.finished(1))
    table = folder / SUMMARY
    await eventually(lambda: table.exists() and table.read_text().count("finished") == 1)
    assert table.read_text().count("\n") == 4
    writer.job(JobRecord(2, "job-2", state=WorkerState.RUNNING))
    await writer.close()
    assert [row["state"] for row in csv.DictReader(table.open())] == ["finished", "running", "waiting"]
    assert heard.lines == []

    writer, _ = opened(Results(folder))  # as after a resume: what the store has from before is in the files again
    table.unlink()
    writer.job(records.finished(3))
    await writer.close()
    assert [row["state"] for row in csv.DictReader(table.open())] == ["finished", "running", "finished"]


async def test_results_that_cannot_be_written_are_said(folder: Path, opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "far").write_text("a file")
    writer, heard = opened(Results(folder, tmp_path / "far"))
    writer.job(records.finished(1))
    await eventually(lambda: heard.now)
    assert heard.now == f"{tmp_path}/far/{DETAILED}: File exists; the results' files are out of date"
    (tmp_path / "far").unlink()
    await writer.close()
    assert heard.now is None
    assert (tmp_path / "far" / SUMMARY).exists()


def test_ten_thousand_jobs_and_one_more_make_one_text_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gmg_tui.results import detailed, files

    results = _results(tmp_path, *(records.finished(number) for number in range(1, 10_001)))
    results.write()
    made: list[int] = []

    def counted(job: JobRecord, attempts: Any, real: Any = detailed.job_text) -> Any:
        made.append(job.number)
        return real(job, attempts)

    monkeypatch.setattr(files, "job_text", counted)
    results.take([records.finished(7, fps=Fps(1.0, 1.0, 1.0, 1))], ())
    results.write()
    assert made == [7]
    assert len(json.loads((tmp_path / DETAILED).read_bytes())["jobs"]) == 10_000
    results.take([records.finished(8, n_envs=1)], ())
    assert results.due_s  # not at once: writing so many has cost something
