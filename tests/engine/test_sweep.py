"""A sweep in a real engine: its jobs are real processes, its cards those of the simulated driver."""

from __future__ import annotations

import csv
import itertools
import json
from collections import defaultdict
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, QueueAction, Value, WorkerState
from gmg_tui.store import reader
from tests.nvml_sim import Sim

from .harness import Running, job_batch, marks, running, spawn, sweep_for

FINISHED, FAILED, STOPPED = WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED
CARDS = {"gpus": "0,1,2"}


def stored(run: Running) -> dict[str, JobRecord]:
    """The records of the jobs in the store, by name."""
    return {record.name: record for record in reader.load_jobs(run.folder / session.STORE)}


def rows(folder: Path) -> list[dict[str, str]]:
    """The rows of the summary."""
    with (folder / "summary_results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


async def test_each_job_runs_on_one_card_and_no_card_has_two(sim: Sim, marked: Path) -> None:
    batch = job_batch("--marks", str(marked), "--s", "0.2", "--value", "{x}", **CARDS)
    async with running(sweep_for([{"x": n} for n in range(8)], batch), sim.env()) as run:
        queue = await run.until_done()
    assert (queue.finished, queue.jobs) == (8, 8)
    by_card = defaultdict(list)
    for mark in marks(marked):
        by_card[mark["CUDA_VISIBLE_DEVICES"]].append(mark)
        assert mark["GMG_SLOT"] == f"gpu{mark['CUDA_VISIBLE_DEVICES']}"
    assert set(by_card) == {"0", "1", "2"}
    for ran in by_card.values():
        for earlier, later in itertools.pairwise(ran):
            assert earlier["ended"] <= later["began"]
    records = stored(run)
    for mark in marks(marked):
        record = records[mark["GMG_JOB_NAME"]]
        assert record.state is FINISHED
        assert (str(record.last.gpu_index), record.gpu_uuid) == (
            mark["CUDA_VISIBLE_DEVICES"],
            sim.gpus[int(mark["CUDA_VISIBLE_DEVICES"])].uuid,
        )
    assert len(rows(run.folder)) == 8


async def test_each_job_has_its_own_folder_and_its_results_are_kept(sim: Sim, marked: Path, tmp_path: Path) -> None:
    batch = job_batch("--marks", str(marked), "--value", "{x}", "--result", **CARDS)
    spec = sweep_for([{"x": "four", "name": "wide"}], batch)
    async with running(spec, sim.env()) as run:
        await run.until_done()
    (mark,) = marks(marked)
    assert mark["GMG_OUT_DIR"] == str(run.folder / "jobs" / "wide")
    record = stored(run)["wide"]
    assert record.out_dir == mark["GMG_OUT_DIR"]
    assert record.result == {"score": 0.5, "from": "output", "deep": {"a": [1]}, "n": 3}
    assert record.log == "logs/0001-wide.log"
    assert b"gmg:result" in (run.folder / record.log).read_bytes()
    (row,) = rows(run.folder)
    assert (row["name"], row["x"], row["score"], row["from"], row["n"]) == ("wide", "four", "0.5", "output", "3")
    detailed = json.loads((run.folder / "detailed_results.json").read_text())
    assert detailed["jobs"][0]["result"]["deep"] == {"a": [1]}


async def test_two_jobs_share_a_card_when_allowed(sim: Sim, marked: Path) -> None:
    batch = job_batch("--marks", str(marked), "--s", "0.3", gpus="1,", per_gpu=2)
    async with running(sweep_for([{}] * 4, batch), sim.env()) as run:
        first = await run.until(lambda snapshot: snapshot.queue and snapshot.queue.running == 2)
        assert [worker.slot for worker in first.workers] == ["gpu1-1", "gpu1-2"]
        await run.until_done()
    assert {mark["CUDA_VISIBLE_DEVICES"] for mark in marks(marked)} == {"1"}
    assert {mark["GMG_SLOT"] for mark in marks(marked)} == {"gpu1-1", "gpu1-2"}


async def test_a_job_waits_for_the_memory_that_it_needs(sim: Sim, marked: Path) -> None:
    total = sim.gpus[0].memory_total_mib
    assert total is not None
    sim.gpus[0].memory_used_mib = total - 1000
    sim.write()
    batch = job_batch("--marks", str(marked), gpus="0,", min_free_mib=8000.0)
    async with running(sweep_for([{}], batch, interval_s=0.2), sim.env()) as run:
        waiting = await run.until(lambda snapshot: "of free VRAM" in (snapshot.workers[0].reason or ""))
        assert waiting.workers[0].state is WorkerState.WAITING
        assert not marks(marked)
        sim.gpus[0].memory_used_mib = 1000
        sim.write()
        assert (await run.until_done()).finished == 1


async def test_two_jobs_on_a_card_do_not_reserve_the_same_memory(sim: Sim, marked: Path) -> None:
    sim.gpus[0].memory_total_mib, sim.gpus[0].memory_used_mib = 20_000, 1000
    sim.write()
    batch = job_batch("--marks", str(marked), "--s", "0.3", gpus="0,", per_gpu=2, min_free_mib=12_000.0)
    async with running(sweep_for([{}] * 3, batch, interval_s=0.2), sim.env()) as run:
        await run.until_done()
    ran = marks(marked)
    for earlier, later in itertools.pairwise(ran):
        assert earlier["ended"] <= later["began"]


async def test_an_ended_job_does_not_wait_and_the_next_one_waits_for_its_memory(
    sim: Sim, marked: Path, tmp_path: Path
) -> None:
    sim.gpus[0].memory_used_mib = 500
    sim.write()
    first, second = tmp_path / "first", tmp_path / "second"
    batch = job_batch("--marks", str(marked), "--until", "{until}", gpus="0,")
    jobs = [{"until": str(first)}, {"until": str(second)}]
    async with running(sweep_for(jobs, batch, interval_s=0.2), sim.env()) as run:
        await run.until(lambda s: len(marks(marked)) == 1)
        sim.gpus[0].memory_used_mib = 30_000
        sim.write()
        await run.until(lambda s: s.samples[0].memory_used_mib == 30_000)
        first.touch()
        waiting = await run.until(lambda s: "to be released" in (s.workers[0].reason or ""))
        assert waiting.queue is not None
        assert (waiting.queue.finished, waiting.queue.running) == (1, 0)
        records = await run.jobs()
        assert [(job.state, job.elapsed_s is not None) for job in records.values()] == [
            (FINISHED, True),
            (WorkerState.WAITING, False),
        ]
        sim.gpus[0].memory_used_mib = 500
        sim.write()
        await run.until(lambda s: len(marks(marked)) == 2)
        sim.gpus[0].memory_used_mib = 30_000
        sim.write()
        await run.until(lambda s: s.samples[0].memory_used_mib == 30_000)
        second.touch()
        ended = await run.until(lambda s: s.queue and s.queue.finished == 2)
        assert ended.ended, "no job is left that needs the memory"


async def test_a_job_frees_its_card_and_its_state_is_in_the_results_however_it_ends(
    sim: Sim, marked: Path, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    common = ("--marks", str(marked))
    batches = (
        job_batch(*common, name="no folder", out_dir=f"{blocked}/x", gpus="0,"),
        job_batch(*common, "--s", "60", name="slow", timeout_s=1.0, gpus="0,"),
        job_batch(*common, "--oom", name="oom", gpus="0,"),
        job_batch(*common, "--fail", "3", name="twice", retries=1, gpus="0,"),
        job_batch(*common, "--fail", "3", "--fail-attempts", "1", name="once", retries=1, gpus="0,"),
        job_batch(*common, name="well", gpus="0,"),
    )
    jobs: list[dict[str, Value]] = [
        {"batch": index, "name": batch.name.replace(" ", "-")} for index, batch in enumerate(batches)
    ]
    async with running(sweep_for(jobs, *batches), sim.env()) as run:
        queue = await run.until_done()
        records = await run.jobs()
    assert (queue.finished, queue.failed, queue.waiting) == (2, 4, 0)
    kept = stored(run)
    assert {name: record.state for name, record in kept.items()} == {name: records[name].state for name in records}
    assert "cannot make the job's folder" in (kept["no-folder"].reason or "")
    assert kept["no-folder"].last.number == 0
    assert kept["slow"].reason == "timed out after 1 s"
    assert "out of memory" in (kept["oom"].reason or "")
    assert (kept["twice"].last.number, kept["twice"].last.exit_code) == (2, 3)
    assert (kept["once"].last.number, kept["once"].state) == (2, FINISHED)
    assert kept["well"].state is FINISHED
    by_name = {row["name"]: row for row in rows(run.folder)}
    assert {name: row["state"] for name, row in by_name.items()} == {n: r.state.value for n, r in kept.items()}
    assert {name: row["gpu"] for name, row in by_name.items()} == {
        name: "0" if kept[name].last.number else "" for name in kept
    }


async def test_commands_to_jobs(sim: Sim, marked: Path) -> None:
    batch = job_batch("--marks", str(marked), "--s", "{s}", gpus="0,")
    jobs = [{"s": 600.0}, *({"s": 0.0} for _ in range(4))]
    async with running(sweep_for(jobs, batch), sim.env()) as run:
        await run.until(lambda s: marks(marked))
        await run.client.act_on_jobs(QueueAction.SKIP, 3)
        with pytest.raises(GmgError, match=r"job 1 .* runs; it does not wait"):
            await run.client.act_on_jobs(QueueAction.SKIP, 1)
        with pytest.raises(GmgError, match=r"job 5 .* does not run"):
            await run.client.act_on_jobs(QueueAction.STOP, 5)
        await run.client.act_on_jobs(QueueAction.STOP, 1)
        queue = await run.until_done()
        assert (queue.finished, queue.stopped) == (3, 2)
        await run.client.act_on_jobs(QueueAction.RETRY, 3)
        assert (await run.until(lambda s: s.queue and s.queue.finished == 4)).queue
    assert [mark["GMG_JOB"] for mark in marks(marked)] == ["1", "2", "4", "5", "3"]
    assert stored(run)["job-1"].state is STOPPED


async def test_a_command_to_many_jobs_applies_to_all_eligible_jobs(sim: Sim, marked: Path) -> None:
    batch = job_batch("--marks", str(marked), "--s", "{s}", gpus="0,1")
    async with running(sweep_for([{"s": 0.0}, {"s": 0.0}, {"s": 600.0}], batch), sim.env()) as run:
        await run.until(lambda s: s.queue and s.queue.finished == 2)
        with pytest.raises(GmgError, match=r"job 3 \(job-3\) has not ended"):
            await run.client.act_on_jobs(QueueAction.RETRY, 1, 3, 2)
        await run.until(lambda s: s.queue and s.queue.finished == 2 and len(marks(marked)) == 5)
        assert sorted(mark["GMG_JOB"] for mark in marks(marked)) == ["1", "1", "2", "2", "3"]


async def test_cards_can_be_added_and_removed_during_a_sweep(sim: Sim, marked: Path, tmp_path: Path) -> None:
    batch = job_batch("--marks", str(marked), "--until", "{until}", gpus="0,")
    jobs = [{"until": str(tmp_path / "go")}, {"until": ""}, {"until": ""}]
    async with running(sweep_for(jobs, batch), sim.env()) as run:
        await run.until_state("gpu0", WorkerState.STARTING)
        assert [worker.slot for worker in run.snapshot.workers] == ["gpu0"]
        await run.client.use_slot("gpu0", used=False)
        await run.client.use_slot("gpu2", used=True)
        await run.until(lambda s: s.queue and s.queue.finished == 2)
        (tmp_path / "go").touch()
        await run.until_done()
        view = await run.client.queue(0, 10)
        assert {lane.slot: lane.used for lane in view.lanes}["gpu0"] is False
    cards = {mark["GMG_JOB"]: mark["CUDA_VISIBLE_DEVICES"] for mark in marks(marked)}
    assert cards == {"1": "0", "2": "2", "3": "2"}


async def test_a_stopped_sweep_continues_where_it_stopped(sim: Sim, marked: Path, tmp_path: Path) -> None:
    batch = job_batch("--marks", str(marked), "--until", "{until}", gpus="0,")
    spec = sweep_for([{"until": ""}, {"until": str(tmp_path / "go")}, {"until": ""}], batch)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: len(marks(marked)) == 2)
        await run.client.end()
        await run.until(lambda s: s.ended)
    assert {name: record.state for name, record in stored(run).items()} == {
        "job-1": FINISHED,
        "job-2": WorkerState.WAITING,
        "job-3": WorkerState.WAITING,
    }
    (tmp_path / "go").touch()
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert queue.finished == 3
    assert stored(run)["job-2"].last.number == 2
    assert [mark["GMG_JOB"] for mark in marks(marked)] == ["1", "2", "2", "3"]


async def test_a_missing_store_is_an_error_in_one_line(sim: Sim) -> None:
    spec = sweep_for([{}], job_batch(**CARDS))
    (Path(spec.folder) / session.STORE).unlink()
    process, answer = await spawn(spec, sim.env())
    await process.wait()
    assert not answer["ok"]
    assert "\n" not in answer["error"]
