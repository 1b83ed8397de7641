"""Commands, losses and ends that meet a state which another machine has changed."""

import asyncio
import time
from pathlib import Path
from unittest.mock import AsyncMock, MagicMock

import pytest
from msgspec import structs

from gmg_tui import model, session
from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import Outcome, StopCause, Task
from gmg_tui.engine.launchers.launcher import Local
from gmg_tui.engine.nodes.fleet import Fleet
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.engine.nodes.states import AttemptReport
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.engine.workers.worker import Worker
from gmg_tui.model import NO_ATTEMPT, DdpSpec, NodesSpec, Session, Slot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.engine.harness import JOB, lives, program, running, spec_for
from tests.engine.nodes.fleets import SLOTS, agent, nothing_left, on_nodes, sweep_on_nodes
from tests.engine.test_groups import RANK
from tests.patience import eventually

_WAITS = """
import os, pathlib, signal, sys, time
if os.environ["GMG_SLOT"].endswith("cpu1"):  # it keeps the agent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""


async def test_the_jobs_of_an_agent_that_is_ended_run_again(tmp_path: Path) -> None:
    """As by a reboot of its machine, or `scancel`: nobody has asked the session to stop them."""
    go, script = tmp_path / "go", tmp_path / "waits.py"
    script.write_text(_WAITS)
    spec = sweep_on_nodes([{}] * 4, program(str(go), script=str(script), sigint_wait_s=3.0))
    async with running(spec) as run:
        await run.until(lambda _: all(run.worker(slot).log_lines for slot in SLOTS))
        agent(spec, "n2").terminate()
        await eventually(lambda: "n2 is lost" in run.log())
        go.touch()
        queue = await run.until_done()
        assert (queue.finished, queue.stopped) == (4, 0)
    nothing_left(spec)


async def test_a_stopped_job_is_not_run_again_because_its_node_was_lost(tmp_path: Path) -> None:
    batch = program("--steps", "100000", "--deaf", script=RANK, sigterm_wait_s=8.0)
    spec = sweep_on_nodes([{"ranks": 2}], batch, cpu=1, ddp=DdpSpec())
    async with running(spec) as run:
        await run.until(lambda snapshot: all(worker.state is WorkerState.RUNNING for worker in snapshot.workers))
        agent(spec, "n2").kill()
        await run.until_state("n1/cpu0", WorkerState.STOPPING)
        await run.client.act(Action.STOP, "n1/cpu0")
        queue = await run.until_done()
        assert (queue.waiting, queue.finished) == (0, 0)
    (record,) = reader.load_jobs(run.folder / session.STORE)
    assert (record.state.ended, record.last.number) == (True, 1)
    nothing_left(spec)


@pytest.mark.slow
async def test_groups_that_start_together_on_a_node_have_ports_of_their_own(tmp_path: Path) -> None:
    spec = on_nodes("--steps", "3", "--tell", str(tmp_path), script=RANK, cpu=8, ddp=DdpSpec(2))
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert {(worker.state, worker.attempt) for worker in run.snapshot.workers} == {(WorkerState.FINISHED, 1)}
    nothing_left(spec)


async def test_an_edit_before_the_node_reports_the_start_runs_with_the_new_arguments() -> None:
    """The process may have begun there already; it is ended, and another follows."""
    spec = spec_for(nodes=NodesSpec("local"))
    node = Node("n1", spec, Local("1"), lambda: None, lambda _: None)
    node.available.set()
    slot = Slot("n1/cpu0", node="n1")
    place = MagicMock(create_attempt=lambda _, worker: RemoteAttempt(node, worker))
    place.spec = spec
    worker = Worker(EngineSlot(slot, 0, 1), Task((), {}, 0, 1), place, MagicMock())
    running = asyncio.create_task(worker.run())
    await eventually(lambda: (attempt := node.attempts.get(slot.name)) and attempt.assignment)
    first = node.attempts[slot.name]
    worker.edit(("--new",), {})
    begun = model.Worker(slot.name, 0, WorkerState.STARTING, newest=structs.replace(NO_ATTEMPT, number=1))
    for outcome in (None, Outcome(cause=StopCause.COMMAND)):
        first.apply_report(AttemptReport(first.assignment.key, begun, outcome=outcome))
    await eventually(lambda: (attempt := node.attempts.get(slot.name)) not in (None, first) and attempt.assignment)
    assert node.attempts[slot.name].task.args == ("--new",)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_job_that_is_restarted_after_its_node_was_lost_returns_to_the_queue() -> None:
    """Between two attempts, while the restart is delayed, the node has none of its attempts to return."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Local("1"), lambda: None, lambda _: None)
    node.lost_since = 1.0
    task = Task((), {}, 0, 1, job=1)
    attempt = RemoteAttempt(node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=task))
    outcome = await attempt.run()
    assert (outcome.unready, attempt.assignment) == ("n1 is lost", None)


async def test_a_job_that_is_restarted_while_its_node_is_lost_waits_for_the_end_of_its_process_there() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Local("1"), lambda: None, lambda _: None)
    node.lost_since, task = clock.now(), Task((), {}, 0, 1, job=1)
    attempt = RemoteAttempt(node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=task))
    running = asyncio.create_task(attempt.run())
    for _ in range(9):
        await asyncio.sleep(0)
    assert not running.done()
    node.lost_since = None
    node.available.set()
    await eventually(lambda: attempt.assignment)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("failed_resumes", [0, 2])
async def test_a_resumed_session_ends_processes_that_its_killed_engine_left_on_the_nodes(
    failed_resumes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each job would run twice at once, and write the same checkpoints."""
    go = tmp_path / "go"
    spec = sweep_on_nodes([{}] * 4, program("--until", str(go)))
    async with running(spec) as run:
        before = [await run.pid(slot) for slot in SLOTS]
        run.process.kill()
        await run.process.wait()
    monkeypatch.setenv("GMG_SSH", "false")
    for _ in range(failed_resumes):
        fleet = Fleet(spec, NodesSpec("ssh:h1"))
        with pytest.raises(GmgError, match="1 of 1 node cannot be used"):
            await fleet.start(lambda _: None)
        await fleet.end(kill=True)
    async with running(spec) as run:
        await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
        assert not any(map(lives, before))
        go.touch()
        assert (await run.until_done()).finished == 4
    nothing_left(spec)


async def test_a_job_left_on_a_node_that_is_no_longer_used_is_held_back() -> None:
    """As in another Slurm allocation."""
    fleet = Fleet(sweep_on_nodes([{}], program()), NodesSpec("local:1"))
    now = time.time()
    assert 0 < fleet.left_s(["n9/cpu0"], now - 5) < fleet.left_s(["n9/cpu0"], now)
    assert fleet.left_s(["cpu0"], now) == 0
    assert fleet.left_s(["n9/cpu0"], now - 1000) == 0


@pytest.mark.parametrize(("is_sweep", "is_left"), [(False, False), (True, True)], ids=["run", "sweep"])
async def test_a_session_ends_once_all_that_it_waits_for_has_not_answered_for_an_hour(
    is_sweep: bool, is_left: bool
) -> None:
    """A worker that has finished needs no node; a slot of a queue with waiting jobs does."""
    spec = sweep_on_nodes([{}], program()) if is_sweep else on_nodes()
    fleet, ends, now = Fleet(spec, NodesSpec("local:2")), list[str](), time.monotonic()
    fleet.on_all_gone = ends.append
    for name, state, silent_s in (("n1", WorkerState.FINISHED, 0.0), ("n2", WorkerState.RESTARTING, 3590.0)):
        node = fleet._nodes[name] = Node(name, spec, Local("2"), lambda: None, lambda _: None)
        slot = Slot(f"{name}/cpu0", node=name)
        node.session, node.received_at = Session(spec, (slot,), 0, 0.0, ""), now - silent_s
        fleet._slots = {**fleet._slots, slot.name: EngineSlot(slot, 0, 2)}
        fleet._slots[slot.name].worker = MagicMock(state=state)
    fleet._nodes["n3"] = never = Node("n3", spec, Local("2"), lambda: None, lambda _: None)
    fleet._slots = {**fleet._slots, "n3/cpu0": EngineSlot(Slot("n3/cpu0", node="n3"), 0, 2)}
    fleet._slots["n3/cpu0"].worker = MagicMock(state=WorkerState.WAITING)
    never.received_at = now - 3590.0
    fleet._check_any_left(now - 3590.0)
    for later_s in (0.0, 20.0, 40.0):
        fleet._nodes["n1"].received_at = now + later_s
        fleet._nodes["n2"].check(now + later_s, delayed_s=0.0)
        fleet._check_any_left(now + later_s)
        assert len(ends) == (0 if is_left or not later_s else 1), later_s
    assert all(
        text.startswith(("no node is left: n2 lost since ", "no node is left: n3 has not answered")) for text in ends
    )
    fleet._are_all_gone, ended = False, [*ends]
    for engine_slot in fleet._slots.values():
        engine_slot.worker, engine_slot.drained = None, True
    fleet._check_any_left(now + 50.0)
    fleet._slots["n2/cpu0"].worker, fleet._slots["n2/cpu0"].drained = MagicMock(state=WorkerState.WAITING), False
    fleet._check_any_left(now + 60.0)
    assert ends == ended, "it has not waited for the node meanwhile"


_FEWER = """
import sys
if any("gmg_tui" in word for word in sys.orig_argv):
    from pathlib import Path
    from gmg_tui.machine.gpu import selection
    slots = selection.cpu_slots
    selection.cpu_slots = lambda number: slots(1 if Path({flag!r}).exists() else number)
"""


@pytest.mark.parametrize("is_sweep", [False, True], ids=["run", "sweep"])
async def test_a_node_that_returns_with_fewer_slots_ends_the_workers_on_the_others(
    tmp_path: Path, is_sweep: bool
) -> None:
    """As after a reboot without a broken GPU. Nothing waits for the slot: its job runs elsewhere."""
    flag, go = tmp_path / "flag", tmp_path / "go"
    (tmp_path / "sitecustomize.py").write_text(_FEWER.format(flag=str(flag)))
    spec = sweep_on_nodes([{}] * 5, program("--until", str(go)))
    if not is_sweep:
        spec = on_nodes("--until", str(go), script=JOB)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
        flag.touch()
        agent(spec, "n2").kill()
        await run.until(lambda _: "n2 no longer has cpu1" in (run.worker("n2/cpu1").reason or ""))
        go.touch()
        await run.until(lambda snapshot: snapshot.ended)
        if is_sweep:
            assert run.queue.finished == 5
        else:
            assert [run.worker(slot).state for slot in SLOTS] == [WorkerState.FINISHED] * 3 + [WorkerState.FAILED]
    nothing_left(spec)
