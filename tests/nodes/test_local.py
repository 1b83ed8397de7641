"""A plain run on two nodes: what a worker is given and does, commands, logs and the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmg_tui.engine.launchers.launcher import Local
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import running
from tests.nodes.fleets import SLOTS, nothing_left, on_nodes

RUNNING = WorkerState.RUNNING


async def test_workers_of_all_nodes_are_one_session(tmp_path: Path) -> None:
    spec = on_nodes("--lines", "4", "--phase-s", "0.01", "--print-env", str(tmp_path / "{i}-of-{n}"))
    async with running(spec) as run:
        assert [slot.name for slot in run.client.welcome.session.slots] == list(SLOTS)
        await run.until(lambda snapshot: snapshot.ended)
    for index, slot in enumerate(SLOTS):
        env = json.loads((tmp_path / f"{index}-of-4").read_text())["env"]
        names = ("GMG_SESSION", "GMG_SLOT", "GMG_WORKER_INDEX", "GMG_NUM_WORKERS")
        assert tuple(env[name] for name in names) == (spec.name, slot, str(index), "4")
        assert b"Running at" in run.output(slot)
    summary = run.summary()
    assert [worker["slot"] for worker in summary["workers"]] == list(SLOTS)
    assert [worker["node"] for worker in summary["workers"]] == ["n1", "n1", "n2", "n2"]
    assert {worker["state"] for worker in summary["workers"]} == {"finished"}
    nothing_left(spec)


async def test_a_worker_on_a_node_is_stopped_restarted_and_edited() -> None:
    async with running(on_nodes("--lines", "100000", "--phase-s", "0.01")) as run:
        for slot in SLOTS:
            await run.until_state(slot, RUNNING)
        await run.client.act(Action.STOP, "n2/cpu1")
        await run.until_state("n2/cpu1", WorkerState.STOPPED)
        await run.client.act(Action.RESTART, "n2/cpu1")
        await run.until(lambda _: (run.worker("n2/cpu1").attempt, run.worker("n2/cpu1").state) == (2, RUNNING))
        args = ("--lines", "100000", "--phase-s", "0.01", "-B", "32")
        await run.client.edit(("n1/cpu0",), args, {"A": "b"})
        await run.until(lambda _: (run.worker("n1/cpu0").attempt, run.worker("n1/cpu0").newest.n_envs) == (2, 32))
        details = await run.client.details("n1/cpu0")
        assert [attempt.number for attempt in details.attempts] == [1, 2]
        assert details.env["GMG_ATTEMPT"] == "2"
        assert details.args == args
        await run.client.act(Action.KILL, *SLOTS)
        await run.until(lambda snapshot: snapshot.ended)


@pytest.mark.parametrize("where", ["0", "x", "-1"])
def test_the_number_of_agents_is_checked(where: str) -> None:
    with pytest.raises(GmgError, match=f"--nodes local:{where}: give how many agents to start on this machine"):
        Local(where)
