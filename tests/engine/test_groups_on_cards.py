"""Groups of ranks on simulated cards: who sees which, what is left over, and a card that is lost under a rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from gmg_tui.model import DdpSpec, RestartMode, RunSpec, Snapshot, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.report.text import at_end as final
from gmg_tui.ui.header import notices
from gmg_tui.ui.view import View
from tests.nvml_sim import Sim

from .harness import Running, running
from .test_groups import group_of

RUNNING = WorkerState.RUNNING
PAIRS = [("gpu0", "gpu1"), ("gpu2", "gpu3"), ("gpu4", "gpu5"), ("gpu6", "gpu7")]


def _pairs(*args: str, virtual: bool = False, **more: Any) -> RunSpec:
    return group_of(*args, cpu=None, ddp=DdpSpec(2, virtual), interval_s=0.2, **more)


def _states(snapshot: Snapshot) -> list[WorkerState]:
    return [group.state for group in snapshot.groups]


@pytest.mark.parametrize(
    ("virtual", "visible", "local"),
    [
        (False, [pair for pair in ("0,1", "2,3", "4,5", "6,7") for _ in range(2)], ["0", "1"] * 4),
        (True, list("01234567"), ["0"] * 8),
    ],
)
async def test_ranks_see_all_cards_of_their_group_or_only_their_own(
    sim: Sim, tmp_path: Path, virtual: bool, visible: list[str], local: list[str]
) -> None:
    for index in range(8):
        (tmp_path / f"gpu{index}").mkdir()
    spec = _pairs("--steps", "3", "--tell", f"{tmp_path}/{{slot}}", virtual=virtual)
    async with running(spec, sim.env()) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert [group.slots for group in run.snapshot.groups] == PAIRS
        assert _states(run.snapshot) == [WorkerState.FINISHED] * 4
        shown = [(await run.client.details(f"gpu{index}")).env for index in range(8)]
        await run.client.end()
    environs = [json.loads((tmp_path / f"gpu{index}" / f"{index % 2}-1.json").read_text()) for index in range(8)]
    for envs in (shown, environs):
        assert [env["CUDA_VISIBLE_DEVICES"] for env in envs] == visible
        assert [env["LOCAL_RANK"] for env in envs] == local
        assert [env["RANK"] for env in envs] == ["0", "1"] * 4
        assert len({env["MASTER_PORT"] for env in envs}) == 4


async def test_a_card_without_a_group_is_named_on_the_screen_and_in_the_summaries(
    nvml_library: Path, tmp_path: Path
) -> None:
    sim = Sim(tmp_path / "seven", nvml_library, count=7)
    async with running(_pairs("--steps", "3"), sim.env()) as run:
        await run.until(lambda snapshot: snapshot.ended)
        welcome = run.client.welcome
        assert [group.slots for group in run.snapshot.groups] == PAIRS[:3]
        text = "gpu6 stays idle: 7 slots make groups of 2"
        assert text in [note.text for note in notices(View(welcome))]
        assert text in final(welcome.session, run.snapshot)
        await run.client.end()
    assert run.summary()["idle_slots"] == ["gpu6"]


async def _all_running(run: Running) -> list[psutil.Process]:
    await run.until(lambda snapshot: {worker.state for worker in snapshot.workers} == {RUNNING})
    return [psutil.Process(worker.pid) for worker in run.snapshot.workers]


async def test_a_lost_card_ends_only_its_group_with_that_cause(sim: Sim) -> None:
    spec = _pairs("--steps", "1000000", "--cuda", restart=RestartMode.NEVER)
    async with running(spec, sim.env()) as run:
        ranks = await _all_running(run)
        lines = [worker.log_lines for worker in run.snapshot.workers]
        sim.gpus[3].lost = True
        sim.write()
        await run.until(lambda snapshot: snapshot.groups[1].state is WorkerState.FAILED)
        second, third = run.worker("gpu2"), run.worker("gpu3")
        assert (third.reason or "").startswith("the GPU is lost: it has fallen off the bus")
        assert (third.advice or "").endswith(
            "the script ended with RuntimeError: CUDA error: unspecified launch failure"
        )
        assert run.snapshot.groups[1].reason == f"rank 1: {third.reason}"
        assert second.reason == f"ended with the group: rank 1: {third.reason}"
        assert not ranks[2].is_running()
        await run.until(
            lambda snapshot: all(
                worker.log_lines > before + 10
                for worker, before in zip(snapshot.workers, lines, strict=True)
                if worker.group and worker.group.id != "g1"
            )
        )
        assert _states(run.snapshot) == [RUNNING, WorkerState.FAILED, RUNNING, RUNNING]
        assert [worker.attempt for worker in run.snapshot.workers] == [1] * 8
        await run.client.end(kill=True)


async def test_a_group_with_a_lost_card_restarts_only_when_the_card_is_back(sim: Sim) -> None:
    async with running(_pairs("--steps", "1000000", "--cuda", gpus="4"), sim.env()) as run:
        await _all_running(run)
        sim.gpus[2].lost = True
        sim.write()
        await run.until(lambda snapshot: snapshot.groups[1].state is WorkerState.FAILED)
        await run.client.act(Action.RESTART, "gpu3")
        text = f"rank 0: {sim.gpus[2].uuid}: "
        snapshot = await run.until(
            lambda s: s.groups[1].state is WorkerState.FAILED and (s.groups[1].reason or "").startswith(text)
        )
        assert "\n" not in (snapshot.groups[1].reason or "")
        assert snapshot.groups[0].state is RUNNING
        sim.gpus[2].lost = False
        sim.write()
        await run.client.act(Action.RESTART, "gpu3")
        await run.until(lambda snapshot: _states(snapshot) == [RUNNING, RUNNING])
        assert {worker.state for worker in run.snapshot.workers} == {RUNNING}
        await run.client.end(kill=True)
