"""A sweep in a real engine, on the simulated driver's cards: jobs of one slot, and of several at once."""

import csv
import itertools
import json
import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session
from gmg_tui.model import DdpSpec, JobRecord, QueueAction, RestartMode, RunSpec, Value, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.nvml_sim import Sim

from .harness import JOB, Running, marks, program, running, spawn, sweep_for
from .test_groups import RANK

FINISHED, FAILED, STOPPED, WAITING = WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED, WorkerState.WAITING
CARDS = {"gpus": "0,1,2"}


def stored(run: Running) -> dict[str, JobRecord]:
    return {record.name: record for record in reader.load_jobs(run.folder / session.STORE)}


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary_results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


async def test_each_job_runs_on_one_card_and_no_card_has_two(sim: Sim, marked: Path) -> None:
    batch = program("--marks", str(marked), "--s", "0.2", "--value", "{x}", **CARDS)
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


async def test_the_results_of_a_job_are_kept(sim: Sim, marked: Path) -> None:
    batch = program("--marks", str(marked), "--value", "{x}", "--result", **CARDS)
    async with running(sweep_for([{"x": "four", "name": "wide"}], batch), sim.env()) as run:
        await run.until_done()
    record = stored(run)["wide"]
    assert record.result == {"score": 0.5, "deep": {"a": [1]}}
    assert record.log == "logs/0001-wide.log"
    assert b"gmg:result" in (run.folder / record.log).read_bytes()
    (row,) = rows(run.folder)
    assert (row["name"], row["x"], row["score"]) == ("wide", "four", "0.5")
    detailed = json.loads((run.folder / "detailed_results.json").read_text())
    assert detailed["jobs"][0]["result"]["deep"] == {"a": [1]}


async def test_two_jobs_share_a_card_when_allowed(sim: Sim, marked: Path) -> None:
    batch = program("--marks", str(marked), "--s", "0.3", gpus="1,", per_gpu=2)
    async with running(sweep_for([{}] * 4, batch), sim.env()) as run:
        first = await run.until(lambda snapshot: snapshot.queue and snapshot.queue.running == 2)
        assert [worker.slot for worker in first.workers] == ["gpu1-1", "gpu1-2"]
        await run.until_done()
    assert {mark["CUDA_VISIBLE_DEVICES"] for mark in marks(marked)} == {"1"}
    assert {mark["GMG_SLOT"] for mark in marks(marked)} == {"gpu1-1", "gpu1-2"}


async def test_an_ended_job_does_not_wait_and_the_next_one_waits_for_its_memory(
    sim: Sim, marked: Path, tmp_path: Path
) -> None:
    sim.gpus[0].memory_used_mib = 500
    sim.write()
    first, second = tmp_path / "first", tmp_path / "second"
    batch = program("--marks", str(marked), "--until", "{until}", gpus="0,")
    jobs = [{"until": str(first)}, {"until": str(second)}]
    async with running(sweep_for(jobs, batch, interval_s=0.2), sim.env()) as run:
        await run.until(lambda s: len(marks(marked)) == 1)
        sim.gpus[0].memory_used_mib = 30_000
        sim.write()
        await run.until(lambda s: s.samples and s.samples[0].memory_used_mib == 30_000)
        first.touch()
        waiting = await run.until(lambda s: "to be released" in (s.workers[0].reason or ""))
        assert (waiting.queue.finished, waiting.queue.running) == (1, 0)
        records = await run.jobs()
        assert [(job.state, job.elapsed_s is not None) for job in records.values()] == [
            (FINISHED, True),
            (WAITING, False),
        ]
        sim.gpus[0].memory_used_mib = 500
        sim.write()
        await run.until(lambda s: len(marks(marked)) == 2)
        sim.gpus[0].memory_used_mib = 30_000
        sim.write()
        await run.until(lambda s: s.samples and s.samples[0].memory_used_mib == 30_000)
        second.touch()
        ended = await run.until(lambda s: s.queue and s.queue.finished == 2)
        assert ended.ended, "no job is left that needs the memory"


async def test_a_job_frees_its_card_and_its_state_is_in_the_results_however_it_ends(sim: Sim, marked: Path) -> None:
    script = marked.parent / "any.py"
    script.write_text(
        f"import runpy, shlex, sys\nsys.argv[1:] = shlex.split(sys.argv[1])\nrunpy.run_path({JOB!r}, run_name='__main__')\n"
    )
    jobs = {"slow": "--s 60", "oom": "--oom", "twice": "--fail 3", "once": "--fail 3 --fail-attempts 1", "well": ""}
    what = program("{args}", script=str(script), timeout_s=6.0, gpus="0,")
    what |= {"restart": RestartMode.FAILURE, "max_restarts": 1}
    async with running(
        sweep_for([{"name": name, "args": args} for name, args in jobs.items()], what), sim.env()
    ) as run:
        queue = await run.until_done()
        records = await run.jobs()
    assert (queue.finished, queue.failed, queue.waiting) == (2, 3, 0)
    kept = stored(run)
    assert {name: record.state for name, record in kept.items()} == {name: records[name].state for name in records}
    assert kept["slow"].reason == "timed out after 6 s"
    assert "out of memory" in (kept["oom"].reason or "")
    assert (kept["twice"].last.number, kept["twice"].last.exit_code) == (2, 3)
    assert (kept["once"].last.number, kept["once"].state) == (2, FINISHED)
    assert kept["well"].state is FINISHED
    by_name = {row["name"]: row for row in rows(run.folder)}
    assert {name: (row["state"], row["gpu"]) for name, row in by_name.items()} == {
        name: (record.state.value, "0") for name, record in kept.items()
    }


async def test_commands_to_jobs(sim: Sim, marked: Path) -> None:
    """None waits for another sample of the GPUs."""
    batch = program("--marks", str(marked), "--s", "{s}", gpus="0,")
    jobs = [{"s": 600.0}, *({"s": 0.0} for _ in range(4))]
    async with running(sweep_for(jobs, batch, interval_s=600.0), sim.env()) as run:
        await run.until(lambda s: marks(marked))
        await run.client.act_on_jobs(QueueAction.SKIP, 3)
        with pytest.raises(GmgError, match=r"job 1 .* is running; only waiting jobs"):
            await run.client.act_on_jobs(QueueAction.SKIP, 1)
        with pytest.raises(GmgError, match=r"job 5 .* is not running"):
            await run.client.act_on_jobs(QueueAction.STOP, 5)
        await run.client.act_on_jobs(QueueAction.STOP, 1)
        queue = await run.until_done()
        assert (queue.finished, queue.stopped) == (3, 2)
        await run.client.act_on_jobs(QueueAction.RETRY, 3)
        assert (await run.until(lambda s: s.queue and s.queue.finished == 4)).queue
    assert [mark["GMG_JOB"] for mark in marks(marked)] == ["1", "2", "4", "5", "3"]
    assert stored(run)["job-1"].state is STOPPED


async def test_a_command_to_many_jobs_applies_to_all_eligible_jobs(sim: Sim, marked: Path) -> None:
    batch = program("--marks", str(marked), "--s", "{s}", gpus="0,1")
    async with running(sweep_for([{"s": 0.0}, {"s": 0.0}, {"s": 600.0}], batch), sim.env()) as run:
        await run.until(lambda s: s.queue and s.queue.finished == 2)
        with pytest.raises(GmgError, match=r"job 3 \(job-3\) has not ended"):
            await run.client.act_on_jobs(QueueAction.RETRY, 1, 3, 2)
        await run.until(lambda s: s.queue and s.queue.finished == 2 and len(marks(marked)) == 5)
        assert sorted(mark["GMG_JOB"] for mark in marks(marked)) == ["1", "1", "2", "2", "3"]


async def test_cards_can_be_disabled_and_enabled_during_a_sweep(sim: Sim, marked: Path, tmp_path: Path) -> None:
    batch = program("--marks", str(marked), "--until", "{until}", gpus="0,2")
    jobs = [{"until": str(tmp_path / "one")}, {"until": str(tmp_path / "two")}, {"until": ""}, {"until": ""}]
    async with running(sweep_for(jobs, batch, interval_s=600.0), sim.env()) as run:
        await run.until(lambda s: len(marks(marked)) == 2)
        await run.client.use_slot("gpu0", used=False)
        (tmp_path / "one").touch()
        idle = await run.until(lambda s: s.queue and s.queue.finished == 1 and s.workers[0].reason == "not used")
        assert [worker.slot for worker in idle.workers] == ["gpu0", "gpu2"]
        await run.client.use_slot("gpu2", used=False)
        await run.client.use_slot("gpu0", used=True)
        await run.until(lambda s: s.queue and s.queue.finished == 3)
        (tmp_path / "two").touch()
        await run.until_done()
    cards = {mark["GMG_JOB"]: mark["CUDA_VISIBLE_DEVICES"] for mark in marks(marked)}
    assert cards == {"1": "0", "2": "2", "3": "0", "4": "0"}


async def test_a_stopped_sweep_continues_where_it_stopped(sim: Sim, marked: Path, tmp_path: Path) -> None:
    batch = program("--marks", str(marked), "--until", "{until}", gpus="0,")
    spec = sweep_for([{"until": ""}, {"until": str(tmp_path / "go")}, {"until": ""}], batch)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: len(marks(marked)) == 2)
        await run.client.end()
        await run.until(lambda s: s.ended)
    assert {name: record.state for name, record in stored(run).items()} == {
        "job-1": FINISHED,
        "job-2": WAITING,
        "job-3": WAITING,
    }
    (tmp_path / "go").touch()
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert queue.finished == 3
    assert stored(run)["job-2"].last.number == 2
    assert [mark["GMG_JOB"] for mark in marks(marked)] == ["1", "2", "2", "3"]


async def test_a_missing_store_is_an_error_in_one_line(sim: Sim) -> None:
    spec = sweep_for([{}], program(**CARDS))
    (Path(spec.folder) / session.STORE).unlink()
    _, answer = await spawn(spec, sim.env())
    assert not answer["ok"]
    assert "\n" not in answer["error"]


# Jobs of a sweep that need several slots at once: groups of ranks, and single processes that see several cards


def _by_number(run: Running) -> dict[int, JobRecord]:
    return {record.number: record for record in stored(run).values()}


def _ranks(*jobs: dict[str, Value], args: tuple[str, ...] = (), cpu: int = 2, **more: Any) -> RunSpec:
    """A sweep of jobs whose ranks meet each other, on CPU slots."""
    settings = {name: more.pop(name) for name in ("timeout_s",) if name in more}
    return sweep_for(jobs, program(script=RANK, args=args, **settings), cpu=cpu, ddp=DdpSpec(), **more)


async def test_a_job_of_several_ranks_runs_as_a_whole(tmp_path: Path) -> None:
    jobs: list[dict[str, Value]] = [{"ranks": 2}, {"ranks": 1}, {"ranks": 3}]
    spec = _ranks(*jobs, args=("--steps", "5", "--tell", f"{tmp_path}"), cpu=3)
    async with running(spec) as run:
        queue = await run.until_done()
        assert (queue.finished, queue.jobs) == (3, 3)
    records = _by_number(run)
    assert records[1].slots == ("cpu0", "cpu1")
    assert (records[1].group, records[1].world_size) == ("g1", 2)
    assert (records[2].slot, records[2].slots, records[2].world_size) == ("cpu2", (), 1)
    assert records[3].slots == ("cpu0", "cpu1", "cpu2")
    single = records[2].last.fps
    for number, ranks in ((1, 2), (3, 3)):
        fps = records[number].last.fps
        assert fps.last is not None
        assert single.last is not None
        assert fps.last > single.last * (ranks - 0.5), "the rate of a group is that of all its ranks"
    with reader.open_store(run.folder / session.STORE) as store:
        assert [(ran.rank, ran.slot) for ran in store.attempts[3]] == [(rank, f"cpu{rank}") for rank in range(3)]
        assert len({ran.log for ran in store.attempts[3]}) == 3
    detailed = json.loads((run.folder / "detailed_results.json").read_text())["jobs"]
    assert [attempt["rank"] for attempt in detailed[2]["attempts"]] == [0, 1, 2]
    environ = json.loads((tmp_path / "1-1.json").read_text())
    assert environ["WORLD_SIZE"] in ("2", "3")


async def test_a_stop_on_any_slot_stops_the_whole_job_and_the_next_one_starts() -> None:
    args = ("--steps", "{steps}")
    async with running(_ranks({"ranks": 2, "steps": 100000}, {"ranks": 2, "steps": 3}, args=args)) as run:
        await run.until(lambda s: [worker.state for worker in s.workers] == [WorkerState.RUNNING] * 2)
        (group,) = run.snapshot.groups
        assert (group.id, group.job, group.slots) == ("g1", 1, ("cpu0", "cpu1"))
        await run.client.act(Action.STOP, "cpu1")
        queue = await run.until_done()
        assert (queue.stopped, queue.finished) == (1, 1)
    assert _by_number(run)[1].state is STOPPED


async def test_a_wide_job_is_not_starved_and_shows_its_reason() -> None:
    narrow: dict[str, Value] = {"ranks": 1, "steps": 3}
    jobs: list[dict[str, Value]] = [{"ranks": 1, "steps": 100000}, {"ranks": 2, "steps": 3}, *[narrow] * 4]
    async with running(_ranks(*jobs, args=("--steps", "{steps}"))) as run:
        await run.until(lambda s: any(worker.state is WorkerState.RUNNING for worker in s.workers))
        view = await run.client.queue(0, 10)
        waiting = {job.number: job.reason for job in view if job.state is WAITING}
        assert waiting == {2: "for 1 more slot; cpu1 is reserved for it", 3: None, 4: None, 5: None, 6: None}
        assert run.worker("cpu1").reason == "reserved for job 2, which needs 1 more slot"
        await run.client.act(Action.STOP, "cpu0")
        await run.until_done()
    started = {number: record.started or 0.0 for number, record in _by_number(run).items()}
    assert started[2] < min(started[number] for number in (3, 4, 5, 6))


async def test_a_job_that_needs_more_slots_than_there_are_fails_and_the_others_run() -> None:
    async with running(_ranks({"ranks": 3}, {"ranks": 2}, args=("--steps", "3"))) as run:
        queue = await run.until_done()
        assert (queue.failed, queue.finished) == (1, 1)
    assert _by_number(run)[1].reason == "needs 3 slots at once, but there are 2"


async def test_jobs_are_added_to_a_sweep_that_is_done_but_watched() -> None:
    async with running(_ranks({"ranks": 2}, args=("--steps", "3"))) as run:
        await run.until_done()
        for job, error in (
            (JobRecord(0, "wide", world_size=3), "job wide needs 3 slots at once, but there are 2"),
            (JobRecord(0, run.snapshot.workers[0].job_name or "", {"ranks": 1}), "already"),
        ):
            with pytest.raises(GmgError, match=error):
                await run.client.add_jobs(JobRecord(0, "fine", {"ranks": 1}), job)
        await run.client.add_jobs(JobRecord(0, "more", {"ranks": 1}, world_size=1))
        await run.until(lambda _: run.queue.finished == 2)
    assert _by_number(run)[2].name == "more"


async def test_a_group_whose_card_is_lost_runs_again_on_others(sim: Sim, tmp_path: Path) -> None:
    batch = program("--steps", "100", "--tell", str(tmp_path), script=RANK, gpus="0,1,2")
    spec = sweep_for([{"ranks": 2}], batch, ddp=DdpSpec(), interval_s=0.2, restart=RestartMode.NEVER)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: sum(worker.state is WorkerState.RUNNING for worker in s.workers) == 2)
        sim.gpus[1].lost = True
        sim.write()
        await run.until(lambda s: any(sample.lost for sample in s.samples))
        pid = run.worker("gpu1").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        queue = await run.until_done()
        assert queue.finished == 1
    assert _by_number(run)[1].slots == ("gpu0", "gpu2")
