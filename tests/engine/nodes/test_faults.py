"""What goes wrong between an engine and its nodes, by doing it: connections, agents and engines that end or stand still."""

import asyncio
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from gmg_tui.model import WorkerState
from gmg_tui.session.protocol import Action
from tests.engine.harness import Running, running, spawn, spec_for
from tests.engine.nodes.fleets import (
    ENDLESS,
    SLOTS,
    agent,
    agents_of,
    bridge,
    connected,
    marked,
    nodes,
    nothing_left,
    on_nodes,
)
from tests.nvml_sim import Process, Sim
from tests.patience import eventually

RUNNING = WorkerState.RUNNING


async def all_run(run: Running) -> dict[str, int]:
    for slot in SLOTS:
        await run.until_state(slot, RUNNING)
    await run.until(lambda _: all(run.worker(slot).pid for slot in SLOTS))
    return {slot: run.worker(slot).pid or 0 for slot in SLOTS}


def numbers(path: Path) -> list[int]:
    """The numbers of the lines that a worker has written, in their order."""
    return [int(line.split()[0]) for line in path.read_text().rpartition("\n")[0].splitlines()]


async def test_an_engine_that_cannot_listen_leaves_no_agent() -> None:
    spec = structs.replace(on_nodes(where=nodes(orphan_wait_s=3600.0)), socket="/proc/gmg-tui/no.sock")
    _, reply = await spawn(spec)
    assert (reply["ok"], reply["exit_code"]) == (False, 1)
    nothing_left(spec)


def _node_of(process: psutil.Process) -> str | None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return str(process.environ().get("GMG_NODE"))
    return None


async def test_an_engine_that_is_ended_while_its_nodes_start_leaves_no_agent() -> None:
    spec = on_nodes(where=nodes(orphan_wait_s=3600.0))
    starting = asyncio.create_task(spawn(spec))

    def second() -> list[psutil.Process]:
        found = {each.pid: each for each in psutil.Process().children(recursive=True) if _node_of(each) == "n2"}
        return [each for each in found.values() if each.ppid() not in found]  # without what it has just forked

    await eventually(second)
    (bridge_of_second,) = second()
    bridge_of_second.suspend()  # that node does not answer
    await eventually(lambda: agents_of(spec.name, "n1"))
    psutil.Process(bridge_of_second.ppid()).terminate()
    _, reply = await starting
    assert (reply["ok"], reply["exit_code"]) == (False, 130)
    nothing_left(spec)


async def test_a_cut_connection_loses_no_line_and_no_worker(tmp_path: Path) -> None:
    spec = on_nodes(*ENDLESS, "--stamp", str(tmp_path / "{i}"))
    async with running(spec) as run:
        pids = await all_run(run)
        await run.client.watch(lines=True)
        bridge(run.process.pid, "n2").kill()
        await eventually(lambda: "n2 is connected again" in run.log())  # on a busy machine no snapshot shows the break
        await run.until(lambda snapshot: connected(snapshot)["n2"])
        end = run.worker("n2/cpu0").log_lines
        await run.until(lambda _: run.worker("n2/cpu0").log_lines > end + 20)
        assert {slot: run.worker(slot).pid for slot in SLOTS} == pids
        assert {run.worker(slot).attempt for slot in SLOTS} == {1}
        await run.until_lines("n2/cpu0", lambda lines: max(lines, default=0) > end + 20)
        seen = sorted(run.lines["n2/cpu0"])
        assert all(after == before + 1 for before, after in pairwise(seen))
        await run.client.end()
    written = numbers(tmp_path / "2")
    assert run.output("n2/cpu0").count(b"Running at") >= len(written)
    nothing_left(spec)


async def test_a_stalled_network_loses_no_worker_and_commands_are_delivered_afterwards() -> None:
    spec = on_nodes(*ENDLESS, where=nodes(lost_after_s=30.0))
    async with running(spec) as run:
        before = await all_run(run)
        there = bridge(run.process.pid, "n1")
        there.suspend()
        await run.until(lambda snapshot: snapshot.nodes[0].silent_s is not None)
        assert run.worker("n1/cpu0").state is RUNNING
        await run.client.act(Action.STOP, "n1/cpu0")
        there.resume()
        await run.until_state("n1/cpu0", WorkerState.STOPPED)
        await run.until(lambda snapshot: snapshot.nodes[0].silent_s is None)
        assert {slot: run.worker(slot).pid for slot in SLOTS[1:]} == {slot: before[slot] for slot in SLOTS[1:]}
        await run.client.end()
    nothing_left(spec)


async def test_workers_of_a_lost_node_are_stopped_and_restarted_once_it_is_back() -> None:
    spec = on_nodes(*ENDLESS, where=nodes(lost_after_s=6.0))
    async with running(spec) as run:
        before = await all_run(run)
        bridge(run.process.pid, "n2").suspend()
        await run.until(lambda snapshot: snapshot.nodes[1].lost_since is not None)
        await run.client.act(Action.RESTART, "n2/cpu0")
        await run.client.act(Action.STOP, "n2/cpu1")
        await run.until_state("n2/cpu1", WorkerState.STOPPED)
        await run.until(lambda _: run.worker("n2/cpu0").attempt == 2 and run.worker("n2/cpu0").state is RUNNING)
        assert {slot: run.worker(slot).pid for slot in SLOTS[:2]} == {slot: before[slot] for slot in SLOTS[:2]}
        await eventually(lambda: before["n2/cpu1"] not in {process.pid for process in marked(spec.name)})
        await run.client.end()
    nothing_left(spec)


async def test_gpu_metrics_come_from_their_node_and_are_unknown_while_it_is_silent(sim: Sim) -> None:
    spec = spec_for(*ENDLESS, cpu=None, gpus="0,1", nodes=nodes())
    async with running(spec, sim.env()) as run:

        def known() -> list[bool]:
            return [sample.power_w is not None for sample in run.snapshot.samples]

        def owners() -> list[str | None]:
            return [process.slot for sample in run.snapshot.samples for process in sample.processes or ()]

        await run.until(lambda snapshot: known() == [True] * 4 and all(worker.pid for worker in snapshot.workers))
        pid = run.worker("n1/gpu0").pid
        assert pid is not None
        sim.gpus[0].processes = [Process(pid)]  # both nodes have this GPU: the number is the same on either machine
        sim.write()
        await run.until(lambda _: owners() == ["n1/gpu0", None])
        there = bridge(run.process.pid, "n1")
        there.suspend()
        await run.until(lambda _: known() == [False, False, True, True])
        assert not [sample.error for sample in run.snapshot.samples if sample.error]
        there.resume()
        await run.until(lambda _: known() == [True] * 4)
        await run.client.end()
    nothing_left(spec)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_workers_of_an_agent_that_is_ended_restart(number: signal.Signals) -> None:
    """SIGTERM as by a reboot of its machine: nobody has asked the session to stop them."""
    spec = on_nodes(*ENDLESS)
    async with running(spec) as run:
        before = await all_run(run)
        agent(spec, "n2").send_signal(number)
        for slot in ("n2/cpu0", "n2/cpu1"):
            await run.until_attempt(slot, 2)
            await run.until_state(slot, RUNNING)
        details = await run.client.details("n2/cpu0")
        assert details.env["GMG_ATTEMPT"] == "2"
        assert {slot: run.worker(slot).pid for slot in SLOTS[:2]} == {slot: before[slot] for slot in SLOTS[:2]}
        await run.client.end()
    nothing_left(spec)


async def test_ended_workers_do_not_restart_when_their_agent_is_killed() -> None:
    spec = on_nodes("--lines", "5", "--phase-s", "0.01")
    async with running(spec) as run:
        for slot in SLOTS:
            await run.until_state(slot, WorkerState.FINISHED)
        agent(spec, "n2").kill()
        await eventually(lambda: "n2 is connected again" in run.log())
        moment = run.snapshot.time
        await run.until(lambda snapshot: connected(snapshot)["n2"] and snapshot.time > moment + 2)
        assert not marked(spec.name)
        assert {(run.worker(slot).state, run.worker(slot).attempt) for slot in SLOTS} == {(WorkerState.FINISHED, 1)}
    nothing_left(spec)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_signal_to_the_engine_ends_its_workers_cleanly(number: signal.Signals) -> None:
    spec = on_nodes(*ENDLESS, where=nodes(orphan_wait_s=2.0))
    async with running(spec) as run:
        await all_run(run)
        run.process.send_signal(number)
        await run.process.wait()
        await eventually(lambda: not marked(spec.name) and not agents_of(spec.name))
    # They were stopped by SIGINT: Genesis saves its kernels then.
    for slot in SLOTS:
        assert b"caching compiled kernels" in run.output(slot)


_SILENT_NAME_SERVER = """
import socket, threading
socket.gethostbyname = lambda name: threading.Event().wait()
"""


async def test_a_name_server_that_does_not_answer_holds_up_no_node(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SILENT_NAME_SERVER)
    spec = on_nodes("--lines", "4", "--phase-s", "0.01")
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    assert {worker.state for worker in snapshot.workers} == {WorkerState.FINISHED}
    nothing_left(spec)
