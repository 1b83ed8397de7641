"""One queue over the slots of all nodes."""

import os
from collections import Counter
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.jobs.job_queue import restore_queue
from gmg_tui.model import DdpSpec, TuneSpec, WorkerState
from gmg_tui.model.tried import TriedArguments
from gmg_tui.session.store import reader
from gmg_tui.session.store.writer import StoreWriter
from tests.engine.harness import marks, program, running
from tests.engine.nodes.fleets import SLOTS, agent, nodes, nothing_left, on_nodes, sweep_on_nodes
from tests.engine.test_groups import RANK
from tests.patience import eventually


async def test_jobs_run_on_the_slots_of_all_nodes_each_once(marked: Path) -> None:
    batch = program("--marks", str(marked), "--value", "{value}", "--s", "0.2", "--result")
    spec = sweep_on_nodes([{"value": f"v{number}"} for number in range(20)], batch)
    async with running(spec) as run:
        queue = await run.until_done()
        assert (queue.finished, queue.jobs) == (20, 20)
    seen = marks(marked)
    assert Counter(mark["value"] for mark in seen) == Counter(f"v{number}" for number in range(20))
    assert {mark["GMG_SLOT"] for mark in seen} == set(SLOTS)
    ended = dict.fromkeys(SLOTS, 0.0)
    for mark in seen:  # never two on a slot
        assert mark["began"] >= ended[mark["GMG_SLOT"]]
        ended[mark["GMG_SLOT"]] = mark["ended"]
    records = reader.load_jobs(run.folder / session.STORE)
    assert {record.result["score"] for record in records if record.result} == {2 / 8, 3 / 8}
    assert all(record.last.number == 1 and record.state is WorkerState.FINISHED for record in records)
    assert all((run.folder / str(record.log)).is_file() for record in records)
    nothing_left(spec)


async def test_a_pipe_that_a_script_has_put_in_place_of_the_mark_does_not_hold_up_the_start() -> None:
    spec = sweep_on_nodes([{}], program())
    os.mkfifo(Path(spec.folder, session.NODE_MARK))
    async with running(spec) as run:
        assert (await run.until_done()).finished == 1
    assert (run.folder / session.NODE_MARK).is_file()
    nothing_left(spec)


async def test_a_lost_node_requeues_its_jobs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    spec = sweep_on_nodes([{}] * 8, program("--until", str(go)))
    async with running(spec) as run:
        await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
        agent(spec, "n2").kill()
        # Its next agent may take the jobs before a snapshot shows that they wait.
        await eventually(lambda: "n2 is lost" in run.log())
        go.touch()
        queue = await run.until_done()
        assert (queue.finished, queue.failed) == (8, 0)
    records = reader.load_jobs(run.folder / session.STORE)
    assert Counter(record.last.number for record in records) == {1: 6, 2: 2}
    with reader.open_store(run.folder / session.STORE) as stored:
        reasons = {ran.attempt.reason for of_job in stored.attempts.values() for ran in of_job}
    assert reasons == {None, "n2 is lost"}
    nothing_left(spec)


async def test_a_silent_node_is_lost_and_its_jobs_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    patch = "from gmg_tui.engine.nodes import remote_attempt\nremote_attempt.orphan_end_s = lambda spec: 1.0\n"
    (tmp_path / "sitecustomize.py").write_text(patch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    spec = sweep_on_nodes([{}] * 4, program("--until", str(go)), where=nodes(lost_after_s=6.0))
    async with running(spec) as run:
        await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
        stopped = agent(spec, "n2")
        stopped.suspend()
        await run.until(lambda snapshot: snapshot.nodes[1].lost_since is not None)
        await run.until(lambda snapshot: snapshot.queue is not None and snapshot.queue.waiting == 2)
        go.touch()
        queue = await run.until_done()
        assert queue.finished == 4
        stopped.resume()
        await run.client.end()
    records = reader.load_jobs(run.folder / session.STORE)
    assert {record.slot.partition("/")[0] for record in records if record.slot} == {"n1"}
    assert [record.state for record in records] == [WorkerState.FINISHED] * 4
    nothing_left(spec)


async def test_a_job_whose_node_is_lost_when_the_session_ends_may_still_be_running(tmp_path: Path) -> None:
    """It is held back at a resume, like one whose engine was killed."""
    spec = sweep_on_nodes([{}] * 4, program("--until", str(tmp_path / "go")), where=nodes(lost_after_s=6.0))
    async with running(spec) as run:
        await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
        stopped = agent(spec, "n2")
        stopped.suspend()
        await run.until(lambda snapshot: snapshot.nodes[1].lost_since is not None)
        await run.client.end()
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
        stopped.resume()
    writer = StoreWriter(run.folder / session.STORE, lambda line: None)
    writer.start()
    assert spec.sweep is not None
    queue = restore_queue(run.folder / session.STORE, spec.sweep, 4, writer, TriedArguments())
    await writer.close()
    assert {slot for slots in queue.left.values() for slot in slots} == set(SLOTS[2:])
    nothing_left(spec)


async def test_a_tuning_waits_for_no_trial_on_a_lost_node(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)")
    where, tuned = nodes(lost_after_s=6.0), TuneSpec(low=64, high=128)
    spec = sweep_on_nodes([], program("-B", "{n_envs}", script=str(script)), 1, where, tune=tuned)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("n1/cpu0").pid and run.worker("n2/cpu0").pid)
        stopped = agent(spec, "n2")
        stopped.suspend()
        await run.until(lambda s: s.tuning and [t.slot for t in s.tuning.trials if t.reason == "its node is lost"])
        stopped.resume()
        await run.client.end(kill=True)
    nothing_left(spec)


async def test_a_result_too_large_for_a_message_does_not_disconnect_its_node(tmp_path: Path) -> None:
    script = tmp_path / "seeds.py"
    script.write_text("print('gmg:result {\"seed\": 123456789012345678901234567890}')\n")
    async with running(sweep_on_nodes([{}] * 4, program(script=str(script)))) as run:
        assert (await run.until_done()).finished == 4
    records = reader.load_jobs(run.folder / session.STORE)
    assert {str(record.result["seed"]) for record in records if record.result} == {"123456789012345678901234567890"}


async def test_a_job_of_several_ranks_takes_slots_of_several_nodes() -> None:
    spec = sweep_on_nodes([{"ranks": 3}], program("--steps", "4", script=RANK), ddp=DdpSpec())
    async with running(spec) as run:
        assert (await run.until_done()).finished == 1, await run.jobs()
    (record,) = reader.load_jobs(run.folder / session.STORE)
    assert record.slots == SLOTS[:3]


async def test_metrics_of_jobs_on_nodes_are_in_the_store_of_the_session(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("for epoch in range(1, 4):\n    print(f'epoch {epoch}/3 loss {1 / epoch:.2f}')\n")
    async with running(on_nodes(script=str(script))) as run:
        await run.until(lambda _: all(run.worker(slot).state is WorkerState.FINISHED for slot in SLOTS))
        assert (await run.client.curves("n2/cpu1"))["loss"].last == 0.33
    with reader.open_store(run.folder / session.STORE) as stored:
        curves = [ran.curves["loss"] for number in range(1, 5) for ran in stored.curves_of(number)]
    assert [(curve.count, curve.lowest and curve.lowest.step) for curve in curves] == [(3, 3)] * 4
