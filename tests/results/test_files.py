"""The files of a store contain every job, and can be read back without loss."""

import csv
import errno
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from msgspec import structs

from gmg_tui.machine.folders import write_own
from gmg_tui.model import Attempt, Fps, Gpu, JobRecord, Rank, Session, Slot, Snapshot, SweepSpec, WorkerState
from gmg_tui.results import json_csv_export
from gmg_tui.results.json_csv_export import DETAILED_FILE, TABLE_FILE, export, summary
from gmg_tui.session import STORE, SUMMARY, TUNE
from gmg_tui.session.store.writer import StoreWriter
from tests import tunings
from tests.session.store import records
from tests.workers import changed, worker_of


async def _exported(folder: Path, *jobs: JobRecord, snapshot: Snapshot | None = None, **spec: Any) -> Session:
    """The files of a session with these jobs, each with one attempt."""
    session = records.session(folder)
    session = structs.replace(session, spec=structs.replace(session.spec, **{"sweep": SweepSpec(), **spec}))
    writer = StoreWriter(folder / STORE, lambda line: None)
    writer.start()
    if snapshot is not None:
        writer.put(snapshot)
    for job in jobs:
        writer.put(job)
        if job.started:
            writer.put(records.attempt_of(job))
    await writer.close()
    export(session)
    return session


def _table(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / TABLE_FILE).read_text(), newline="")))


async def test_a_complete_job_and_one_without_values(tmp_path: Path) -> None:
    fps = Fps(100.0, 90.0, 110.0, 8, env_steps=900.0, seconds=10.0, energy_j=450.0)
    job = records.finished(1, gpu_index=2, gpu_uuid="GPU-ab", slot="gpu2", memory_peak_mib=30211.0, fps=fps)
    await _exported(tmp_path, job, JobRecord(2, "b"))
    first, second = json.loads((tmp_path / DETAILED_FILE).read_text())["jobs"]
    assert first["fps"]["mean"] == 90.0
    assert (first["log"], first["gpu_uuid"], first["result"]) == (job.log, "GPU-ab", {"tm_score": 0.01})
    assert first["attempts"][0]["started"] == "2026-11-18T11:06:50.000Z"
    assert first["attempts"][0]["args"] == ["--lr", "0.1"]
    assert {second[name] for name in ("reason", "fps", "energy_j", "started")} == {None}
    row, waiting = _table(tmp_path)
    assert (row["job"], row["slots"], row["fps_mean"], row["env_steps_per_j"]) == ("1", "gpu2", "90.0", "2.0")
    assert (row["lr"], row["tm_score"], row["args"]) == ("0.1", "0.01", "'--lr 0.1")
    assert {name: cell for name, cell in waiting.items() if cell} == {
        "job": "2",
        "name": "b",
        "state": "waiting",
        "attempts": "0",
    }


async def test_column_names_are_unique(tmp_path: Path) -> None:
    result = {"lr": 3, "state": "x", "result_lr": 4, "no": None, "nested": {"a": 1}, "loss": 1.25e-7}
    await _exported(tmp_path, JobRecord(1, "a", values={"lr": 0.5, "n_envs": 8, "fast": True}, result=result))
    header = next(csv.reader((tmp_path / TABLE_FILE).open()))
    assert len(set(header)) == len(header)
    (row,) = _table(tmp_path)
    assert (row["lr"], row["value_n_envs"], row["fast"]) == ("0.5", "8", "true")
    assert (row["result_lr"], row["result_result_lr"], row["result_state"]) == ("3", "4", "x")
    assert "nested" not in row
    assert row["loss"] == "1.25e-07"


async def test_metrics_that_are_results_too_have_one_column(tmp_path: Path) -> None:
    attempt = Attempt(1, metrics={"reward": 3.5, "steps": 8.0})
    await _exported(tmp_path, JobRecord(1, "a", last=attempt, result={"reward": 3.5, "steps": 9, "loss": 1}))
    (row,) = _table(tmp_path)
    assert [(name, row[name]) for name in row if name in ("reward", "steps", "loss")] == [
        ("reward", "3.5"),
        ("steps", "9"),
        ("loss", "1"),
    ]


async def test_numbers_are_in_full_in_csv_and_json(tmp_path: Path) -> None:
    losses = [1.00041, 1.00039, 1.00012, 1.00045, 1e300, 1.25e-7, math.nan]
    jobs = [
        records.finished(n, values={"lr": 0.1 + n / 1e7}, result={"loss": loss}, elapsed_s=1 / 3)
        for n, loss in enumerate(losses, 1)
    ]
    await _exported(tmp_path, *jobs)
    table = pd.read_csv(tmp_path / TABLE_FILE)
    assert table["loss"].tolist()[:-1] == losses[:-1]
    assert math.isnan(table["loss"].iloc[-1])
    assert table["lr"].tolist() == [job.values["lr"] for job in jobs]
    assert set(table["elapsed_s"]) == {1 / 3}
    frame = pd.json_normalize(json.loads((tmp_path / DETAILED_FILE).read_text())["jobs"])
    assert frame["result.loss"].tolist()[:-1] == losses[:-1]
    assert math.isnan(frame["result.loss"].iloc[-1])
    assert frame["fps.env_steps"].tolist() == [810.0 * job.number for job in jobs]


async def test_huge_results_are_kept_in_full(tmp_path: Path) -> None:
    result = {"long": "x" * 100_000, "huge": 2**2000, "nan": float("nan")}
    await _exported(tmp_path, records.finished(1, result=result))
    (job,) = json.loads((tmp_path / DETAILED_FILE).read_text())["jobs"]
    assert (len(job["result"]["long"]), job["result"]["huge"], job["result"]["nan"]) == (100_000, 2**2000, None)
    (row,) = _table(tmp_path)
    assert (row["long"], row["huge"], row["nan"]) == (result["long"], str(2**2000), "nan")


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await _exported(tmp_path, records.finished(1), sweep=SweepSpec())
    (tmp_path / DETAILED_FILE).unlink()

    def full(path: Path, data: bytes | Iterable[bytes]) -> None:
        if path.name == TABLE_FILE:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_own(path, data)

    monkeypatch.setattr(json_csv_export, "write_own", full)
    with pytest.raises(OSError, match=TABLE_FILE):
        export(session)
    assert (tmp_path / DETAILED_FILE).exists()


def _snapshot(**worker: Any) -> Snapshot:
    workers = (
        worker_of(
            "gpu0", 0, WorkerState.FINISHED, attempt=1, fps=Fps(100.0, 90.12345, 110.0, 8, 95.0, 9e6, 1e5, "probe")
        ),
        worker_of("gpu1", 1, WorkerState.FAILED, attempt=3, reason="out of memory", fps=Fps(50.0, 50.0, 50.0, 1, 50.0)),
    )
    return Snapshot(records.START, 412.3456, tuple(changed(each, **worker) for each in workers))


def test_the_summary_has_the_documented_fields(tmp_path: Path) -> None:
    gpu = Gpu(0, "GPU-a", "NVIDIA H100", memory_total_mib=81920)
    session = records.session(tmp_path)
    session = structs.replace(session, slots=(Slot("gpu0", gpu), Slot("gpu1", gpu)))
    report = summary(session, _snapshot())
    first, second = report["workers"]
    assert {name: report[name] for name in ("elapsed_s", "total_fps", "total_fps_settled")} == {
        "elapsed_s": 412.3456,
        "total_fps": 100.0,
        "total_fps_settled": 95.0,
    }
    assert report["started"] == "2026-11-18T11:06:40Z"
    assert first == {
        "slot": "gpu0",
        "gpu": {"index": 0, "uuid": "GPU-a", "name": "NVIDIA H100", "memory_total_mib": 81920},
        "state": "finished",
        "reason": None,
        "exit_code": None,
        "attempts": 1,
        "alerts": [],
        "n_envs": None,
        "fps": {"last": 100.0, "mean": 90.12345, "max": 110.0, "samples": 8, "settled": 95.0},
        "env_steps": 9e6,
        "counted": "probe",
        "gpu_util_mean_pct": None,
        "memory_peak_mib": None,
        "power_mean_w": None,
        "energy_j": None,
        "log": "logs/gpu0.log",
        "checkpoint": None,
        "continued_from": None,
    }
    assert (second["state"], second["reason"]) == ("failed", "out of memory")


def test_only_the_reporting_rank_of_a_group_counts(tmp_path: Path) -> None:
    snapshot = _snapshot(state=WorkerState.FINISHED)
    ranks = [structs.replace(worker, group=Rank("g0", rank, 2)) for rank, worker in enumerate(snapshot.workers)]
    ranks[0] = changed(ranks[0], fps_of_group=True)
    report = summary(records.session(tmp_path), structs.replace(snapshot, workers=tuple(ranks)))
    assert report["total_fps"] == 100.0
    assert report["workers"][1]["group"] == {"id": "g0", "rank": 1, "world_size": 2}


async def test_a_tuning_writes_its_file_and_the_requested_summary_equals_it(tmp_path: Path) -> None:
    requested = tmp_path / "asked.json"
    snapshot = structs.replace(_snapshot(), tuning=tunings.ENDED)
    await _exported(tmp_path, snapshot=snapshot, summary=str(requested), tune=tunings.SPEC)
    assert (tmp_path / SUMMARY).exists()
    written = json.loads((tmp_path / TUNE).read_text())
    assert written == json.loads(requested.read_text())
    assert (written["variable"], written["metric"]) == ("n_envs", "fps")
    assert len(written["trials"]) == len(tunings.ENDED.trials)
    assert written["fastest"]["value"] == 17_000
    assert written["trials"][0]["reason"] is None


async def test_the_requested_summary_is_written_only_at_the_end(tmp_path: Path) -> None:
    requested = tmp_path / "asked.json"
    await _exported(tmp_path, snapshot=_snapshot(state=WorkerState.RUNNING), summary=str(requested))
    assert not requested.exists()
    await _exported(tmp_path, snapshot=_snapshot(), summary=str(requested))
    assert json.loads(requested.read_text())["session"] == tmp_path.name


async def test_ten_thousand_jobs(tmp_path: Path) -> None:
    await _exported(tmp_path, *(records.finished(number) for number in range(1, 10_001)))
    assert len(json.loads((tmp_path / DETAILED_FILE).read_text())["jobs"]) == 10_000
    assert [int(row["job"]) for row in _table(tmp_path)] == list(range(1, 10_001))
