"""Jobs of a sweep that need several slots at once: groups of ranks, and single processes that see several cards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from gmg_tui import session
from gmg_tui.model import DdpSpec, JobRecord, RestartMode, RunSpec, Value, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.store import reader
from tests.nvml_sim import Sim

from .harness import Running, program, running, sweep_for
from .test_groups import RANK

FINISHED, FAILED, STOPPED, WAITING = WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED, WorkerState.WAITING


def _stored(run: Running) -> dict[int, JobRecord]:
    return {record.number: record for record in reader.load_jobs(run.folder / session.STORE)}


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
    records = _stored(run)
    assert records[1].slots == ("cpu0", "cpu1")
    assert (records[1].group, records[1].world_size) == ("g1", 2)
    assert (records[2].slot, records[2].slots, records[2].world_size) == ("cpu2", (), 1)
    assert records[3].slots == ("cpu0", "cpu1", "cpu2")
    single = records[2].last.fps
    assert single is not None
    for number, ranks in ((1, 2), (3, 3)):
        fps = records[number].last.fps
        assert fps is not None
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
    assert _stored(run)[1].state is STOPPED


async def test_a_wide_job_is_not_starved_and_shows_its_reason() -> None:
    narrow: dict[str, Value] = {"ranks": 1, "steps": 3}
    jobs: list[dict[str, Value]] = [{"ranks": 1, "steps": 100000}, {"ranks": 2, "steps": 3}, *[narrow] * 4]
    async with running(_ranks(*jobs, args=("--steps", "{steps}"))) as run:
        await run.until(lambda s: any(worker.state is WorkerState.RUNNING for worker in s.workers))
        view = await run.client.queue(0, 10)
        waiting = {job.number: job.reason for job in view if job.state is WAITING}
        assert waiting == {2: "for 1 more slot; cpu1 is kept for it", 3: None, 4: None, 5: None, 6: None}
        assert run.worker("cpu1").reason == "kept for job 2, which needs 1 more slot"
        await run.client.act(Action.STOP, "cpu0")
        await run.until_done()
    started = {number: record.started or 0.0 for number, record in _stored(run).items()}
    assert started[2] < min(started[number] for number in (3, 4, 5, 6))


async def test_a_job_that_needs_more_slots_than_there_are_fails_and_the_others_run() -> None:
    async with running(_ranks({"ranks": 3}, {"ranks": 2}, args=("--steps", "3"))) as run:
        queue = await run.until_done()
        assert (queue.failed, queue.finished) == (1, 1)
    assert _stored(run)[1].reason == "needs 3 slots at once, and there are 2"


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
    assert _stored(run)[1].slots == ("gpu0", "gpu2")
